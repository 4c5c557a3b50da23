package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/npz"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/learner/gradient"
	"github.com/dbqpg/dbqpg/learner/train"
)

// integrals is the measurement of one batch's gradient by truncated Fisher kernels, against the exact kernel.
type integrals struct {
	batches []string // npz files
	run     string   // directory
	at      uint     // iteration
	noises  []float64
	ranks   []uint

	rows [][]string
}

func (m *integrals) flags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&m.batches, "batch", nil, "npz file in the format of learner gradient; may be repeated")
	flags.StringVar(&m.run, "run", "", "run directory; the run's policy plays a batch")
	flags.UintVar(&m.at, "at", 100, "iteration of the run's checkpoint")
	flags.Float64SliceVar(&m.noises, "noises", []float64{1, 0.3, 0.1, 1e-2, 1e-3, 1e-4}, "noise variances")
	flags.UintSliceVar(&m.ranks, "ranks", []uint{10, 30, 100, 300}, fmt.Sprintf(
		"ranks of the truncated kernel, in addition to the full rank for batches of up to %d samples",
		linop.ExactSamples))
}

func (m *integrals) prepare(*job) error {
	var c checks
	c.require(!slices.ContainsFunc(m.noises, func(x float64) bool { return !(x > 0) || math.IsInf(x, 0) }),
		"--noises %v: want positive numbers", m.noises)
	c.require(len(m.ranks) > 0 && !slices.Contains(m.ranks, 0), "--ranks: give some, from 1 on")
	return errors.Join(c...)
}

var integralColumns = []string{"batch", "state_kernel", "noise", "integral", "rank", "cosine"}

func (m *integrals) measure(ctx context.Context, j *job, _ func() error) (err error) {
	defer compute.Catch(&err)
	if len(m.batches) == 0 && m.run == "" {
		return errors.New("--batch or --run: name the batches whose gradients to compare")
	}
	m.rows = [][]string{integralColumns}
	for _, path := range m.batches {
		if err := m.file(path); err != nil {
			return fmt.Errorf("batch %s: %w", path, err)
		}
	}
	if m.run != "" {
		if err := m.checkpoint(ctx); err != nil {
			return err
		}
	}
	return writeRecorded(j.path("cosines"), &record{Settings: texts{}, Measured: thisProgram()}, m.rows)
}

// file compares on a batch from a file.
func (m *integrals) file(path string) error {
	arrays, err := npz.ReadFile(path)
	if err != nil {
		return err
	}
	batch, err := gradient.Parse(arrays)
	if err != nil {
		return err
	}
	computer, err := device.Open(config.Device{})
	if err != nil {
		return err
	}
	defer computer.Close()
	s := compute.NewScope(computer.Backend)
	defer s.Release()
	own := config.Hyperparameters{Estimator: config.DBQPG, Fisher: config.Empirical, Damping: batch.Damping}
	method := train.NewMethod(&config.Settings{Hyperparameters: own}, batch.Shape)
	return m.compare(strings.TrimSuffix(filepath.Base(path), ".npz"), s, batch.Evaluate(s, &method), batch.Kernel)
}

// checkpoint compares on a batch that the policy of a run's checkpoint plays.
func (m *integrals) checkpoint(ctx context.Context) error {
	subjects, err := given("--run ", []string{m.run})
	if err == nil {
		err = hasCheckpoints(subjects[0], []uint{m.at})
	}
	if err != nil {
		return err
	}
	subjects[0].Fisher = config.Empirical
	seed := streams.New(subjects[0].Seed, streams.Study, uint64(m.at)).Uint64()
	return restore(ctx, subjects[0], uint64(m.at), seed, func(ctx context.Context, p *probe) error {
		s := compute.NewScope(p.Backend)
		defer s.Release()
		_, x, err := p.play(ctx, s, p.BatchSteps)
		if err != nil {
			return err
		}
		e, err := p.estimate(s, x, p.Targets, fixed)
		if err != nil {
			return err
		}
		return m.compare(fmt.Sprintf("%s, iteration %d", subjects[0].Name(), m.at), s, e.At,
			e.Estimator.(*estimators.Quadrature).Kernel)
	})
}

