package study

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/stats"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/learner/session"
	"github.com/dbqpg/dbqpg/learner/train"
	"github.com/dbqpg/dbqpg/sim"
)

// probe measures the gradients of one policy.
type probe struct {
	*qualityOptions
	restored restored
	subject  trial
	settings conditions // of the run, the checkpoint and the way of measuring
	path     func(format string, args ...any) string
	seed     uint64
}

// batch is one batch's estimates.
type batch struct {
	size      uint     // samples asked for
	steps     float64  // samples that it has
	gradients measured // by contender, and the natural gradients and their lengths under these names with suffixes
}

// After a contender's name, in a batch's gradients.
const (
	naturalSuffix = " natural" // its natural gradient d
	lengthSuffix  = " length"  // d'G d
)

// measure restores a policy, measures those of its gradients that have not been measured before, and publishes what the
// page needs of them.
func (o *qualityOptions) measure(ctx context.Context, j *job, s trial, iteration uint64) error {
	seed := streams.New(o.samplingSeed, streams.Study, s.settings.Seed, iteration).Uint64()
	return s.restore(ctx, iteration, seed, func(ctx context.Context, r restored) error {
		j.log.Info("measuring gradients", "run", s.name, "iteration", iteration, "reference", o.reference, "sizes", o.sizes, "repeats", o.repeats)
		p := &probe{
			qualityOptions: o, restored: r, subject: s, seed: seed,
			settings: conditions(r.madeWith).with("checkpoint", digest(r.state)).with("sampling_seed", o.samplingSeed),
			path: func(format string, args ...any) string {
				return j.path("units", s.name, fmt.Sprintf("iteration-%d", iteration), fmt.Sprintf(format, args...))
			},
		}
		reference, err := p.measureReference(ctx)
		if err != nil {
			return err
		}
		scope := compute.NewScope(r.run.Backend)
		defer scope.Release()
		metric := sync.OnceValues(func() (*train.Sampled, error) {
			batch, err := p.collect(ctx, metricNumber, min(metricSize, o.reference))
			if err != nil {
				return nil, err
			}
			return r.run.Sample(scope, batch.Episodes, train.NewRandom(seed, metricNumber))
		})
		if err := p.measureNatural(reference, metric); err != nil {
			return err
		}
		batches, err := p.measureBatches(ctx, metric)
		if err != nil {
			return err
		}
		uncertainty, err := p.measureUncertainty(ctx, batches)
		if err != nil {
			return err
		}
		return p.publish(j, reference, batches, uncertainty)
	})
}

// restored is a run at one of its checkpoints, and a collector for its policies.
type restored struct {
	run       *train.Run
	state     *runs.State
	madeWith  map[string]string // the checkpoint's settings
	collector *collect.Collector
	nominal   gp.Hyper // the hyperparameters with which --preset paper begins
}

// restore calls body with the run at a checkpoint. The streams of its batches depend on the seed, so that none shares an
// episode with training.
func (s trial) restore(ctx context.Context, iteration, seed uint64, body func(context.Context, restored) error) (err error) {
	defer compute.Catch(&err)
	task, err := sim.Lookup(s.settings.Env)
	if err != nil {
		return err
	}
	state, madeWith, err := runs.Read(runs.Checkpoints(s.settings.RunDir), iteration)
	if err != nil {
		return err
	}
	computer, err := device.Open(s.settings.Device)
	if err != nil {
		return err
	}
	defer computer.Close()
	run := train.NewRun(computer.Backend, s.settings, task)
	paper, err := config.ForTask(s.settings.Env, s.settings.Algorithm, config.DBQPG, config.Paper)
	if err != nil {
		return err
	}
	paper.BaseKernel = s.settings.BaseKernel
	nominal := train.New(computer.Backend, &paper, task).Critic.Hyper()
	if err := run.Resume(state, 1); err != nil {
		return err
	}
	return session.Sample(ctx, session.Sampling{Task: task, Seed: seed, Actors: config.AutoActors}, func(ctx context.Context, collector *collect.Collector) error {
		return body(ctx, restored{run, state, madeWith, collector, nominal})
	})
}

// digest tells a checkpoint's policy and critic from any other's.
func digest(state *runs.State) string {
	s := *state
	s.Elapsed, s.Epoch = 0, 0 // a run repeated elsewhere has the same numbers
	data, err := runs.Encode(&s, nil)
	if err != nil {
		panic(err) // it was just decoded
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))[:16]
}

// Batches are numbered in the order of their sampling, the reference's chunks first, so that each has streams of its
// own.
const (
	maxChunk       = 20_000  // samples
	firstRepeat    = 1 << 32 // beyond the number of any chunk
	firstUncertain = 1 << 48 // beyond that of any repeat
	chunksAtLeast  = 2
)

// baselineName tells references with this baseline from any others.
const baselineName = "V; and linear in time, observations and the critic's features, mean of the chunks before"

