package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/dbqpg/dbqpg/estimators/gp/kernels"
	"github.com/dbqpg/dbqpg/estimators/gp/statekernel"
	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/sim"
)

// Bounds beyond which a setting is taken for a mistake.
const (
	maxBatch  = 10_000_000
	maxLayers = 8
	maxWidth  = 4096
	maxActors = 4096
)

// Validate returns what is wrong with the settings, nil if nothing is: every finding, each on one line that says
// what to do about it.
func (s *Settings) Validate() error {
	var v findings
	v.require(s.Iterations > 0, "--iterations 0: at least 1 is needed")
	v.require(s.Batch > 0 && s.Batch <= maxBatch, "--batch %d: must be from 1 to %d", s.Batch, maxBatch)
	v.positive("clip", s.Clip)
	v.require(s.Gamma > 0 && s.Gamma <= 1, "--gamma %v: must be above 0 and at most 1", s.Gamma)
	v.require(s.GAELambda >= 0 && s.GAELambda <= 1, "--gae-lambda %v: must be from 0 to 1", s.GAELambda)
	v.require(!s.Bootstrap || s.Targets == GAE, "--bootstrap: returns have no values to go on with; add --targets gae")
	if s.Algorithm != TRPO {
		v.positive("learning-rate", s.LearningRate)
	}
	v.positive("max-kl", s.MaxKL)
	v.positive("damping", s.Damping)
	s.validateQuadrature(&v)
	if _, err := kernels.Lookup(s.BaseKernel); err != nil {
		v = append(v, fmt.Errorf("--base-kernel: %w", err))
	}
	s.validateTask(&v)
	s.validateMachine(&v)
	v.require(s.RunDir != "", "--run-dir: must not be empty")
	return v.join()
}

// findings is what is wrong, in the order it was found.
type findings []error

func (v *findings) require(ok bool, format string, args ...any) {
	if !ok {
		*v = append(*v, fmt.Errorf(format, args...))
	}
}

func (v *findings) join() error { return errors.Join(*v...) }

func (v *findings) positive(flag string, x float64) {
	v.require(x > 0 && !math.IsInf(x, 0), "--%s %v: must be a number above 0", flag, x)
}

// validateQuadrature checks what Bayesian quadrature is asked for.
func (s *Settings) validateQuadrature(v *findings) {
	v.require(s.C1 >= 0 && !math.IsInf(s.C1, 0), "--c1 %v: must be a number from 0 on", s.C1)
	v.positive("c2", s.C2)
	v.require(s.FisherKernel != Exact || s.Solver == ConjugateGradient || s.Estimator == MonteCarlo,
		"--fisher-kernel exact: it is known by its products alone and has no closed form; add --solver cg")
	v.require(s.Inducing >= 0 && s.Inducing <= statekernel.MaxColumns,
		"--inducing %d: must be 0, which interpolates, or the number of inducing points, at most %d", s.Inducing, statekernel.MaxColumns)
	v.require(s.Inducing <= s.Batch, "--inducing %d: they are chosen among the samples, and there are only %d steps in a batch; lower it, or raise --batch", s.Inducing, s.Batch)
	v.require(s.Inducing <= 0 || s.Solver == Direct, "--inducing %d: conjugate gradients are for the grid; leave out --solver cg", s.Inducing)
	v.require(s.FisherSamples >= 1 && s.FisherSamples*float64(s.Batch) <= maxBatch,
		"--fisher-samples %vx: must be 1x or more, and with --batch %d at most %d steps", s.FisherSamples, s.Batch, maxBatch)
	v.require(s.FisherSamples == 1 || s.Estimator != MonteCarlo || s.Algorithm != Vanilla,
		"--fisher-samples: there is no Fisher matrix in vanilla policy gradients by mc; take another --estimator or --algorithm")
	v.require(s.Estimator != UBAC || s.Algorithm == Vanilla, "--estimator ubac: it is defined by the vanilla gradient's covariance, and that of "+
		"%s's natural gradient is the inverse of an ill-conditioned matrix; add --algorithm vanilla, or take --estimator uapg", s.Algorithm)
	v.require(s.Epsilon >= 1 && !math.IsInf(s.Epsilon, 0), "--epsilon %v: must be a number from 1 on", s.Epsilon)
}

