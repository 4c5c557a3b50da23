package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"
	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/internal/chart"
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

// gradients is the measurement of the gradients that policies of a run have at several iterations: those of repeated
// batches of several sizes, in several ways, against one from many samples.
type gradients struct {
	runs             []string // directories; none: the study trains its own
	envs             []string
	algorithm        string
	seed             uint
	set              []string
	at               []uint // iterations
	sizes            []uint
	repeats, samples int // of a size; of the reference
	samplingSeed     uint64
}

func (m *gradients) flags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&m.runs, "run", nil, "run directory to measure; may be repeated, one a task (default: train "+
		"a run on each task)")
	flags.StringSliceVar(&m.envs, "env", []string{"Swimmer-v2", "Hopper-v2", "HalfCheetah-v2"},
		"tasks of the runs to train")
	flags.StringVar(&m.algorithm, "algorithm", "trpo", "algorithm of the runs to train: vanilla, npg or trpo")
	flags.UintVar(&m.seed, "seed", 1, "seed of the runs to train")
	flags.StringArrayVar(&m.set, "set", nil, "setting of the runs to train, such as batch=5000; may be repeated")
	flags.UintSliceVar(&m.at, "at", []uint{0, 10, 50}, "iterations whose policies to measure")
	flags.UintSliceVar(&m.sizes, "sizes", []uint{500, 1000, 2000, 4000, 8000, 15000}, "minimum batch sizes in samples")
	flags.IntVar(&m.repeats, "repeats", 10, "number of batches of each size")
	flags.IntVar(&m.samples, "reference", 1_000_000, "number of samples for the reference gradient")
	flags.Uint64Var(&m.samplingSeed, "sampling-seed", 1, "seed of the episodes of the batches and of the reference")
}

// maxRepeats keeps the numbers of all batches apart.
const maxRepeats = 10_000

func (m *gradients) prepare(j *job) error {
	var c checks
	requireDistinct(&c, "env", m.envs)
	requireDistinct(&c, "at", m.at)
	requireDistinct(&c, "sizes", m.sizes)
	c.require(!slices.Contains(m.sizes, 0), "--sizes: a batch has at least 1 sample")
	c.require(m.repeats >= 2 && m.repeats <= maxRepeats,
		"--repeats %d: a variance takes at least 2; at most %d are possible",
		m.repeats, maxRepeats)
	c.require(m.samples >= 2, "--reference %d: too few samples", m.samples)
	for _, flag := range []string{"env", "algorithm", "seed", "set"} {
		c.require(len(m.runs) == 0 || !j.cmd.Flags().Changed(flag), "--run and --%s are mutually exclusive", flag)
	}
	slices.Sort(m.at)
	slices.Sort(m.sizes)
	return errors.Join(c...)
}

// measure measures the policies of all runs, and has the page written after each.
func (m *gradients) measure(ctx context.Context, j *job, report func() error) error {
	subjects, err := m.subjects(ctx, j)
	if err != nil {
		return err
	}
	for i, s := range subjects {
		if s.Targets != config.GAE || s.ValueLearning != config.Converge || s.KernelLearning != config.Converge {
			return fmt.Errorf("%s: the run has no value function of its own, or no learned posterior: measure one of "+
				"--targets gae "+
				"--value-learning converge --kernel-learning converge, such as --preset best", s.RunDir)
		}
		if slices.ContainsFunc(subjects[:i], func(other *config.Settings) bool { return other.Env == s.Env }) {
			return fmt.Errorf("--run %s: there is one on %s already", s.RunDir, s.Env)
		}
		if err := hasCheckpoints(s, m.at); err != nil {
			return err
		}
	}
	for _, s := range subjects {
		for _, at := range m.at {
			err := m.policy(ctx, j, s, uint64(at))
			if err == nil {
				err = report()
			}
			if err != nil {
				return fmt.Errorf("%s, iteration %d: %w", s.Env, at, err)
			}
		}
	}
	return nil
}

