package train_test

import (
	"context"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/checkpoint"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/optim"
	"github.com/dbqpg/dbqpg/learner/progress"
	"github.com/dbqpg/dbqpg/learner/train"
	"github.com/dbqpg/dbqpg/proto"
)

// trained returns a run after its iterations, and a batch that its policy has played next.
func trained(t *testing.T, estimator config.Estimator, targets config.Targets) (*train.Run, []*proto.Episode) {
	t.Helper()
	s := settings(t, "Swimmer-v2", config.Vanilla, estimator)
	s.Batch, s.Targets = 1000, targets
	collector := newSerial(t, s)
	run := newRun(t, s, collector, new(journal))
	run.Start(1)
	if err := run.Train(context.Background()); err != nil {
		t.Fatal(err)
	}
	batch, err := collector.Collect(context.Background(), run.Policy(iterations+1), s.Batch)
	if err != nil {
		t.Fatal(err)
	}
	return run, batch.Episodes
}

func sketches() train.Random { return train.NewRandom(7, iterations+1) }

// The gradients are those that the update follows: DBQPG's norm is in its row, and VanillaPG's Adam steps along UAPG's.
func TestGradientsAreTheUpdates(t *testing.T) {
	for _, targets := range []config.Targets{config.Returns, config.GAE} {
		run, episodes := trained(t, config.UAPG, targets)
		before := run.Critic.State()
		g, err := run.Gradients(episodes, true, sketches())
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(run.Critic.State(), before) {
			t.Errorf("%s: the critic was changed", targets)
		}
		want := slices.Clone(run.Params)
		adam := optim.NewAdam(len(want), settings(t, "Swimmer-v2", config.Vanilla, config.UAPG).LearningRate, optim.DefaultWeightDecay)
		if err := adam.Restore(run.Optimizer.State()); err != nil {
			t.Fatal(err)
		}
		downhill := slices.Clone(g.UAPG)
		for i := range downhill {
			downhill[i] = -downhill[i]
		}
		adam.Step(want, downhill)

		if row := nextRow(t, run); math.Abs(norm(g.DBQPG)-row.GradientNorm) > 1e-12*row.GradientNorm {
			t.Errorf("%s: a gradient of norm %v, the update's is %v", targets, norm(g.DBQPG), row.GradientNorm)
		}
		if !slices.Equal(run.Params, want) {
			t.Errorf("%s: the update has taken another step", targets)
		}
	}
}

// Frozen, the critic learns nothing first, which shows in the Bayesian estimates alone; the Monte-Carlo one is the same
// by itself.
func TestFrozenGradients(t *testing.T) {
	for _, targets := range []config.Targets{config.Returns, config.GAE} {
		run, episodes := trained(t, config.DBQPG, targets)
		before := run.Critic.State()
		learned, err := run.Gradients(episodes, true, sketches())
		if err != nil {
			t.Fatal(err)
		}
		frozen, err := run.Gradients(episodes, false, sketches())
		if err != nil {
			t.Fatal(err)
		}
		alone, err := run.MonteCarloGradient(episodes, nil)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(learned.DBQPG, frozen.DBQPG) || cosine(learned.DBQPG, frozen.DBQPG) < 0.99 {
			t.Errorf("%s: one step of a rate of 1e-4 takes the gradient to a cosine of %v", targets, cosine(learned.DBQPG, frozen.DBQPG))
		}
		if !slices.Equal(learned.MonteCarlo, frozen.MonteCarlo) || !slices.Equal(alone.Plain, frozen.MonteCarlo) || !slices.Equal(alone.Gradient, alone.Plain) {
			t.Errorf("%s: the Monte-Carlo gradients differ", targets)
		}
		if !reflect.DeepEqual(run.Critic.State(), before) {
			t.Errorf("%s: the critic was changed", targets)
		}
	}
}

func norm(x []float64) float64 { return math.Sqrt(dot(x, x)) }

func dot(x, y []float64) (sum float64) {
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum
}

func cosine(x, y []float64) float64 { return dot(x, y) / (norm(x) * norm(y)) }

// nextRow returns the row of the run's next iteration.
func nextRow(t *testing.T, run *train.Run) (row progress.Row) {
	t.Helper()
	run.Report = func(r progress.Row, _ *collect.Batch, _ *checkpoint.Best) { row = r }
	run.Iterations++
	if err := run.Train(context.Background()); err != nil {
		t.Fatal(err)
	}
	return row
}
