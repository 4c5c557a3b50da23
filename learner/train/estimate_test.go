package train_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/critic"
	"github.com/dbqpg/dbqpg/learner/optim"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/learner/state"
	"github.com/dbqpg/dbqpg/learner/train"
	"github.com/dbqpg/dbqpg/proto"
)

// trained returns a run after its iterations, and a batch that its policy has played next.
func trained(t *testing.T, algorithm config.Algorithm, learning config.Learning) (*train.Run, *config.Settings,
	[]*proto.Episode) {
	t.Helper()
	s := settings(t, "Hopper-v2", algorithm, config.UAPG)
	s.Batch, s.Targets, s.KernelLearning, s.Noise, s.FisherVariance = 300, config.Returns, learning, config.Learned,
		config.Learned
	collector := newSerial(t, s)
	run := newRun(t, s, collector, new(journal))
	run.Start(1)
	if err := run.Train(context.Background()); err != nil {
		t.Fatal(err)
	}
	batch, err := collector.Collect(context.Background(),
		collect.Order{Policy: run.Policy(iterations + 1), Steps: s.Batch})
	if err != nil {
		t.Fatal(err)
	}
	return run, s, batch.Episodes
}

// estimate returns a learner's estimate from episodes of a run's policy, as of the run's next iteration.
func estimate(t *testing.T, run *train.Run, l train.Learner, episodes []*proto.Episode) train.Estimation {
	t.Helper()
	before := state.Save(run.Critic.Visit)
	scope := compute.NewScope(run.Backend)
	t.Cleanup(scope.Release)
	x := train.NewSamples(scope, episodes, nil, run.Normalizer())
	next := run.Counters().Iteration
	e, err := l.Estimate(x, scope, train.NewRandom(run.Seed, next+1), next)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(state.Save(run.Critic.Visit), before) {
		t.Error("the critic was changed")
	}
	return e
}

// The estimate is the update's: its gradient has the norm of the row, and VanillaPG's Adam steps along the corrected
// gradient, NPG's along the corrected natural gradient.
func TestEstimateIsTheUpdates(t *testing.T) {
	for algorithm, learning := range map[config.Algorithm]config.Learning{
		config.Vanilla: config.Step, config.NPG: config.Converge,
	} {
		run, s, episodes := trained(t, algorithm, learning)
		e := estimate(t, run, *run.Learner, episodes)
		length, direction := norm(e.At.Expand(e.Objective.Gradient)), e.Objective.Gradient
		if algorithm == config.NPG {
			scope := compute.NewScope(run.Backend)
			defer scope.Release()
			var err error
			if direction, err = e.Objective.Natural(scope); err != nil {
				t.Fatal(err)
			}
		}
		e.Objective.Correct(direction)
		want, downhill := slices.Clone(run.Params), e.At.Expand(direction)
		adam := optim.NewAdam(len(want), s.LearningRate, optim.DefaultWeightDecay)
		if err := state.Restore(state.Save(run.Optimizer.Visit), adam.Visit); err != nil {
			t.Fatal(err)
		}
		floats.Scale(-1, downhill)
		adam.Step(want, downhill)

		if row := nextRow(t, run); math.Abs(length-row.GradientNorm) > 1e-12*row.GradientNorm {
			t.Errorf("%s, %s: a gradient of norm %v, the update's is %v", algorithm, learning, length, row.GradientNorm)
		}
		if !slices.Equal(run.Params, want) {
			t.Errorf("%s, %s: the update has taken another step", algorithm, learning)
		}
	}
}

// A fixed process learns nothing: its gradient is close to that after a step of a rate of 1e-4, and the same if all
// variances are multiplied by a number.
func TestFixedProcess(t *testing.T) {
	run, _, episodes := trained(t, config.Vanilla, config.Step)
	gradient := func(l train.Learner) []float64 {
		e := estimate(t, run, l, episodes)
		return e.At.Expand(e.Objective.Gradient)
	}
	learned, fixed := gradient(*run.Learner), *run.Learner
	quadrature := *run.Quadrature
	quadrature.Process = train.Fixed{Process: train.Likelihood{}}
	fixed.Quadrature = &quadrature
	given := gradient(fixed)
	if cosine := dot(learned, given) / (norm(learned) * norm(given)); slices.Equal(learned, given) || cosine < 0.99 {
		t.Errorf("one step takes the gradient to a cosine of %v", cosine)
	}
	hyper := run.Critic.Hyper()
	hyper.OutputScale, hyper.FisherVariance, hyper.Noise = 4*hyper.OutputScale, 4*hyper.FisherVariance, 4*hyper.Noise
	run.Critic.SetHyper(hyper)
	if d := floats.Distance(gradient(fixed), given, 2); d > 1e-9*norm(given) {
		t.Errorf("in another unit of the variances the gradient is off by %v of %v", d, norm(given))
	}
}

// Returns that go on after the time limit, less the values, are the advantages with lambda = 1.
func TestReturnsLessABaseline(t *testing.T) {
	run, _, episodes := trained(t, config.Vanilla, config.Step)
	episodes[0].Terminated = false
	targets := func(targets train.Targets) []float64 {
		l := *run.Learner
		l.Targets, l.Quadrature, l.Correction = targets, nil, nil
		return compute.ToSlice(run.Backend, estimate(t, run, l, episodes).At.Targets)
	}
	values := func(l *train.Learner, x train.Samples, _ []float64) ([]float64, error) {
		s := compute.NewScope(l.Backend)
		defer s.Release()
		return l.Values.At(s, x.Observations), nil
	}
	for _, bootstrap := range []bool{false, true} {
		got := targets(train.Returns{Gamma: 0.9, Bootstrap: bootstrap, Baseline: values})
		critic.Standardize(got)
		want := targets(train.Advantages{Gamma: 0.9, Lambda: 1, Bootstrap: bootstrap})
		if !floats.EqualApprox(got, want, 1e-9) {
			t.Errorf("bootstrap %v: the targets differ by %v", bootstrap, floats.Distance(got, want, math.Inf(1)))
		}
	}
	s := compute.NewScope(run.Backend)
	defer s.Release()
	l, failure := *run.Learner, errors.New("no baseline")
	l.Targets = train.Returns{Baseline: func(*train.Learner, train.Samples, []float64) ([]float64, error) {
		return nil, failure
	}}
	if _, err := l.Estimate(train.NewSamples(s, episodes, nil, run.Normalizer()), s, train.NewRandom(1, 1),
		0); !errors.Is(err, failure) {
		t.Errorf("error %v", err)
	}
}

func norm(x []float64) float64 { return math.Sqrt(dot(x, x)) }

func dot(x, y []float64) (sum float64) {
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum
}

// nextRow returns the row of the run's next iteration.
func nextRow(t *testing.T, run *train.Run) (row runs.Row) {
	t.Helper()
	run.Report = func(r runs.Row, _ *collect.Batch, _ *runs.Best) { row = r }
	run.Length.Iterations++
	if err := run.Train(context.Background()); err != nil {
		t.Fatal(err)
	}
	return row
}
