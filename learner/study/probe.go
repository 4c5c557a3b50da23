package main

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/stats"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/critic"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/learner/session"
	"github.com/dbqpg/dbqpg/learner/train"
	"github.com/dbqpg/dbqpg/sim"
)

// probe measures gradients of the policy at a checkpoint of a run.
type probe struct {
	*train.Run
	settings  *config.Settings
	collector *collect.Collector
	seed      uint64
	batches   uint64 // so far

	fisher    estimators.Fisher // of many samples: the metric of steps
	metric    *train.Evaluation // the policy on these
	reference reference
}

// restore calls body with the policy at a run's checkpoint. The streams of its batches depend on the seed, so that none
// shares an episode with training.
func restore(ctx context.Context, s *config.Settings, iteration, seed uint64,
	body func(context.Context, *probe) error) (err error) {
	defer compute.Catch(&err)
	task, err := sim.Lookup(s.Env)
	if err != nil {
		return err
	}
	state, _, err := runs.Read(runs.Checkpoints(s.RunDir), iteration)
	if err != nil {
		return err
	}
	computer, err := device.Open(s.Device)
	if err != nil {
		return err
	}
	defer computer.Close()
	run := train.NewRun(computer.Backend, s, task)
	if err := run.Resume(state, 1); err != nil {
		return err
	}
	sampling := session.Sampling{Task: task, Seed: seed, Actors: config.AutoActors}
	return session.Sample(ctx, sampling, func(ctx context.Context, collector *collect.Collector) error {
		return body(ctx, &probe{Run: run, settings: s, collector: collector, seed: seed})
	})
}

// play plays the next batch, and uploads it to s.
func (p *probe) play(ctx context.Context, s *compute.Scope, steps int) (*collect.Batch, train.Samples, error) {
	p.batches++
	batch, err := p.collector.Collect(ctx, collect.Order{Policy: p.Policy(p.batches), Steps: steps})
	if err != nil {
		return nil, train.Samples{}, err
	}
	return batch, train.NewSamples(s, batch.Episodes, nil, p.Normalizer()), nil
}

// The posteriors that gradients are taken by; without one it is Monte Carlo.
const (
	none    = ""
	nominal = "nominal" // with the hyperparameters with which --preset paper begins
	fixed   = "fixed"   // with the run's own
	learned = "learned" // with the run's, learned further from the batch
)

// estimate takes the gradient of a batch from targets.
func (p *probe) estimate(s *compute.Scope, x train.Samples, targets train.Targets, posterior string) (
	train.Estimation, error) {
	l := *p.Learner
	l.Targets, l.Quadrature, l.Correction = targets, nil, nil
	if posterior != none {
		quadrature := *p.Quadrature
		l.Quadrature = &quadrature
	}
	switch posterior {
	case fixed:
		l.Quadrature.Process = train.Fixed{Process: p.Quadrature.Process}
	case nominal:
		l.Quadrature.Process = train.Fixed{Process: train.Likelihood{}}
		before := p.Critic.Hyper()
		defer p.Critic.SetHyper(before)
		p.Critic.SetHyper(critic.New(x.Observations.Cols, critic.Kind{Base: p.Critic.Base(), Noise: critic.NoiseFloor,
			FisherVariance: 1}, streams.New(0, streams.Critic)).Hyper())
	}
	return l.Estimate(x, s, train.NewRandom(p.seed, p.batches), p.Counters().Iteration)
}

// The batches of the metric and of the reference are as large as memory allows for their scores.
const maxBatch = 20_000

// reference is the "true" gradient of a policy.
type reference struct {
	gradient []float64
	gain     float64      // of the natural gradient, for a step of unit length
	halves   [2][]float64 // sums over the samples of its even and odd batches
	natural  [2][]float64 // the natural gradients of these
	returns  []float64    // of its episodes
	steps    int
}

// refer plays the metric's batch, in s, and the reference, whose gradient is the mean of its batches' Monte Carlo
// gradients. A baseline is subtracted from their returns, which leaves the expectation unchanged.
func (p *probe) refer(ctx context.Context, s *compute.Scope, samples int) error {
	_, x, err := p.play(ctx, s, min(maxBatch, samples))
	if err != nil {
		return err
	}
	p.metric = p.Evaluate(s, p.Params, x.Observations, x.Actions, x.Current)
	p.fisher = train.Analytic(p.Backend, p.metric, p.Damping)
	r := &p.reference
	for i := 0; i < len(r.halves) || r.steps < samples; i++ {
		g, steps, err := p.controlled(ctx, min(maxBatch, samples/2))
		if err != nil {
			return err
		}
		if i < len(r.halves) {
			r.halves[i] = make([]float64, len(g))
		}
		floats.AddScaled(r.halves[i%2], float64(steps), g)
		r.steps += steps
	}
	for i, half := range r.halves {
		if r.natural[i], err = p.naturalOf(half); err != nil {
			return err
		}
	}
	r.gradient = floats.AddTo(make([]float64, len(p.Params)), r.halves[0], r.halves[1])
	natural := floats.AddTo(make([]float64, len(p.Params)), r.natural[0], r.natural[1])
	floats.Scale(1/float64(r.steps), r.gradient)
	r.gain = floats.Dot(r.gradient, natural) / p.length(natural)
	return nil
}

