package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/sim"
)

// Bounds beyond which a value is taken to be a mistake.
const (
	maxBatch        = 10_000_000
	maxStreams      = 4096 // whose states are in every checkpoint: 5 KB each at most
	maxColumns      = 8192 // of a factor of the state kernel, as statekernel.MaxColumns
	maxLayers       = 8
	maxWidth        = 4096
	maxActors       = 4096
	maxEpochs       = 1000
	maxCGIterations = 100000
	minStd, maxStd  = 1e-30, 1e30 // actions are float32
)

// Validate returns nil if the settings are valid, and otherwise an error that lists every problem on a line of its own,
// with its remedy.
func (s *Settings) Validate() error {
	var v findings
	s.validateLength(&v)
	v.require(s.Batch > 0 && s.Batch <= maxBatch, "--batch %d: must be from 1 to %d", s.Batch, maxBatch)
	v.positive("clip", s.Clip)
	v.require(s.Gamma > 0 && s.Gamma <= 1, "--gamma %v: must be above 0 and at most 1", s.Gamma)
	v.require(s.GAELambda >= 0 && s.GAELambda <= 1, "--gae-lambda %v: must be from 0 to 1", s.GAELambda)
	v.require(!s.Bootstrap || s.Targets == GAE, "--bootstrap: returns have no values to go on with; add --targets gae")
	v.require(s.ValueLearning == Step || s.Targets == GAE,
		"--value-learning converge: returns have no use for values; add --targets gae")
	v.require(s.ValueEpochs >= 1 && s.ValueEpochs <= maxEpochs,
		"--value-epochs %d: must be from 1 to %d", s.ValueEpochs, maxEpochs)
	if s.Algorithm != TRPO {
		v.positive("learning-rate", s.LearningRate)
	}
	v.positive("max-kl", s.MaxKL)
	v.positive("std-rate", s.StdRate)
	v.positive("damping", s.Damping)
	v.require(s.CGIterations >= 1 && s.CGIterations <= maxCGIterations,
		"--cg-iterations %d: must be from 1 to %d", s.CGIterations, maxCGIterations)
	v.require(s.CGTolerance > 0 && s.CGTolerance < 1, "--cg-tolerance %v: must be above 0 and below 1", s.CGTolerance)
	s.validateSegments(&v)
	s.validateQuadrature(&v)
	s.validateTask(&v)
	s.Machine.validate(&v) //nolint:staticcheck // not the settings' own
	v.require(s.RunDir != "", "--run-dir: must not be empty")
	v.require(!s.Force || s.Resume != ResumeYes, "--force and --resume: give one or the other: start over, or resume")
	return v.join()
}

// findings are the problems found, in order.
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

// validateSegments checks the settings of segments.
func (s *Settings) validateSegments(v *findings) {
	longest := proto.MaxSegment
	if s.Steps > 0 { // the last ones may be almost twice as long
		longest /= 2
	}
	if s.Segment < 0 || s.Segment > longest {
		v.require(false, "--segment %d: must be 0 (whole episodes), or from 1 to %d", s.Segment, longest)
		return
	}
	if s.Segment == 0 || s.Batch < 1 {
		return
	}
	v.require(s.Batch%s.Segment == 0, "--batch %d: must be a multiple of --segment %d", s.Batch, s.Segment)
	v.require(s.Batch/s.Segment <= maxStreams,
		"--segment %d: a batch of %d takes %d streams, and at most %d are allowed; raise it",
		s.Segment, s.Batch, s.Batch/s.Segment, maxStreams)
	v.require(s.Targets == GAE,
		"--segment: a segment ends within an episode, and returns have no values to go on with; add --targets gae, "+
			"or --segment 0 for whole episodes")
	v.require(s.TaskFile == nil,
		"--segment: the state of another program's environment cannot be saved; leave it out to play whole episodes")
}

