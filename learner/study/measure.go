package study

import (
	"context"
	"crypto/sha256"
	"fmt"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/learner/checkpoint"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/learner/rundir"
	"github.com/dbqpg/dbqpg/learner/session"
	"github.com/dbqpg/dbqpg/learner/train"
	"github.com/dbqpg/dbqpg/sim"
)

// measurement is the gradients of one policy.
type measurement struct {
	subject   string
	iteration uint64
	reference []float64 // gradient
	halves    float64   // cosine between the gradients of the reference's even and odd chunks
	samples   float64   // of the reference
	baseline  float64   // share of the reference's variance that the baseline removed
	batches   []batch
}

// batch is one batch's gradients.
type batch struct {
	size      uint // samples asked for
	steps     float64
	gradients measured // by estimator
}

// probe measures one policy.
type probe struct {
	*qualityOptions
	restored restored
	settings conditions // of the run, the checkpoint and the way of measuring
	path     func(format string, args ...any) string
	seed     uint64
}

// measure restores a policy and measures those of its gradients that have not been measured before.
func (o *qualityOptions) measure(ctx context.Context, j *job, s trial, iteration uint64) (*measurement, error) {
	m := &measurement{subject: s.name, iteration: iteration}
	seed := streams.New(o.samplingSeed, streams.Study, s.settings.Seed, iteration).Uint64()
	err := s.restore(ctx, iteration, seed, func(ctx context.Context, r restored) error {
		j.log.Info("measuring gradients", "run", s.name, "iteration", iteration, "reference", o.reference, "sizes", o.sizes, "repeats", o.repeats)
		p := &probe{
			qualityOptions: o, restored: r, seed: seed,
			settings: conditions(r.madeWith).with("checkpoint", digest(r.state)).with("sampling_seed", o.samplingSeed),
			path: func(format string, args ...any) string {
				return j.path("units", s.name, fmt.Sprintf("iteration-%d", iteration), fmt.Sprintf(format, args...))
			},
		}
		if err := p.measureReference(ctx, m); err != nil {
			return err
		}
		return p.measureBatches(ctx, m)
	})
	return m, err
}

// restored is a run at one of its checkpoints, and a collector for its policies.
type restored struct {
	run       *train.Run
	state     *checkpoint.State
	madeWith  map[string]string // the checkpoint's settings
	collector *collect.Collector
}

// restore calls body with the run at a checkpoint. The streams of its batches depend on the seed, so that none shares an
// episode with training.
func (s trial) restore(ctx context.Context, iteration, seed uint64, body func(context.Context, restored) error) (err error) {
	defer compute.Catch(&err)
	task, err := sim.Lookup(s.settings.Env)
	if err != nil {
		return err
	}
	state, madeWith, err := checkpoint.Read(rundir.Checkpoints(s.settings.RunDir), iteration)
	if err != nil {
		return err
	}
	computer, err := device.Open(s.settings.Device)
	if err != nil {
		return err
	}
	defer computer.Close()
	run := train.NewRun(computer.Backend, s.settings, task)
	if err := run.Resume(state, 1); err != nil {
		return err
	}
	return session.Sample(ctx, session.Sampling{Task: task, Seed: seed, Actors: config.AutoActors}, func(ctx context.Context, collector *collect.Collector) error {
		return body(ctx, restored{run, state, madeWith, collector})
	})
}

// digest tells a checkpoint's policy and critic from any other's.
func digest(state *checkpoint.State) string {
	s := *state
	s.Elapsed, s.Epoch = 0, 0 // a run repeated elsewhere has the same numbers
	data, err := checkpoint.Encode(&s, nil)
	if err != nil {
		panic(err) // it was just decoded
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))[:16]
}

// Batches are numbered in the order of their sampling, the reference's chunks first, so that each has streams of its
// own.
const (
	maxChunk      = 20_000  // samples
	firstRepeat   = 1 << 32 // beyond the number of any chunk
	chunksAtLeast = 2
)

// baselineName tells references with this baseline from any others.
const baselineName = "linear in time, observations and the critic's features; mean of the chunks before"

// The gradients of the reference's chunks, with the baseline and without.
var controlled, plain = variant{directory: "gradient"}, variant{directory: "plain"}

// measureReference computes the reference gradient in chunks: the mean of their Monte Carlo gradients, weighted by their
// samples. The baseline subtracted from a chunk's targets is the mean of those fitted to the preceding chunks, so that no
// sample influences its own baseline. Chunk 0 provides the first baseline and is not counted.
func (p *probe) measureReference(ctx context.Context, m *measurement) error {
	chunk := min(maxChunk, (p.reference+chunksAtLeast-1)/chunksAtLeast)
	settings := p.settings.with("samples", chunk).with("baseline", baselineName)
	var halves [2][]float64
	var fitted []float64 // sum of the baselines
	var chunks []batch
	for i := 0; (i-1)*chunk < p.reference; i++ {
		arrays, err := measureOnce(p.path("reference-%03d", i), settings, func() (measured, error) {
			batch, err := p.restored.collector.Collect(ctx, p.restored.run.Policy(uint64(1+i)), chunk)
			if err != nil {
				return nil, err
			}
			var baseline []float64
			if i > 0 {
				baseline = accumulate(nil, 1/float64(i), fitted)
			}
			g, err := p.restored.run.MonteCarloGradient(batch.Episodes, baseline)
			return measured{"gradient": g.Gradient, "plain": g.Plain, "baseline": g.Baseline, "steps": {float64(batch.Steps)}}, err
		})
		if err != nil {
			return fmt.Errorf("the reference gradient: %w", err)
		}
		fitted = accumulate(fitted, 1, arrays["baseline"])
		if i == 0 {
			continue
		}
		steps := arrays["steps"][0]
		m.samples += steps
		halves[i%2] = accumulate(halves[i%2], steps, arrays["gradient"])
		chunks = append(chunks, batch{gradients: arrays})
	}
	m.halves = cosine(halves[0], halves[1])
	m.reference = accumulate(halves[0], 1, halves[1])
	with, _ := gramOf(chunks, controlled).moments(-1)
	without, _ := gramOf(chunks, plain).moments(-1)
	m.baseline = 1 - with/without
	return nil
}

// measureBatches computes the gradients of all batches.
func (p *probe) measureBatches(ctx context.Context, m *measurement) error {
	for _, size := range p.sizes {
		settings := p.settings.with("samples", size).with("freeze", p.freeze)
		for repeat := range p.repeats {
			number := firstRepeat + uint64(size)*maxRepeats + uint64(repeat)
			arrays, err := measureOnce(p.path("size-%d-repeat-%03d", size, repeat), settings, func() (measured, error) {
				batch, err := p.restored.collector.Collect(ctx, p.restored.run.Policy(number), int(size))
				if err != nil {
					return nil, err
				}
				g, err := p.restored.run.Gradients(batch.Episodes, !p.freeze, train.NewRandom(p.seed, number))
				return measured{"mc": g.MonteCarlo, "dbqpg": g.DBQPG, "uapg": g.UAPG, "steps": {float64(batch.Steps)}}, err
			})
			if err != nil {
				return fmt.Errorf("%d samples, repeat %d: %w", size, repeat+1, err)
			}
			m.batches = append(m.batches, batch{size: size, steps: arrays["steps"][0], gradients: arrays})
		}
	}
	return nil
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