// reference is the "true" gradient of a policy.
type reference struct {
	gradient      []float64
	halves        [2][]float64 // of its even and odd chunks
	samples       float64
	returns       float64 // of its episodes, the mean
	natural       float64 // the gain of its natural gradient, for a step of unit length
	naturalHalves float64 // the cosine between the natural gradients of its halves, in the Fisher matrix's geometry
}

// targets returns those that the contenders have, by name: the discounted returns, and these less the value function's
// predictions. Both go on after a time limit if training's do, so that they have the same expectation of the gradient.
func (p *probe) targets(name string) train.Targets {
	s := p.subject.settings
	if name == rawReturns {
		return train.Returns{Gamma: s.Gamma, Bootstrap: s.Bootstrap}
	}
	return train.Advantages{Gamma: s.Gamma, Lambda: 1, Bootstrap: s.Bootstrap}
}

// measureReference computes the reference gradient in chunks: the mean of their Monte Carlo gradients, weighted by their
// samples. The baseline subtracted from a chunk's targets is the mean of those fitted to the preceding chunks, so that no
// sample influences its own baseline. Chunk 0 provides the first baseline and is not counted.
func (p *probe) measureReference(ctx context.Context) (*reference, error) {
	chunk := min(maxChunk, (p.reference+chunksAtLeast-1)/chunksAtLeast)
	settings := p.settings.with("samples", chunk).with("baseline", baselineName)
	var fitted []float64 // sum of the baselines
	r, episodes := new(reference), 0.0
	for i := 0; (i-1)*chunk < p.reference; i++ {
		arrays, err := measureOnce(p.path("reference-%03d", i), settings, func() (measured, error) {
			batch, err := p.collect(ctx, uint64(1+i), chunk)
			if err != nil {
				return nil, err
			}
			var baseline []float64
			if i > 0 {
				baseline = accumulate(nil, 1/float64(i), fitted)
			}
			var returns []float64
			for _, e := range batch.Episodes {
				returns = append(returns, e.Return())
			}
			g, err := p.restored.run.MonteCarloGradient(batch.Episodes, p.targets(lessValues), baseline)
			return measured{"gradient": g.Gradient, "baseline": g.Baseline, "returns": returns, "steps": {float64(batch.Steps)}}, err
		})
		if err != nil {
			return nil, fmt.Errorf("the reference gradient: %w", err)
		}
		fitted = accumulate(fitted, 1, arrays["baseline"])
		if i == 0 {
			continue
		}
		steps := arrays["steps"][0]
		r.samples += steps
		r.returns += floats.Sum(arrays["returns"])
		episodes += float64(len(arrays["returns"]))
		r.halves[i%2] = accumulate(r.halves[i%2], steps, arrays["gradient"])
	}
	r.returns /= episodes
	r.gradient = floats.AddTo(make([]float64, len(r.halves[0])), r.halves[0], r.halves[1])
	floats.Scale(1/r.samples, r.gradient)
	return r, nil
}

// collect plays a batch of the policy.
func (p *probe) collect(ctx context.Context, number uint64, steps int) (*collect.Batch, error) {
	return p.restored.collector.Collect(ctx, collect.Order{Policy: p.restored.run.Policy(number), Steps: steps})
}

// The batch whose Fisher matrix is the measure of natural gradients.
const (
	metricNumber = firstRepeat - 1
	metricSize   = 4_000 // samples, but no more than the reference's
)

// measureNatural measures the reference's natural gradient by the metric.
func (p *probe) measureNatural(r *reference, metric func() (*train.Sampled, error)) error {
	arrays, err := measureOnce(p.path("natural-%.0f", r.samples), p.settings, func() (measured, error) {
		m, err := metric()
		if err != nil {
			return nil, err
		}
		d, err := m.Natural(r.gradient)
		if err != nil {
			return nil, err
		}
		var dots [2][2]float64
		for i, half := range r.halves {
			d, err := m.Natural(half)
			if err != nil {
				return nil, err
			}
			dots[i] = [2]float64{floats.Dot(r.halves[0], d), floats.Dot(r.halves[1], d)}
		}
		return measured{
			"gain":   {floats.Dot(r.gradient, d) / math.Sqrt(m.Length(d))},
			"halves": {dots[0][1] / math.Sqrt(dots[0][0]*dots[1][1])},
		}, nil
	})
	if err != nil {
		return fmt.Errorf("the reference's natural gradient: %w", err)
	}
	r.natural, r.naturalHalves = arrays["gain"][0], arrays["halves"][0]
	return nil
}