// validateQuadrature checks the settings of Bayesian quadrature.
func (s *Settings) validateQuadrature(v *findings) {
	v.require(s.C1 >= 0 && !math.IsInf(s.C1, 0), "--c1 %v: must be 0 or a positive number", s.C1)
	v.positive("c2", s.C2)
	v.require(s.FisherKernel != Exact || s.Solver == ConjugateGradient || s.Estimator == MonteCarlo,
		"--fisher-kernel exact: it is known only through its products and has no closed form; add --solver cg")
	v.require(s.Inducing >= 0 && s.Inducing <= maxColumns,
		"--inducing %d: must be 0 (interpolation on a grid), or a number of inducing points up to %d",
		s.Inducing, maxColumns)
	v.require(s.Inducing <= s.Batch || s.Batch < 1,
		"--inducing %d: inducing points are chosen among the samples, and a batch may have only %d steps; lower it, "+
			"or raise --batch", s.Inducing, s.Batch)
	v.require(s.Inducing <= 0 || s.Solver == Direct,
		"--inducing %d: conjugate gradients support only interpolation on a grid; leave out --solver cg", s.Inducing)
	v.require(s.FisherSamples >= 1 && s.FisherSamples*float64(s.Batch) <= maxBatch,
		"--fisher-samples %vx: must be 1x or more, and with --batch %d at most %d steps",
		s.FisherSamples, s.Batch, maxBatch)
	v.require(s.FisherSamples == 1 || s.Estimator != MonteCarlo || s.Algorithm != Vanilla,
		"--fisher-samples: vanilla policy gradients by mc use no Fisher matrix; choose another --estimator or "+
			"--algorithm")
	v.require(s.Estimator != UBAC || s.Algorithm == Vanilla,
		"--estimator ubac: it is defined by the vanilla gradient's covariance, and that of %s's natural gradient is "+
			"the inverse of an ill-conditioned matrix; add --algorithm vanilla, or use --estimator uapg", s.Algorithm)
	s.validateKernelLearning(v)
	v.require(s.Epsilon >= 1 && !math.IsInf(s.Epsilon, 0), "--epsilon %v: must be a number, at least 1", s.Epsilon)
}

// validateKernelLearning checks the settings that predictions of held-out episodes require.
func (s *Settings) validateKernelLearning(v *findings) {
	if s.KernelLearning != Converge || s.Estimator == MonteCarlo {
		return
	}
	v.require(s.Solver == Direct,
		"--kernel-learning converge: conjugate gradients do not predict held-out episodes; leave out --solver cg")
	v.require(s.Inducing == 0,
		"--kernel-learning converge: it supports only interpolation on a grid; leave out --inducing")
	v.require(s.Noise == Learned && s.FisherVariance == Learned,
		"--kernel-learning converge: the noise and the Fisher variance are learned; add --noise learned "+
			"--fisher-variance learned")
}

// validateTask checks the task, the shape of its policy, and the rank against both dimensions of the score matrix.
func (s *Settings) validateTask(v *findings) {
	layers := len(s.Hidden) >= 1 && len(s.Hidden) <= maxLayers
	for _, width := range s.Hidden {
		layers = layers && width >= 1 && width <= maxWidth
	}
	v.require(layers, "--hidden %v: must be 1 to %d layers, each 1 to %d wide", s.Hidden, maxLayers, maxWidth)
	task, err := s.Task()
	if err != nil {
		*v = append(*v, fmt.Errorf("--env: %w", err))
	} else {
		s.validateStd(v, task)
	}
	if s.Estimator == MonteCarlo || !layers || err != nil {
		return
	}
	parameters := policy.ShapeOf(task, s.Hidden).NumParams()
	v.require(s.Rank >= 1, "--rank %d: at least 1 is needed", s.Rank)
	v.require(s.Rank <= s.Batch || s.Batch < 1,
		"--rank %d: a batch may have only %d steps; lower it, or raise --batch", s.Rank, s.Batch)
	v.require(s.Rank <= parameters,
		"--rank %d: the policy has only %d parameters; lower it, or widen --hidden", s.Rank, parameters)
	s.validateKernel(v, task.ObservationDim)
}

// validateStd checks the standard deviation of each component of the action.
func (s *Settings) validateStd(v *findings, task sim.Spec) {
	preset := forTask(s.Env, s.Algorithm, s.Estimator, s.Preset)
	v.require(task.Choices == nil || s.InitialStd == preset.InitialStd && s.StdRate == preset.StdRate,
		"--initial-std and --std-rate: the actions of %s are discrete, without a standard deviation; leave them out", s.Env)
	for i, std := range s.InitialStd.Of(task) {
		if !(std >= minStd && std <= maxStd) {
			v.require(false,
				"--initial-std %v: the standard deviation of component %d of the action would be %v: must be from %v "+
					"to %v; 1abs is 1 whatever the action's range", s.InitialStd, i, std, minStd, maxStd)
			return
		}
	}
}

// columns is the number of columns that the closed form has for each feature at the initial hyperparameters, by base
// kernel.
var columns = map[string]int{
	"rbf": 12, "matern12": 128, "matern32": 128, "matern52": 128, "rational-quadratic": 24, "periodic": 43, "cosine": 4,
	"piecewise-polynomial": 128, "linear": 1,
}