// subjects returns the runs to measure: the given ones, or runs that it trains.
func (m *gradients) subjects(ctx context.Context, j *job) (all []*config.Settings, err error) {
	if len(m.runs) > 0 {
		return given("--run ", m.runs)
	}
	common, err := parseSet(m.set)
	if err != nil {
		return nil, err
	}
	at := strings.Trim(strings.ReplaceAll(fmt.Sprint(m.at), " ", ","), "[]")
	var trials []*trial
	for _, env := range m.envs {
		t := &trial{name: env}
		t.assignments = slices.Concat([]config.Assignment{unevaluated, {Name: "preset", Value: string(config.Best)}},
			common, []config.Assignment{
				{Name: "env", Value: env}, {Name: "algorithm", Value: m.algorithm}, {Name: "estimator", Value: "dbqpg"},
				{Name: "seed", Value: fmt.Sprint(m.seed)}, {Name: "keep_checkpoints", Value: at},
				{Name: "iterations", Value: fmt.Sprint(max(1, slices.Max(m.at)))},
				{Name: "run_dir", Value: j.path("runs", env, m.algorithm+"-dbqpg", fmt.Sprintf("s%d", m.seed))},
			})
		if t.settings, err = config.Resolve(t.assignments...); err != nil {
			return nil, err
		}
		trials, all = append(trials, t), append(all, t.settings)
	}
	p, err := survey(trials, 1)
	if err != nil {
		return nil, err
	}
	return all, p.train(ctx, j, func() error { return nil })
}

// hasCheckpoints fails unless the run can be measured at these iterations.
func hasCheckpoints(s *config.Settings, at []uint) error {
	if s.Estimator == config.MonteCarlo {
		return fmt.Errorf("%s: the run has learned no kernel: measure one of --estimator dbqpg or uapg", s.RunDir)
	}
	if s.FisherSamples != 1 {
		return fmt.Errorf("%s: gradients are measured with the Fisher matrix from their own samples: "+
			"take a run of --fisher-samples 1x", s.RunDir)
	}
	kept, err := runs.Iterations(runs.Checkpoints(s.RunDir))
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Clone(at), func(iteration uint) bool {
		return slices.Contains(kept, uint64(iteration))
	})
	if len(missing) > 0 {
		return fmt.Errorf("%s has checkpoints of the iterations %v, but none of %v: train a run with "+
			"--keep-checkpoints, "+
			"or choose others by --at", s.RunDir, kept, missing)
	}
	return nil
}

// restored is a run at one of its checkpoints, and a collector for its policies.
type restored struct {
	run       *train.Run
	state     *runs.State
	madeWith  map[string]string // the checkpoint's settings
	collector *collect.Collector
	nominal   gp.Hyper // the hyperparameters with which --preset paper begins
}