// validateTask checks the task, the policy for it, and the rank against both sides of the scores' matrix.
func (s *Settings) validateTask(v *findings) {
	layers := len(s.Hidden) >= 1 && len(s.Hidden) <= maxLayers
	for _, width := range s.Hidden {
		layers = layers && width >= 1 && width <= maxWidth
	}
	v.require(layers, "--hidden %v: must be 1 to %d layers, each 1 to %d wide", s.Hidden, maxLayers, maxWidth)
	task, err := sim.Lookup(s.Env)
	if err != nil {
		*v = append(*v, fmt.Errorf("--env: %w", err))
	}
	if s.Estimator == MonteCarlo || !layers || err != nil {
		return
	}
	parameters := policy.Shape{Observation: task.ObservationDim, Action: task.ActionDim, Hidden: s.Hidden}.NumParams()
	v.require(s.Rank >= 1, "--rank %d: at least 1 is needed", s.Rank)
	v.require(s.Rank <= s.Batch, "--rank %d: there are only %d steps in a batch; lower it, or raise --batch", s.Rank, s.Batch)
	v.require(s.Rank <= parameters, "--rank %d: the policy has only %d parameters; lower it, or widen --hidden", s.Rank, parameters)
	s.validateRaw(v, task.ObservationDim)
}

// validateRaw checks that the closed form can do with so many raw features.
func (s *Settings) validateRaw(v *findings, observed int) {
	base, err := kernels.Lookup(s.BaseKernel)
	if s.Features != Raw || s.Inducing > 0 || s.Solver != Direct || err != nil {
		return
	}
	columns := statekernel.Columns(base, observed)
	v.require(columns <= statekernel.MaxColumns, "--features raw: on the %d numbers that %s observes, %s has %d columns, and the closed form takes at most %d; "+
		"add --inducing 128, or --solver cg, or take --base-kernel rbf", observed, s.Env, base, columns, statekernel.MaxColumns)
}

// validateMachine checks what says where and how a run runs.
func (s *Settings) validateMachine(v *findings) {
	v.require(s.Actors >= AutoActors && s.Actors <= maxActors, "--actors %d: must be auto, or from 0 to %d", s.Actors, maxActors)
	v.require(s.NATS == "" || s.Listen == AutoListen,
		"--nats and --listen: give the URL of an external server or the address of the one in this process, not both")
	switch {
	case strings.Contains(s.NATS, "@"): // and is not repeated here
		v.require(false, "--nats: a password in the URL would be in config.yaml and in the list of processes; a server that asks who you are takes --credentials DIR")
	case s.NATS != "":
		address, err := url.Parse(s.NATS)
		v.require(err == nil && address.Host != "", "--nats %q: must be a URL such as nats://127.0.0.1:4222", s.NATS)
	}
	if host, _, err := s.ListenAddress(); err != nil {
		*v = append(*v, err)
	} else if s.NATS == "" {
		v.require(s.Credentials != "" || s.InsecureListen || isLocal(host), "--listen %s: whoever reaches that address could play for this run, "+
			"or replace its policy; add --credentials DIR (docs/security.md), or --insecure-listen on a network that you trust", s.Listen)
	}
	if err := observe.CheckListen(s.MetricsListen, s.Pprof); err != nil {
		*v = append(*v, err)
	}
	if _, err := observe.ParseLevel(s.LogLevel); err != nil {
		*v = append(*v, err)
	}
	v.require(!s.Force || s.Resume != ResumeYes, "--force and --resume: start over or go on, not both")
}

// isLocal reports whether an address to listen on is this machine's alone.
func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || host == "localhost" || ip != nil && ip.IsLoopback()
}

// ListenAddress splits Listen. For AutoListen it is the usual address of a NATS server, 127.0.0.1:4222.
func (s *Settings) ListenAddress() (host string, port int, err error) {
	if s.Listen == AutoListen {
		return "127.0.0.1", 4222, nil
	}
	host, digits, err := net.SplitHostPort(s.Listen)
	if err == nil {
		var n uint64
		n, err = strconv.ParseUint(digits, 10, 16)
		port = int(n)
	}
	if err != nil {
		return "", 0, fmt.Errorf("--listen %q: must be host:port, such as 127.0.0.1:4222, or auto", s.Listen)
	}
	return host, port, nil
}
