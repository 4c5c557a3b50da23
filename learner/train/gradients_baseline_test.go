package train_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/critic"
	"github.com/dbqpg/dbqpg/learner/gaussian"
	"github.com/dbqpg/dbqpg/learner/train"
	"github.com/dbqpg/dbqpg/proto"
)

// started returns a run after its first step, which knows the observations' moments.
func started(t *testing.T, env string, features config.Features) (*train.Run, *serial) {
	t.Helper()
	s := settings(t, env, config.Vanilla, config.DBQPG)
	s.Batch, s.Iterations, s.Features = 300, 1, features
	collector := newSerial(t, s)
	run := newRun(t, s, collector, new(journal))
	run.Start(1)
	if err := run.Train(context.Background()); err != nil {
		t.Fatal(err)
	}
	return run, collector
}

func collected(t *testing.T, run *train.Run, c *serial, number uint64, minSteps int) []*proto.Episode {
	t.Helper()
	batch, err := c.Collect(context.Background(), collect.Order{Policy: run.Policy(number), Steps: minSteps})
	if err != nil {
		t.Fatal(err)
	}
	return batch.Episodes
}

func gradient(t *testing.T, run *train.Run, episodes []*proto.Episode, baseline []float64) train.ControlledGradient {
	t.Helper()
	g, err := run.MonteCarloGradient(episodes, run.Targets, baseline)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// designTwin returns the features, written out; z are the critic's, nil for none.
func designTwin(run *train.Run, episodes []*proto.Episode, z []float64) *mat.Dense {
	n, o := run.Normalizer(), run.Shape.Observation
	rows := 0
	for _, e := range episodes {
		rows += e.Steps()
	}
	d := len(z) / rows
	x := mat.NewDense(rows, 4+2*o+d+d*(d+1)/2, nil)
	row := 0
	for _, e := range episodes {
		for step := range e.Steps() {
			s := make([]float64, o)
			n.Apply(s, e.Observations[step*o:(step+1)*o])
			column := 0
			add := func(v float64) { x.Set(row, column, v); column++ }
			for power := range 4 {
				add(math.Pow(float64(step)/1000, float64(power)))
			}
			for i := range o {
				add(s[i])
			}
			for i := range d {
				add(z[row*d+i])
			}
			for i := range o {
				add(s[i] * s[i])
			}
			for i := range d {
				for j := range i + 1 {
					add(z[row*d+i] * z[row*d+j])
				}
			}
			row++
		}
	}
	return x
}

// The baseline is the least-squares solution of the regression with a row for each feature's penalty.
func TestBaselineAgreesWithTwin(t *testing.T) {
	for _, features := range []config.Features{config.Deep, config.Raw} {
		run, collector := started(t, "Hopper-v2", features)
		episodes := collected(t, run, collector, 2, 1000)
		var rewards []float64
		var lengths []int
		var observations []float32
		for _, e := range episodes {
			rewards, lengths = append(rewards, e.Rewards...), append(lengths, e.Steps())
			observations = append(observations, e.Observations...)
		}
		var z []float64
		if features == config.Deep {
			s := compute.NewScope(run.Backend)
			defer s.Release()
			normal := make([]float64, len(observations))
			run.Normalizer().Apply(normal, observations)
			z = compute.ToSlice(run.Backend, run.Critic.Embed(s,
				s.FromSlice(len(rewards), run.Shape.Observation, normal)).Features())
		}
		x := designTwin(run, episodes, z)
		n, k := x.Dims()
		augmented, y := mat.NewDense(n+k, k, nil), mat.NewVecDense(n+k, nil)
		augmented.Slice(0, n, 0, k).(*mat.Dense).Copy(x)
		for i := range k {
			augmented.Set(n+i, i, math.Sqrt(1e-5)*mat.Norm(x.ColView(i), 2))
		}
		for i, v := range (critic.Trajectories{Rewards: rewards, Lengths: lengths}).Returns(
			run.Targets.(train.Returns).Gamma) {
			y.SetVec(i, v)
		}
		var want, difference mat.VecDense
		if err := want.SolveVec(augmented, y); err != nil {
			t.Fatal(err)
		}
		got := mat.NewVecDense(k, gradient(t, run, episodes, nil).Baseline)
		difference.SubVec(got, &want)
		if d := mat.Norm(&difference, 2); d > 1e-7*mat.Norm(&want, 2) {
			t.Errorf("%s: weights off by %.2g of %.2g", features, d, mat.Norm(&want, 2))
		}
	}
}

// Over all actions that are a standard deviation above or below the mean in each dimension, the score adds up to 0 as
// over the policy's own distribution: whatever function of the observation and the step the baseline is, the gradient
// is that without one.
func TestBaselineKeepsTheExpectation(t *testing.T) {
	run, collector := started(t, "Hopper-v2", config.Deep)
	played := collected(t, run, collector, 2, 50)[0]
	s := compute.NewScope(run.Backend)
	defer s.Release()
	normal := make([]float64, len(played.Observations))
	run.Normalizer().Apply(normal, played.Observations)
	p := gaussian.New(s, run.Shape, run.Params, s.FromSlice(played.Steps(), run.Shape.Observation, normal))
	mean, logStd := compute.ToSlice(run.Backend, p.Mean()), p.LogStd()
	rng := rand.New(rand.NewPCG(1, 2))
	var episodes []*proto.Episode
	for signs := range 1 << run.Shape.Action {
		e := *played
		e.Actions, e.Rewards = make([]float32, len(mean)), make([]float64, played.Steps())
		for i, mu := range mean {
			j := i % run.Shape.Action
			e.Actions[i] = float32(mu + float64(2*(signs>>j&1)-1)*math.Exp(logStd[j]))
		}
		for i := range e.Rewards {
			e.Rewards[i] = rng.NormFloat64()
		}
		episodes = append(episodes, &e)
	}
	weights := gradient(t, run, episodes, nil).Baseline
	for i := range weights {
		weights[i] = rng.NormFloat64()
	}
	g, alone := gradient(t, run, episodes, weights), gradient(t, run, episodes[:1], weights)
	if d := floats.Distance(g.Gradient, g.Plain, 2); d > 1e-5*norm(g.Plain) {
		t.Errorf("the baseline moves a gradient of norm %v by %v", norm(g.Plain), d)
	}
	if d := floats.Distance(alone.Gradient, alone.Plain, 2); d < norm(g.Plain) {
		t.Errorf("with one action a state it moves the gradient by %v only: it does nothing", d)
	}
}

// Where each step earns something whatever the policy does, returns are large and say nothing. A baseline fitted on
// other episodes takes that away: gradients from the policy's own episodes vary much less with it, and differ from
// those without by noise alone.
func TestBaselineReducesTheVariance(t *testing.T) {
	const chunks = 12
	run, collector := started(t, "Swimmer-v2", config.Deep)
	paid := func(number uint64, minSteps int) []*proto.Episode {
		episodes := collected(t, run, collector, number, minSteps)
		for _, e := range episodes {
			for i := range e.Rewards {
				e.Rewards[i]++
			}
		}
		return episodes
	}
	baseline := gradient(t, run, paid(2, 4000), nil).Baseline
	var plain, controlled, differences [][]float64
	for i := range chunks {
		g := gradient(t, run, paid(uint64(3+i), 1000), baseline)
		d := make([]float64, len(g.Plain))
		for k, v := range g.Plain {
			d[k] = g.Gradient[k] - v
		}
		plain, controlled, differences = append(plain, g.Plain), append(controlled, g.Gradient), append(differences, d)
	}
	_, before := spread(plain)
	if _, after := spread(controlled); after > before/10 {
		t.Errorf("variance %v with the baseline, %v without", after, before)
	}
	if mean, variance := spread(differences); mean > 2*variance/chunks {
		t.Errorf("the gradients differ by %v in the mean, where noise makes %v", math.Sqrt(mean),
			math.Sqrt(variance/chunks))
	}
}

// Observations that are not finite have no baseline.
func TestBaselineOfNothingFinite(t *testing.T) {
	run, collector := started(t, "Hopper-v2", config.Raw)
	episodes := collected(t, run, collector, 2, 300)
	episodes[0].Observations[0] = float32(math.NaN())
	if _, err := run.MonteCarloGradient(episodes, run.Targets, nil); err == nil {
		t.Error("no error")
	}
}

// spread returns the squared norm of the mean and the trace of the covariance.
func spread(x [][]float64) (square, trace float64) {
	mean := make([]float64, len(x[0]))
	for _, v := range x {
		for k := range v {
			mean[k] += v[k] / float64(len(x))
		}
	}
	for _, v := range x {
		trace += math.Pow(floats.Distance(v, mean, 2), 2) / float64(len(x)-1)
	}
	return dot(mean, mean), trace
}