// restore calls body with the run at a checkpoint. The streams of its batches depend on the seed, so that none shares
// an episode with training.
func restore(ctx context.Context, s *config.Settings, iteration, seed uint64,
	body func(context.Context, restored) error) (err error) {
	defer compute.Catch(&err)
	task, err := sim.Lookup(s.Env)
	if err != nil {
		return err
	}
	state, madeWith, err := runs.Read(runs.Checkpoints(s.RunDir), iteration)
	if err != nil {
		return err
	}
	computer, err := device.Open(s.Device)
	if err != nil {
		return err
	}
	defer computer.Close()
	run := train.NewRun(computer.Backend, s, task)
	paper, err := config.ForTask(s.Env, s.Algorithm, config.DBQPG, config.Paper)
	if err != nil {
		return err
	}
	paper.BaseKernel = s.BaseKernel
	nominal := train.New(computer.Backend, &paper, task).Critic.Hyper()
	if err := run.Resume(state, 1); err != nil {
		return err
	}
	sampling := session.Sampling{Task: task, Seed: seed, Actors: config.AutoActors}
	return session.Sample(ctx, sampling, func(ctx context.Context, collector *collect.Collector) error {
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

// estimation is an estimator with its targets and its posterior.
type estimation struct {
	targets   string
	estimator string
	posterior string // "" for Monte Carlo
}

// The targets and the posteriors. Training's targets are generalised advantages with the run's lambda.
const (
	rawReturns = "returns"
	lessValues = "less V"
	advantages = "advantages"
	nominal    = "nominal"
	learned    = "learned"
)

func (c estimation) String() string {
	return strings.TrimSpace(c.targets + " " + c.estimator + " " + c.posterior)
}

// estimations returns all, in the order of tables.
func estimations() (all []estimation) {
	for _, targets := range []string{rawReturns, lessValues, advantages} {
		all = append(all, estimation{targets, "mc", ""})
		for _, posterior := range []string{nominal, learned} {
			all = append(all, estimation{targets, "dbqpg", posterior}, estimation{targets, "uapg", posterior})
		}
	}
	return all
}

// probe measures the gradients of one policy.
type probe struct {
	*gradients
	restored
	subject  *config.Settings
	settings conditions // of the run, the checkpoint and the way of measuring
	path     func(format string, args ...any) string
	seed     uint64
	metric   func() (*train.Sampled, error) // the policy on the batch whose Fisher matrix measures steps
}

// batch is one batch's estimates.
type batch struct {
	size   uint     // samples asked for
	arrays measured // by contender its gradient, with suffixes its natural gradient and lengths; "steps": its samples
}

// After a contender's name, in a batch's arrays.
const (
	naturalSuffix     = " natural"      // its natural gradient d
	lengthSuffix      = " length"       // d'G d
	plainLengthSuffix = " plain length" // g'G g
)

// policy restores a policy, measures those of its gradients that have not been measured before, and publishes them.
func (m *gradients) policy(ctx context.Context, j *job, s *config.Settings, iteration uint64) error {
	seed := streams.New(m.samplingSeed, streams.Study, s.Seed, iteration).Uint64()
	return restore(ctx, s, iteration, seed, func(ctx context.Context, r restored) error {
		j.log.Info("measuring gradients", "run", s.Env, "iteration", iteration, "reference", m.samples, "sizes",
			m.sizes, "repeats", m.repeats)
		scope := compute.NewScope(r.run.Backend)
		defer scope.Release()
		p := &probe{
			gradients: m, restored: r, subject: s, seed: seed,
			settings: conditions(r.madeWith).with("checkpoint", digest(r.state)).with("sampling_seed", m.samplingSeed),
			path: func(format string, args ...any) string {
				return j.path("units", s.Env, fmt.Sprintf("iteration-%d", iteration), fmt.Sprintf(format, args...))
			},
		}
		p.metric = sync.OnceValues(func() (*train.Sampled, error) {
			batch, err := p.collect(ctx, metricNumber, min(metricSize, m.samples))
			if err != nil {
				return nil, err
			}
			return r.run.Sample(scope, batch.Episodes, train.NewRandom(seed, metricNumber))
		})
		reference, err := p.reference(ctx)
		if err != nil {
			return fmt.Errorf("the reference gradient: %w", err)
		}
		if err := p.natural(reference); err != nil {
			return fmt.Errorf("the reference's natural gradient: %w", err)
		}
		batches, err := p.batches(ctx)
		if err != nil {
			return err
		}
		uncertainty, err := p.uncertainty(ctx, batches)
		if err != nil {
			return err
		}
		return p.publish(j, reference, batches, uncertainty)
	})
}

// Batches are numbered in the order of their sampling, the reference's chunks first, so that each has streams of its
// own. The metric's batch is as large as memory allows for its scores.
const (
	maxChunk       = 20_000 // samples
	metricSize     = 20_000
	firstRepeat    = 1 << 32 // beyond the number of any chunk
	metricNumber   = firstRepeat - 1
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

// targets returns the targets of a name. All go on after a time limit if training's do. Returns, and these less the
// value function's predictions, have the same expectation of the gradient; advantages have the bias of the value
// function.
func (p *probe) targets(name string) train.Targets {
	s := p.subject
	switch name {
	case rawReturns:
		return train.Returns{Gamma: s.Gamma, Bootstrap: s.Bootstrap}
	case lessValues:
		return train.Advantages{Gamma: s.Gamma, Lambda: 1, Bootstrap: s.Bootstrap}
	}
	return train.Advantages{Gamma: s.Gamma, Lambda: s.GAELambda, Bootstrap: s.Bootstrap}
}

// reference computes the reference gradient in chunks: the mean of their Monte Carlo gradients, weighted by their
// samples. The baseline subtracted from a chunk's targets is the mean of those fitted to the preceding chunks, so that
// no sample influences its own baseline. Chunk 0 provides the first baseline and is not counted.
func (p *probe) reference(ctx context.Context) (*reference, error) {
	chunk := min(maxChunk, (p.samples+chunksAtLeast-1)/chunksAtLeast)
	settings := p.settings.with("samples", chunk).with("baseline", baselineName)
	var fitted []float64 // sum of the baselines
	r, episodes := new(reference), 0.0
	for i := 0; (i-1)*chunk < p.samples; i++ {
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
			g, err := p.run.MonteCarloGradient(batch.Episodes, p.targets(lessValues), baseline)
			return measured{"gradient": g.Gradient, "baseline": g.Baseline, "returns": returns,
				"steps": {float64(batch.Steps)}}, err
		})
		if err != nil {
			return nil, err
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
	return p.collector.Collect(ctx, collect.Order{Policy: p.run.Policy(number), Steps: steps})
}

// withMetric returns the settings of measurements by the metric.
func (p *probe) withMetric() conditions { return p.settings.with("metric", min(metricSize, p.samples)) }

// natural measures the reference's natural gradient by the metric.
func (p *probe) natural(r *reference) error {
	arrays, err := measureOnce(p.path("natural-%.0f", r.samples), p.withMetric(), func() (measured, error) {
		metric, err := p.metric()
		if err != nil {
			return nil, err
		}
		d, err := metric.Natural(r.gradient)
		if err != nil {
			return nil, err
		}
		var dots [2][2]float64
		for i, half := range r.halves {
			d, err := metric.Natural(half)
			if err != nil {
				return nil, err
			}
			dots[i] = [2]float64{floats.Dot(r.halves[0], d), floats.Dot(r.halves[1], d)}
		}
		return measured{
			"gain":   {floats.Dot(r.gradient, d) / math.Sqrt(metric.Length(d))},
			"halves": {dots[0][1] / math.Sqrt(dots[0][0]*dots[1][1])},
		}, nil
	})
	if err == nil {
		r.natural, r.naturalHalves = arrays["gain"][0], arrays["halves"][0]
	}
	return err
}

// batches measures the gradients of all batches.
func (p *probe) batches(ctx context.Context) (all []batch, err error) {
	for _, size := range p.sizes {
		settings := p.withMetric().with("samples", size)
		for repeat := range p.repeats {
			number := firstRepeat + uint64(size)*maxRepeats + uint64(repeat)
			arrays, err := measureOnce(p.path("size-%d-repeat-%03d", size, repeat), settings, func() (measured, error) {
				return p.estimate(ctx, size, number)
			})
			if err != nil {
				return nil, fmt.Errorf("%d samples, repeat %d: %w", size, repeat+1, err)
			}
			all = append(all, batch{size, arrays})
		}
	}
	return all, nil
}

// estimate takes every contender's gradient of a batch.
func (p *probe) estimate(ctx context.Context, size uint, number uint64) (measured, error) {
	metric, err := p.metric()
	if err != nil {
		return nil, err
	}
	s := compute.NewScope(p.run.Backend)
	defer s.Release()
	sampled, steps, err := p.sample(ctx, s, size, number)
	if err != nil {
		return nil, err
	}
	arrays := measured{"steps": {float64(steps)}}
	add := func(c estimation, g train.Gradient) {
		arrays[c.String()], arrays[c.String()+naturalSuffix] = g.Plain, g.Natural
		arrays[c.String()+lengthSuffix] = []float64{metric.Length(g.Natural)}
		arrays[c.String()+plainLengthSuffix] = []float64{metric.Length(g.Plain)}
	}
	for _, c := range estimations() {
		switch c.estimator {
		case "mc":
			g, err := sampled.MonteCarlo(p.targets(c.targets))
			if err != nil {
				return nil, err
			}
			add(c, g)
		case "dbqpg": // and UAPG, which corrects it
			dbqpg, uapg, err := sampled.Quadrature(p.targets(c.targets), p.hyper(c.posterior), p.subject.Epsilon)
			if err != nil {
				return nil, fmt.Errorf("%s posterior, %s: %w", c.posterior, c.targets, err)
			}
			add(c, dbqpg)
			add(estimation{c.targets, "uapg", c.posterior}, uapg)
		}
	}
	return arrays, nil
}

// sample plays a batch and evaluates the policy on it.
func (p *probe) sample(ctx context.Context, s *compute.Scope, size uint, number uint64) (*train.Sampled, int, error) {
	batch, err := p.collect(ctx, number, int(size))
	if err != nil {
		return nil, 0, err
	}
	sampled, err := p.run.Sample(s, batch.Episodes, train.NewRandom(p.seed, number))
	return sampled, batch.Steps, err
}

// hyper returns a posterior's hyperparameters, nil if they are learned from the batch.
func (p *probe) hyper(posterior string) *gp.Hyper {
	if posterior == nominal {
		return &p.nominal
	}
	return nil
}

// uncertainty returns a table of the variance that the posterior of another batch predicts for DBQPG's gradient along
// the eigenvectors of its covariance, with and without the Fisher matrix's damping, beside the variance of the
// repeats'.
func (p *probe) uncertainty(ctx context.Context, batches []batch) ([][]string, error) {
	rows := [][]string{{"size", "targets", "posterior", "predicted", "undamped", "measured"}}
	bayesian := slices.DeleteFunc(estimations(), func(c estimation) bool {
		return c.estimator != "dbqpg" || c.targets == advantages
	})
	for _, size := range p.sizes {
		arrays, err := measureOnce(p.path("size-%d-uncertainty", size), p.settings.with("samples", size),
			func() (measured, error) {
				s := compute.NewScope(p.run.Backend)
				defer s.Release()
				sampled, _, err := p.sample(ctx, s, size, firstUncertain+uint64(size))
				if err != nil {
					return nil, err
				}
				arrays := measured{}
				for _, c := range bayesian {
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
		for _, c := range bayesian {
			var gradients [][]float64
			for _, b := range batches {
				if b.size == size {
					gradients = append(gradients, b.arrays[c.String()])
				}
			}
			for u := range slices.Chunk(arrays[c.String()], 2+len(gradients[0])) {
				along := make([]float64, len(gradients))
				for i, g := range gradients {
					along[i] = floats.Dot(g, u[2:])
				}
				rows = append(rows, []string{fmt.Sprint(size), c.targets, c.posterior, rounded(u[0], 5),
					rounded(u[1], 5),
					rounded(math.Pow(stats.StdDev(along), 2), 5)})
			}
		}
	}
	return rows, nil
}

// gradientColumns are the columns of a policy's table. The gain of a step d is its step efficiency,
//
//	g*'d / sqrt(d'G d . g*'G^-1 g*),
//
// the share of the best first-order gain at equal divergence, with the reference's gradient g* and the metric's Fisher
// matrix G: of the natural gradient, and of the plain one.
var gradientColumns = []string{"size", "samples", "targets", "estimator", "posterior", "cosine", "norm", "along",
	"gain", "plain_gain"}

// publish writes a policy's table.
func (p *probe) publish(j *job, r *reference, batches []batch, uncertainty [][]string) error {
	rows := [][]string{gradientColumns}
	for _, size := range p.sizes {
		of := slices.DeleteFunc(slices.Clone(batches), func(b batch) bool { return b.size != size })
		for _, c := range estimations() {
			var sum []float64
			for _, b := range of {
				sum = accumulate(sum, 1, b.arrays[c.String()])
			}
			length := floats.Norm(sum, 2)
			for _, b := range of {
				g, natural := b.arrays[c.String()], b.arrays[c.String()+naturalSuffix]
				row := []string{fmt.Sprint(size), fmt.Sprint(b.arrays["steps"][0]), c.targets, c.estimator, c.posterior}
				for _, x := range []float64{
					cosine(g, r.gradient), floats.Norm(g, 2), floats.Dot(g, sum) / length,
					floats.Dot(r.gradient, natural) / math.Sqrt(b.arrays[c.String()+lengthSuffix][0]) / r.natural,
					floats.Dot(r.gradient, g) / math.Sqrt(b.arrays[c.String()+plainLengthSuffix][0]) / r.natural,
				} {
					row = append(row, rounded(x, 5))
				}
				rows = append(rows, row)
			}
		}
	}
	made, err := newRecord(p.subject)
	if err != nil {
		return err
	}
	made.Measured = thisProgram()
	made.Facts = map[string]any{
		"iteration": p.state.Iteration, "steps": p.state.Steps, "return": r.returns, "reference": r.samples,
		"halves": cosine(r.halves[0], r.halves[1]), "natural_halves": r.naturalHalves,
		"sampling_seed": p.samplingSeed,
	}
	if err := writeRecorded(j.path("data", p.subject.Env, fmt.Sprintf("uncertainty-%d", p.state.Iteration)), made,
		uncertainty); err != nil {
		return err
	}
	return writeRecorded(j.path("data", p.subject.Env, fmt.Sprintf("iteration-%d", p.state.Iteration)), made, rows)
}

// contenderColors are the colours of the contenders in figures.
var contenderColors = map[string]int{
	"returns mc": chart.Gray, "returns dbqpg learned": 0,
	"less V mc": 6, "less V dbqpg nominal": 3, "less V dbqpg learned": 2, "less V uapg learned": 1,
	"advantages mc": 4, "advantages dbqpg learned": 5, "advantages uapg learned": 7,
}

func (m *gradients) read(j *job) (all []*series, _ []string, err error) {
	labels := []string{"size", "targets", "estimator", "posterior"}
	if all, err = j.readData("data/*/iteration-*.csv", labels); err != nil {
		return nil, nil, err
	}
	if len(all) == 0 {
		return nil, nil, fmt.Errorf("--out %s: nothing is measured yet: there is no data/TASK/iteration-*.csv", j.out)
	}
	for _, s := range all {
		c := estimation{s.labels["targets"], s.labels["estimator"], s.labels["posterior"]}
		first := matching(all, map[string][]string{"path": {s.labels["path"]}, "size": {s.labels["size"]}})[0]
		switch n := s.rows(); {
		case s.record == nil:
			return nil, nil, fmt.Errorf("%s has no record", s.labels["path"])
		case !slices.Contains(estimations(), c):
			return nil, nil, fmt.Errorf("%s: no contender is %q", s.labels["path"], c)
		case n < 2 || n != first.rows():
			return nil, nil, fmt.Errorf("%s: %s has %s of size %s", s.labels["path"], c, plural(n, "batch"),
				s.labels["size"])
		}
		s.labels["contender"], s.labels["name"] = c.String(), c.String()
		s.labels["task"] = filepath.Base(filepath.Dir(s.labels["path"]))
		s.labels["iteration"] = fmt.Sprint(s.record.Facts["iteration"])
		s.color, s.labels["stage"] = contenderColors[c.String()], "later"
		if s.labels["iteration"] == "0" {
			s.labels["stage"] = "start"
		}
		if s.columns["plain_gain"] == nil {
			s.columns["plain_gain"] = slices.Repeat([]float64{math.NaN()}, s.rows())
		}
		// Spearman and Brown: the cosine of the whole to the truth, of halves whose noise has no part in common.
		halves, _ := s.record.Facts["halves"].(float64)
		s.record.Facts["truth"] = math.Sqrt(2 * max(0, halves) / (1 + max(0, halves)))
	}
	slices.SortStableFunc(all, func(a, b *series) int { // the iterations by number
		return cmp.Or(cmp.Compare(a.labels["task"], b.labels["task"]),
			cmp.Compare(a.numbered("iteration"), b.numbered("iteration")))
	})
	return all, nil, nil
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
