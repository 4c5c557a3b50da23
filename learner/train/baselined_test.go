package train_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/critic"
	"github.com/dbqpg/dbqpg/learner/train"
	"github.com/dbqpg/dbqpg/proto"
)

// unlearned returns a Monte Carlo run at its start, whose features are time and state alone.
func unlearned(t *testing.T, env string) (*train.Run, *serial) {
	t.Helper()
	s := settings(t, env, config.NPG, config.MonteCarlo)
	s.Targets, s.Batch, s.Iterations = config.Returns, 300, 1
	collector := newSerial(t, s)
	run := newRun(t, s, collector, new(journal))
	run.Length.Iterations = 0
	run.Start(1)
	if err := run.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	return run, collector
}

// ridgeBaseline returns the cross-fitted baseline of returns, which may be other than the episodes'.
func ridgeBaseline(t *testing.T, run *train.Run, episodes []*proto.Episode, returns []float64) []float64 {
	t.Helper()
	s := compute.NewScope(run.Backend)
	defer s.Release()
	baseline, err := train.RidgeBaseline(run.Learner, train.NewSamples(s, episodes, nil, run.Normalizer()), returns)
	if err != nil {
		t.Fatal(err)
	}
	return baseline
}

// trajectories returns the episodes' rewards and lengths.
func trajectories(episodes []*proto.Episode) (x critic.Trajectories) {
	for _, e := range episodes {
		x.Rewards, x.Lengths = append(x.Rewards, e.Rewards...), append(x.Lengths, e.Steps())
	}
	return x
}

// ridgeTwin predicts the rows of [from, to) by a regression on some of the others: least squares with a row for each
// feature's penalty.
func ridgeTwin(t *testing.T, x *mat.Dense, y []float64, used func(row int) bool, ridge float64, from,
	to int) []float64 {
	t.Helper()
	var rows [][]float64
	var right []float64
	for i := range y {
		if used(i) {
			rows, right = append(rows, mat.Row(nil, i, x)), append(right, y[i])
		}
	}
	n, k := len(rows), len(rows[0])
	for j := 1; j < k; j++ {
		var column []float64
		for _, row := range rows[:n] {
			column = append(column, row[j])
		}
		mean, squares := floats.Sum(column)/float64(n), 0.0
		for _, v := range column {
			squares += (v - mean) * (v - mean)
		}
		penalty := make([]float64, k)
		penalty[j] = math.Sqrt(ridge * squares)
		rows, right = append(rows, penalty), append(right, 0)
	}
	a := mat.NewDense(len(rows), k, slices.Concat(rows...))
	var w, predicted mat.VecDense
	if err := w.SolveVec(a, mat.NewVecDense(len(right), right)); err != nil {
		t.Fatal(err)
	}
	predicted.MulVec(x.Slice(from, to, 0, k), &w)
	return predicted.RawVector().Data
}

// Each fold's baseline is the regression on the others, with the penalty by which these predict each other best.
func TestRidgeBaselineAgreesWithTwin(t *testing.T) {
	for _, env := range []string{"Hopper-v2", "Swimmer-v2"} { // on Swimmer three episodes, all of one length
		run, collector := unlearned(t, env)
		episodes := collected(t, run, collector, 2, 2500)
		all := trajectories(episodes)
		y, x := all.Returns(0.995), designTwin(run, episodes, nil)
		got := ridgeBaseline(t, run, episodes, y)
		folds := all.Folds(5)
		if env == "Swimmer-v2" && len(folds) != 3 {
			t.Fatalf("%d folds", len(folds))
		}
		for _, f := range folds {
			inside := func(f [2]int, row int) bool { return row >= f[0] && row < f[1] }
			best, least := 0.0, math.Inf(1)
			for power := -5; power <= 2; power++ {
				ridge, sum := math.Pow(10, float64(power)), 0.0
				for _, g := range folds {
					if g != f {
						e := ridgeTwin(t, x, y, func(row int) bool { return !inside(f, row) && !inside(g, row) }, ridge,
							g[0], g[1])
						sum += math.Pow(floats.Distance(e, y[g[0]:g[1]], 2), 2)
					}
				}
				if sum < least {
					best, least = ridge, sum
				}
			}
			want := ridgeTwin(t, x, y, func(row int) bool { return !inside(f, row) }, best, f[0], f[1])
			if d := floats.Distance(got[f[0]:f[1]], want, math.Inf(1)); d > 1e-6*floats.Norm(want, math.Inf(1)) {
				t.Errorf("%s, steps %v, penalty %g: off by %.2g of %.2g", env, f, best, d,
					floats.Norm(want, math.Inf(1)))
			}
		}
	}
}

// No return has a part in its own baseline, nor in that of another of its fold.
func TestRidgeBaselineIsCrossFitted(t *testing.T) {
	run, collector := unlearned(t, "Hopper-v2")
	episodes := collected(t, run, collector, 2, 1000)
	all := trajectories(episodes)
	y := all.Returns(0.995)
	before, fold := ridgeBaseline(t, run, episodes, y), all.Folds(5)[1]
	for i := fold[0]; i < fold[1]; i++ {
		y[i] = 1e3 * math.Sin(float64(i))
	}
	after := ridgeBaseline(t, run, episodes, y)
	if !slices.Equal(before[fold[0]:fold[1]], after[fold[0]:fold[1]]) {
		t.Error("a fold's returns change its own baseline")
	}
	if slices.Equal(before[:fold[0]], after[:fold[0]]) {
		t.Error("they change no other fold's")
	}
}

// Two episodes cannot be cross-fitted, and numbers that are not finite have no baseline.
func TestRidgeBaselineErrors(t *testing.T) {
	run, collector := unlearned(t, "Swimmer-v2")
	episodes := collected(t, run, collector, 2, 2500)
	s := compute.NewScope(run.Backend)
	defer s.Release()
	for want, given := range map[string][]*proto.Episode{"needs 3 episodes": episodes[:2], "not finite": episodes} {
		x, y := train.NewSamples(s, given, nil, run.Normalizer()), trajectories(given).Returns(0.995)
		y[0] = math.Inf(1)
		if _, err := train.RidgeBaseline(run.Learner, x, y); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d episodes: %v, want %q", len(given), err, want)
		}
	}
}

// A run trains with each baseline. Of the returns the ridge explains some, the mean none.
func TestTrainingWithABaseline(t *testing.T) {
	explained := map[string]float64{}
	for name, baseline := range map[string]train.Baseline{"mean": train.MeanBaseline, "ridge": train.RidgeBaseline} {
		s := settings(t, "Hopper-v2", config.NPG, config.MonteCarlo)
		s.Targets, s.Batch, s.Iterations = config.Returns, 2500, 2
		kept := new(journal)
		run := newRun(t, s, newSerial(t, s), kept)
		run.Targets = train.Baselined{Returns: train.Returns{Gamma: s.Gamma}, Baseline: baseline}
		run.Start(1)
		if err := run.Train(t.Context()); err != nil {
			t.Fatal(err)
		}
		explained[name] = kept.rows[1].ExplainedVariance
		if slices.Equal(kept.states[0].Arrays["policy.params"], kept.states[2].Arrays["policy.params"]) {
			t.Errorf("%s: the policy stood still", name)
		}
	}
	if explained["ridge"] < 0.1 || math.Abs(explained["mean"]) > 1e-9 {
		t.Errorf("the ridge explains %.2f, the mean %.2g", explained["ridge"], explained["mean"])
	}
}