// facts describes the reference in a record: its return, its size, and the cosines between its halves, of the
// gradients and of the natural gradients in the metric's geometry.
func (r *reference) facts() map[string]any {
	dot := func(i, k int) float64 { return floats.Dot(r.halves[i], r.natural[k]) }
	return map[string]any{"return": stats.Mean(r.returns), "reference": float64(r.steps),
		"halves": cosine(r.halves[0], r.halves[1]), "natural_halves": dot(0, 1) / math.Sqrt(dot(0, 0)*dot(1, 1))}
}

// controlled returns the Monte Carlo gradient of a batch of the reference.
func (p *probe) controlled(ctx context.Context, steps int) ([]float64, int, error) {
	s := compute.NewScope(p.Backend)
	defer s.Release()
	batch, x, err := p.play(ctx, s, steps)
	if err != nil {
		return nil, 0, err
	}
	e, err := p.estimate(s, x, train.Returns{Gamma: p.settings.Gamma, Bootstrap: p.settings.Bootstrap,
		Baseline: ridgeBaseline}, none)
	if err != nil {
		return nil, 0, err
	}
	for _, e := range batch.Episodes {
		p.reference.returns = append(p.reference.returns, e.Return())
	}
	return e.At.Expand(e.Objective.Gradient), batch.Steps, nil
}

// naturalOf returns the natural gradient that follows from a gradient by the metric.
func (p *probe) naturalOf(gradient []float64) ([]float64, error) {
	s := compute.NewScope(p.Backend)
	defer s.Release()
	g := p.metric.Direction(s, gradient)
	d := s.New(g.Rows, 1)
	_, err := linop.CG{MaxIterations: 1000}.Solve(p.Backend, p.fisher.Metric(p.Backend), d, g)
	return p.metric.Expand(d), err
}

// length returns the length (d'G d)^1/2 of a step by the metric: to second order, the divergence of the policy that it
// leads to is half of its square.
func (p *probe) length(step []float64) float64 {
	s := compute.NewScope(p.Backend)
	defer s.Release()
	d := p.metric.Direction(s, step)
	return math.Sqrt(p.Backend.Dot(d, linop.Mul(s, p.fisher.Matrix, d, false)))
}

// gain returns the step efficiency of a step d,
//
//	g*'d / sqrt(d'G d . g*'G^-1 g*),
//
// the share of the best first-order gain at equal divergence, with the reference's gradient g*.
func (p *probe) gain(step []float64) float64 {
	return floats.Dot(p.reference.gradient, step) / p.length(step) / p.reference.gain
}

// estimation is an estimator with its targets and its posterior, "" for Monte Carlo.
type estimation struct{ targets, estimator, posterior string }

// target is the name of targets that gradients are taken from.
type target struct {
	name string
	of   train.Targets
}

// targets returns those of tables; the last are training's. All go on after a time limit if training's do. The expected
// gradient of the first two is the same.
func (p *probe) targets() []target {
	s := p.settings
	return []target{
		{"returns", train.Returns{Gamma: s.Gamma, Bootstrap: s.Bootstrap}},
		{"less V", train.Advantages{Gamma: s.Gamma, Lambda: 1, Bootstrap: s.Bootstrap}},
		{"advantages", train.Advantages{Gamma: s.Gamma, Lambda: s.GAELambda, Bootstrap: s.Bootstrap}},
	}
}

// step is a gradient and the natural gradient that follows from it.
type step struct{ plain, natural []float64 }

// repeat plays a batch and calls add with its gradients by all estimators.
func (p *probe) repeat(ctx context.Context, size int, add func(c estimation, of step, steps int)) error {
	s := compute.NewScope(p.Backend)
	defer s.Release()
	batch, x, err := p.play(ctx, s, size)
	if err != nil {
		return err
	}
	for _, target := range p.targets() {
		for _, posterior := range []string{none, nominal, learned} {
			e, err := p.estimate(s, x, target.of, posterior)
			if err == nil {
				err = p.steps(s, e, func(estimator string, of step) {
					add(estimation{target.name, estimator, posterior}, of, batch.Steps)
				})
			}
			if err != nil {
				return fmt.Errorf("%s %s: %w", target.name, posterior, err)
			}
		}
	}
	return nil
}

