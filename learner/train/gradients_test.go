package train_test

import (
	"context"
	"math"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/collect"
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

func sample(t *testing.T, run *train.Run, episodes []*proto.Episode) *train.Sampled {
	t.Helper()
	scope := compute.NewScope(run.Backend)
	t.Cleanup(scope.Release)
	sampled, err := run.Sample(scope, episodes, train.NewRandom(7, iterations+1))
	if err != nil {
		t.Fatal(err)
	}
	return sampled
}

func quadrature(t *testing.T, run *train.Run, sampled *train.Sampled, hyper *gp.Hyper) (dbqpg, uapg train.Gradient) {
	t.Helper()
	before := state.Save(run.Critic.Visit)
	dbqpg, uapg, err := sampled.Quadrature(run.Targets, hyper, 3)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(state.Save(run.Critic.Visit), before) {
		t.Error("the critic was changed")
	}
	return dbqpg, uapg
}

// The gradients are those that the update follows: DBQPG's norm is in its row, and VanillaPG's Adam steps along UAPG's
// gradient, NPG's along its natural gradient.
func TestGradientsAreTheUpdates(t *testing.T) {
	for algorithm, learning := range map[config.Algorithm]config.Learning{
		config.Vanilla: config.Step, config.NPG: config.Converge,
	} {
		run, s, episodes := trained(t, algorithm, learning)
		dbqpg, uapg := quadrature(t, run, sample(t, run, episodes), nil)
		along := uapg.Plain
		if algorithm == config.NPG {
			along = uapg.Natural
		}
		want, downhill := slices.Clone(run.Params), slices.Clone(along)
		adam := optim.NewAdam(len(want), s.LearningRate, optim.DefaultWeightDecay)
		if err := state.Restore(state.Save(run.Optimizer.Visit), adam.Visit); err != nil {
			t.Fatal(err)
		}
		floats.Scale(-1, downhill)
		adam.Step(want, downhill)

		if row := nextRow(t, run); math.Abs(norm(dbqpg.Plain)-row.GradientNorm) > 1e-12*row.GradientNorm {
			t.Errorf("%s, %s: a gradient of norm %v, the update's is %v", algorithm, learning, norm(dbqpg.Plain),
				row.GradientNorm)
		}
		if !slices.Equal(run.Params, want) {
			t.Errorf("%s, %s: the update has taken another step", algorithm, learning)
		}
	}
}

// With given hyperparameters nothing is learned: close to those of before a step of a rate of 1e-4, and the same if all
// variances are multiplied by a number.
func TestGivenHyperparameters(t *testing.T) {
	run, _, episodes := trained(t, config.Vanilla, config.Step)
	sampled := sample(t, run, episodes)
	hyper := run.Critic.Hyper()
	learned, _ := quadrature(t, run, sampled, nil)
	given, aware := quadrature(t, run, sampled, &hyper)
	if slices.Equal(learned.Plain, given.Plain) || cosine(learned.Plain, given.Plain) < 0.99 {
		t.Errorf("one step takes the gradient to a cosine of %v", cosine(learned.Plain, given.Plain))
	}
	hyper.OutputScale, hyper.FisherVariance, hyper.Noise = 4*hyper.OutputScale, 4*hyper.FisherVariance, 4*hyper.Noise
	scaled, scaledAware := quadrature(t, run, sampled, &hyper)
	for _, pair := range [][2][]float64{
		{given.Plain, scaled.Plain}, {given.Natural, scaled.Natural}, {aware.Plain, scaledAware.Plain},
		{aware.Natural, scaledAware.Natural},
	} {
		if d := floats.Distance(pair[0], pair[1], 2); d > 1e-9*norm(pair[0]) {
			t.Errorf("in another unit of the variances the gradient is off by %v of %v", d, norm(pair[0]))
		}
	}
}

// The uncertain directions are orthonormal, the most uncertain first, and their variances in the unit of the
// hyperparameters'.
func TestUncertainDirections(t *testing.T) {
	run, s, episodes := trained(t, config.Vanilla, config.Step)
	sampled, hyper, before := sample(t, run, episodes), run.Critic.Hyper(), state.Save(run.Critic.Visit)
	var all [2][]train.Uncertain
	for i := range all {
		var err error
		if all[i], err = sampled.Uncertainty(run.Targets, &hyper); err != nil {
			t.Fatal(err)
		}
		hyper.OutputScale, hyper.FisherVariance, hyper.Noise = 4*hyper.OutputScale, 4*hyper.FisherVariance,
			4*hyper.Noise
	}
	if !reflect.DeepEqual(state.Save(run.Critic.Visit), before) {
		t.Error("the critic was changed")
	}
	if len(all[0]) != s.Rank {
		t.Fatalf("%d directions, want %d", len(all[0]), s.Rank)
	}
	for i, u := range all[0] {
		for j, other := range all[0][:i+1] {
			want := 0.0
			if i == j {
				want = 1
			}
			if got := dot(u.Direction, other.Direction); math.Abs(got-want) > 1e-9 {
				t.Errorf("directions %d and %d have the product %v", i, j, got)
			}
		}
		if i > 0 && u.Variance > all[0][i-1].Variance || !(u.Variance > u.Undamped && u.Undamped > 0) {
			t.Errorf("direction %d has the variance %v, undamped %v", i, u.Variance, u.Undamped)
		}
		if scaled := all[1][i]; math.Abs(scaled.Variance-4*u.Variance) > 1e-9*scaled.Variance ||
			math.Abs(scaled.Undamped-4*u.Undamped) > 1e-9*scaled.Variance {
			t.Errorf("direction %d: in another unit %v and %v, not four times %v and %v", i, scaled.Variance,
				scaled.Undamped, u.Variance, u.Undamped)
		}
	}
}

// The natural gradient d of g solves (G + damping I) d = g: d'G d is g'd less the damping's part.
func TestNaturalGradientOfAGradient(t *testing.T) {
	run, s, episodes := trained(t, config.NPG, config.Step)
	sampled := sample(t, run, episodes)
	g, err := sampled.MonteCarlo(run.Targets)
	if err != nil {
		t.Fatal(err)
	}
	d, err := sampled.Natural(g.Plain)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := sampled.Length(d), dot(g.Plain, d)-s.Damping*dot(d, d); math.Abs(got-want) > 1e-4*want {
		t.Errorf("d'Gd = %v, want %v", got, want)
	}
	var differences [][]float64
	alone, err := run.MonteCarloGradient(episodes, run.Targets, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Returns and advantages with lambda = 1 go on alike after the time limit, and differ by what depends on the state
	// alone.
	gamma := run.Targets.(train.Returns).Gamma
	episodes[0].Terminated = false
	for _, bootstrap := range []bool{false, true} {
		raw, err := run.MonteCarloGradient(episodes, train.Returns{Gamma: gamma, Bootstrap: bootstrap}, nil)
		if err != nil {
			t.Fatal(err)
		}
		less, err := run.MonteCarloGradient(episodes, train.Advantages{Gamma: gamma, Lambda: 1, Bootstrap: bootstrap},
			nil)
		if err != nil {
			t.Fatal(err)
		}
		differences = append(differences, floats.SubTo(less.Plain, raw.Plain, less.Plain))
		if bootstrap && slices.Equal(raw.Plain, g.Plain) {
			t.Error("the time limit's end makes no difference")
		}
	}
	if d := floats.Distance(differences[0], differences[1], 2); d > 1e-9*norm(differences[0]) {
		t.Errorf("the time limit's ends change the baseline's part of the gradient by %v", d)
	}
	if !slices.Equal(alone.Plain, g.Plain) || !slices.Equal(alone.Gradient, g.Plain) {
		t.Error("without a baseline the reference's gradient is another than Monte Carlo's")
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
func nextRow(t *testing.T, run *train.Run) (row runs.Row) {
	t.Helper()
	run.Report = func(r runs.Row, _ *collect.Batch, _ *runs.Best) { row = r }
	run.Length.Iterations++
	if err := run.Train(context.Background()); err != nil {
		t.Fatal(err)
	}
	return row
}