// compare adds the rows of a batch: with and without the state kernel, at each noise.
func (m *integrals) compare(name string, s *compute.Scope, at *train.Evaluation, kernel gp.Kernel) error {
	for _, state := range []float64{kernel.C1, 0} {
		for _, noise := range m.noises {
			k := kernel
			k.C1, k.Noise = state, noise
			rows, err := m.integrate(s.Backend(), at, k)
			if err != nil {
				return fmt.Errorf("noise %g: %w", noise, err)
			}
			for _, row := range rows {
				m.rows = append(m.rows, append([]string{name, rounded(state, -1), rounded(noise, -1)}, row...))
			}
		}
	}
	return nil
}

// integrate takes the gradients under one kernel: rows of the integral, the rank and the cosine to the gradient of the
// exact kernel.
func (m *integrals) integrate(b compute.Backend, at *train.Evaluation, k gp.Kernel) (rows [][]string, err error) {
	s := compute.NewScope(b)
	defer s.Release()
	random, batch := train.NewRandom(1, 0), at.Batch
	decompose := func(rank uint) error {
		method := train.Method{Rank: int(rank)}
		err := method.Decompose(s, at, random)
		batch.SVD = at.SVD
		return err
	}
	monteCarlo, err := estimators.MonteCarlo{}.Estimate(s, &batch)
	if err != nil {
		return nil, err
	}
	ranks, full := m.ranks, uint(0)
	if n := at.Targets.Rows; n <= linop.ExactSamples {
		full = uint(min(n, monteCarlo.Gradient.Rows))
		ranks = append(slices.DeleteFunc(slices.Clone(ranks), func(r uint) bool { return r >= full }), full)
	}
	if err := decompose(ranks[0]); err != nil {
		return nil, err
	}
	exact, err := gp.ExactFisher{Seed: random.Probe.Uint64()}.Kernel(s, at.Scores, at.Fisher.Matrix, at.Fisher.Damping)
	if err != nil {
		return nil, err
	}
	iterative := gp.Iterative{FisherKernel: exact, Seed: random.Probe.Uint64()}
	exactly, err := gradientsBy(s, &batch, k, iterative, estimators.DampedIntegral{Kernel: exact},
		estimators.PlainIntegral{})
	if err != nil {
		return nil, err
	}
	add := func(integral, rank string, gradient []float64) {
		rows = append(rows, []string{integral, rank, rounded(cosine(gradient, exactly[0]), -1)})
	}
	for _, rank := range ranks {
		name := fmt.Sprint(rank)
		if rank == full {
			name = "all"
		}
		if err := decompose(rank); err != nil {
			return nil, err
		}
		truncated, err := gradientsBy(s, &batch, k, gp.Direct{}, estimators.PlainIntegral{},
			estimators.CompletedIntegral{})
		if err != nil {
			return nil, err
		}
		add("plain", name, truncated[0])
		add("completed", name, truncated[1])
	}
	add("exact, plain", "", exactly[1])
	add("Monte Carlo", "", compute.ToSlice(b, monteCarlo.Gradient))
	return rows, nil
}

// gradientsBy returns the gradient by each integral of one posterior.
func gradientsBy(s *compute.Scope, batch *estimators.Batch, k gp.Kernel, solver gp.Solver,
	integrals ...estimators.Integral) (gradients [][]float64, err error) {
	q := estimators.Quadrature{Kernel: k, Solver: solver}
	posterior, err := q.Condition(s, batch)
	if err != nil {
		return nil, err
	}
	for _, q.Integral = range integrals {
		e, err := q.Integrate(s, batch, posterior)
		if err != nil {
			return nil, err
		}
		gradients = append(gradients, compute.ToSlice(s.Backend(), e.Gradient))
	}
	return gradients, nil
}

func (m *integrals) read(j *job) (all []*series, _ []string, err error) {
	if all, err = j.readData("cosines.csv", integralColumns[:5]); err != nil {
		return nil, nil, err
	}
	if len(all) == 0 {
		return nil, nil, fmt.Errorf("--out %s: nothing is measured yet: there is no cosines.csv", j.out)
	}
	for _, s := range all {
		s.labels["name"], s.color = strings.TrimSpace(s.labels["rank"]+" "+s.labels["integral"]), -1
	}
	distinguish(all)
	return all, nil, nil
}