// measureBatches computes the gradients of all batches.
func (p *probe) measureBatches(ctx context.Context, metric func() (*train.Sampled, error)) (batches []batch, err error) {
	for _, size := range p.sizes {
		settings := p.settings.with("samples", size)
		for repeat := range p.repeats {
			number := firstRepeat + uint64(size)*maxRepeats + uint64(repeat)
			arrays, err := measureOnce(p.path("size-%d-repeat-%03d", size, repeat), settings, func() (measured, error) {
				metric, err := metric()
				if err != nil {
					return nil, err
				}
				batch, err := p.collect(ctx, number, int(size))
				if err != nil {
					return nil, err
				}
				return p.estimate(metric, batch, number)
			})
			if err != nil {
				return nil, fmt.Errorf("%d samples, repeat %d: %w", size, repeat+1, err)
			}
			batches = append(batches, batch{size: size, steps: arrays["steps"][0], gradients: arrays})
		}
	}
	return batches, nil
}

// estimate takes every contender's gradient of a batch.
func (p *probe) estimate(metric *train.Sampled, batch *collect.Batch, number uint64) (measured, error) {
	s := compute.NewScope(p.restored.run.Backend)
	defer s.Release()
	sampled, err := p.restored.run.Sample(s, batch.Episodes, train.NewRandom(p.seed, number))
	if err != nil {
		return nil, err
	}
	arrays := measured{"steps": {float64(batch.Steps)}}
	add := func(c estimation, g train.Gradient) {
		arrays[c.String()], arrays[c.String()+naturalSuffix] = g.Plain, g.Natural
		arrays[c.String()+lengthSuffix] = []float64{metric.Length(g.Natural)}
	}
	for _, targets := range []string{rawReturns, lessValues} {
		g, err := sampled.MonteCarlo(p.targets(targets))
		if err != nil {
			return nil, err
		}
		add(estimation{targets, monteCarlo.directory, ""}, g)
		for _, posterior := range []string{nominal, learned} {
			dbqpg, uapg, err := sampled.Quadrature(p.targets(targets), p.hyper(posterior), p.subject.settings.Epsilon)
			if err != nil {
				return nil, fmt.Errorf("%s posterior, %s: %w", posterior, targets, err)
			}
			add(estimation{targets, bayesian.directory, posterior}, dbqpg)
			add(estimation{targets, aware.directory, posterior}, uapg)
		}
	}
	return arrays, nil
}

// hyper returns a posterior's hyperparameters, nil where they are learned from the batch.
func (p *probe) hyper(posterior string) *gp.Hyper {
	if posterior == nominal {
		return &p.restored.nominal
	}
	return nil
}

var uncertaintyColumns = []string{"size", "targets", "posterior", "predicted", "undamped", "measured"}

// measureUncertainty returns a table of what the posterior of a batch apart says of the variance of DBQPG's gradient
// along the eigenvectors of its covariance, with and without the Fisher matrix's damping, beside the variance of the
// repeats'.
func (p *probe) measureUncertainty(ctx context.Context, batches []batch) ([][]string, error) {
	lines := [][]string{uncertaintyColumns}
	for _, size := range p.sizes {
		number := firstUncertain + uint64(size)
		arrays, err := measureOnce(p.path("size-%d-uncertainty", size), p.settings.with("samples", size), func() (measured, error) {
			batch, err := p.collect(ctx, number, int(size))
			if err != nil {
				return nil, err
			}
			s := compute.NewScope(p.restored.run.Backend)
			defer s.Release()
			sampled, err := p.restored.run.Sample(s, batch.Episodes, train.NewRandom(p.seed, number))
			if err != nil {
				return nil, err
			}
			arrays := measured{}
			for _, c := range estimations() {
				if c.estimator != bayesian.directory {
					continue
				}
				all, err := sampled.Uncertainty(p.targets(c.targets), p.hyper(c.posterior))
				if err != nil {
					return nil, err
				}
				for _, u := range all {
					arrays[c.String()] = append(append(arrays[c.String()], u.Variance, u.Undamped), u.Direction...)
				}
			}
			return arrays, nil
		})
		if err != nil {
			return nil, fmt.Errorf("%d samples, the uncertainty: %w", size, err)
		}
		for _, c := range estimations() {
			var gradients [][]float64
			for _, b := range batches {
				if b.size == size {
					gradients = append(gradients, b.gradients[c.String()])
				}
			}
			for u := range slices.Chunk(arrays[c.String()], 2+len(gradients[0])) {
				along := make([]float64, len(gradients))
				for i, g := range gradients {
					along[i] = floats.Dot(g, u[2:])
				}
				line := []string{fmt.Sprint(size), c.targets, c.posterior}
				for _, x := range []float64{u[0], u[1], math.Pow(stats.StdDev(along), 2)} {
					line = append(line, short(x, qualityDigits))
				}
				lines = append(lines, line)
			}
		}
	}
	return lines, nil
}

// accumulate adds weight times x to sum, which may be nil; so may x.
func accumulate(sum []float64, weight float64, x []float64) []float64 {
	if sum == nil {
		sum = make([]float64, len(x))
	}
	for i, v := range x {
		sum[i] += weight * v
	}
	return sum
}

func cosine(x, y []float64) float64 {
	return floats.Dot(x, y) / (floats.Norm(x, 2) * floats.Norm(y, 2))
}