// validateKernel checks the base kernel, and that the closed form can handle the number of raw features.
func (s *Settings) validateKernel(v *findings, observed int) {
	each, known := columns[s.BaseKernel]
	v.require(known, "--base-kernel %q: there is no such kernel (docs/kernels.md)", s.BaseKernel)
	if s.Features != Raw || s.Inducing > 0 || s.Solver != Direct {
		return
	}
	v.require(observed*each <= maxColumns,
		"--features raw: on the %d-dimensional observations of %s, %s has %d columns, and the closed form takes at "+
			"most %d; add --inducing 128 or --solver cg, or use --base-kernel rbf",
		observed, s.Env, s.BaseKernel, observed*each, maxColumns)
}

// validate checks the settings of the machine.
func (m *Machine) validate(v *findings) {
	v.require(m.Actors >= AutoActors && m.Actors <= maxActors,
		"--actors %d: must be auto, or from 0 to %d", m.Actors, maxActors)
	v.require(m.NATS == "" || m.Listen == AutoListen,
		"--nats and --listen: give either the URL of an external server or the address of the embedded one")
	switch {
	case strings.Contains(m.NATS, "@"): // the message must not repeat it
		v.require(false,
			"--nats: a password in the URL would appear in config.yaml and in the process list; authenticate with "+
				"--credentials DIR instead")
	case m.NATS != "":
		address, err := url.Parse(m.NATS)
		v.require(err == nil && address.Host != "", "--nats %q: must be a URL such as nats://127.0.0.1:4222", m.NATS)
	}
	if host, _, err := m.ListenAddress(); err != nil {
		*v = append(*v, err)
	} else if m.NATS == "" {
		v.require(m.Credentials != "" || m.InsecureListen || isLocal(host),
			"--listen %s: anyone who can reach that address could play for this run or replace its policy; add "+
				"--credentials DIR (docs/security.md), or --insecure-listen on a trusted network", m.Listen)
	}
	m.validateHTTP(v)
	if _, err := observe.ParseLevel(m.LogLevel); err != nil {
		*v = append(*v, err)
	}
}

func (m *Machine) validateHTTP(v *findings) {
	flag := "--http"
	if m.MetricsListen != "" || m.HTTP == NoHTTP {
		flag = "--metrics-listen"
	}
	if err := observe.CheckListen(flag, m.HTTPAddress(), m.Pprof); err != nil {
		*v = append(*v, err)
	} else if flag == "--http" {
		v.require(m.Pages(),
			"--http %s: anyone who can reach that address could see these pages and the runs' files; add "+
				"--insecure-listen on a trusted network, or forward a port of this machine: "+
				"ssh -L 8080:127.0.0.1:8080", m.HTTP)
	}
}

// CheckPages returns an error unless pages may be served on HTTP.
func (m *Machine) CheckPages() error {
	var v findings
	m.validateHTTP(&v)
	return v.join()
}

// NoHTTP is the value of HTTP without a server.
const NoHTTP = "off"

// HTTPAddress returns the host:port of the HTTP server, or observe.AutoListen; "" if there is none.
func (m *Machine) HTTPAddress() string {
	switch {
	case m.MetricsListen != "":
		return m.MetricsListen
	case m.HTTP == NoHTTP:
		return ""
	}
	return m.HTTP
}

// Pages reports whether the HTTP server may have pages: only for this machine, unless the settings say that others are
// trusted.
func (m *Machine) Pages() bool {
	address := m.HTTPAddress()
	host, _, err := net.SplitHostPort(address)
	return address == observe.AutoListen || err == nil && (isLocal(host) || m.InsecureListen)
}

// isLocal reports whether only this machine can reach a listening address.
func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || host == "localhost" || ip != nil && ip.IsLoopback()
}

// ListenAddress splits Listen into host and port. For AutoListen they are NATS's usual address, 127.0.0.1:4222.
func (m *Machine) ListenAddress() (host string, port int, err error) {
	if m.Listen == AutoListen {
		return "127.0.0.1", 4222, nil
	}
	host, digits, err := net.SplitHostPort(m.Listen)
	if err == nil {
		var n uint64
		n, err = strconv.ParseUint(digits, 10, 16)
		port = int(n)
	}
	if err != nil {
		return "", 0, fmt.Errorf("--listen %q: must be host:port, such as 127.0.0.1:4222, or auto", m.Listen)
	}
	return host, port, nil
}