// steps calls add with an estimate's gradients, and if it has a posterior, with UAPG's.
func (p *probe) steps(s *compute.Scope, e train.Estimation, add func(estimator string, of step)) error {
	natural, err := e.Objective.Natural(s)
	if err != nil {
		return err
	}
	expanded := func() step { return step{e.At.Expand(e.Objective.Gradient), e.At.Expand(natural)} }
	if e.Objective.Posterior == nil {
		add("mc", expanded())
		return nil
	}
	add("dbqpg", expanded())
	for _, c := range []struct {
		direction  compute.Block
		correction estimators.Correction
	}{
		{e.Objective.Gradient, estimators.UAPG{Decompose: estimators.Projected}},
		{natural, estimators.NaturalUAPG{Epsilon: p.settings.Epsilon, Decompose: estimators.Projected}},
	} {
		correct, err := c.correction.Of(s, e.Objective.Estimate)
		if err != nil {
			return err
		}
		correct(c.direction)
	}
	add("uapg", expanded())
	return nil
}

// gradientColumns are the columns of a policy's table; gains are of the natural and of the plain gradient.
var gradientColumns = []string{"size", "samples", "targets", "estimator", "posterior", "cosine", "norm", "along",
	"gain", "plain_gain"}

// size measures the gradients of batches of one size: rows of gradientColumns, and of uncertainColumns.
func (p *probe) size(ctx context.Context, size, repeats int) (rows, uncertain [][]string, err error) {
	var order []estimation
	samples, all := map[estimation][]int{}, map[estimation][]step{}
	for i := range repeats {
		err := p.repeat(ctx, size, func(c estimation, of step, steps int) {
			if all[c] == nil {
				order = append(order, c)
			}
			all[c], samples[c] = append(all[c], of), append(samples[c], steps)
		})
		if err != nil {
			return nil, nil, fmt.Errorf("repeat %d: %w", i+1, err)
		}
	}
	for _, c := range order {
		sum := make([]float64, len(p.Params))
		for _, of := range all[c] {
			floats.Add(sum, of.plain)
		}
		for i, of := range all[c] {
			row := []string{fmt.Sprint(size), fmt.Sprint(samples[c][i]), c.targets, c.estimator, c.posterior}
			for _, x := range []float64{cosine(of.plain, p.reference.gradient), floats.Norm(of.plain, 2),
				floats.Dot(of.plain, sum) / floats.Norm(sum, 2), p.gain(of.natural), p.gain(of.plain)} {
				row = append(row, rounded(x, 5))
			}
			rows = append(rows, row)
		}
	}
	uncertain, err = p.uncertainty(ctx, size, all)
	return rows, uncertain, err
}

// uncertainColumns are the columns of the variances of DBQPG's gradient along eigenvectors of its covariance: as the
// posterior predicts them, with and without the Fisher matrix's damping, and of the repeats.
var uncertainColumns = []string{"size", "targets", "posterior", "predicted", "undamped", "measured"}

// uncertainty compares the variances that the posterior of another batch predicts with those of the repeats.
func (p *probe) uncertainty(ctx context.Context, size int, repeats map[estimation][]step) (rows [][]string, err error) {
	s := compute.NewScope(p.Backend)
	defer s.Release()
	_, x, err := p.play(ctx, s, size)
	if err != nil {
		return nil, err
	}
	for _, target := range p.targets() {
		for _, posterior := range []string{nominal, learned} {
			e, err := p.estimate(s, x, target.of, posterior)
			if err != nil {
				return nil, err
			}
			covariance, err := e.Objective.Covariance()
			if err != nil {
				return nil, err
			}
			pairs, err := estimators.Projected(s, covariance)
			if err != nil {
				return nil, err
			}
			damping := e.Estimator.(*estimators.Quadrature).Kernel.FisherWeight() * e.At.Fisher.Damping
			for j := range pairs.Values { // the most uncertain first
				unit := make([]float64, len(pairs.Values))
				unit[j] = 1
				h := linop.Mul(s, pairs.Vectors, s.FromSlice(len(unit), 1, unit), false)
				predicted, err := e.Objective.Variance(s, h)
				if err != nil {
					return nil, err
				}
				var along []float64
				for _, of := range repeats[estimation{target.name, "dbqpg", posterior}] {
					along = append(along, floats.Dot(of.plain, e.At.Expand(h)))
				}
				rows = append(rows, []string{fmt.Sprint(size), target.name, posterior, rounded(predicted, 5),
					rounded(predicted-damping, 5), rounded(math.Pow(stats.StdDev(along), 2), 5)})
			}
		}
	}
	return rows, nil
}

func cosine(x, y []float64) float64 {
	return floats.Dot(x, y) / (floats.Norm(x, 2) * floats.Norm(y, 2))
}
