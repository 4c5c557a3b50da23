package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/learner/critic"
	"github.com/dbqpg/dbqpg/learner/train"
	"github.com/dbqpg/dbqpg/proto"
)

// episodesOf returns episodes of these lengths, of three observations, one of which never varies, and one action.
func episodesOf(lengths ...int) (all []*proto.Episode) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			if x[i] = float32(rng.NormFloat64()); n > 3 && i%3 == 1 {
				x[i] = 1
			}
		}
		return x
	}
	for _, n := range lengths {
		all = append(all, &proto.Episode{Observations: random(3 * n), FinalObservation: random(3),
			Actions: random(n), Rewards: make([]float64, n), Terminated: true})
	}
	return all
}

// baselineOf returns the ridge baseline of the episodes' returns.
func baselineOf(t *testing.T, l *train.Learner, episodes []*proto.Episode, returns []float64) ([]float64, error) {
	t.Helper()
	s := compute.NewScope(l.Backend)
	defer s.Release()
	return ridgeBaseline(l, train.NewSamples(s, episodes, nil, policy.Identity(3, 10)), returns)
}

// returnsOf returns random returns with a part of the time, of the observations and of their squares.
func returnsOf(episodes []*proto.Episode) (y []float64) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, e := range episodes {
		for step := range e.Rewards {
			x := float64(e.Observations[3*step])
			y = append(y, 3+float64(step)/10+x-2*x*x+rng.NormFloat64())
		}
	}
	return y
}

// ridgeTwin predicts the rows of [from, to) by a regression on some of the others: least squares with a row for each
// feature's penalty.
func ridgeTwin(t *testing.T, x *mat.Dense, used func(row int) bool, ridge float64, from, to int) []float64 {
	t.Helper()
	n, k := x.Dims()
	var rows [][]float64
	var right []float64
	for i := range n {
		if row := mat.Row(nil, i, x); used(i) {
			rows, right = append(rows, row[:k-1]), append(right, row[k-1])
		}
	}
	count := len(rows)
	for j := 1; j < k-1; j++ {
		var column []float64
		for _, row := range rows[:count] {
			column = append(column, row[j])
		}
		mean, squares := floats.Sum(column)/float64(count), 0.0
		for _, v := range column {
			squares += (v - mean) * (v - mean)
		}
		penalty := make([]float64, k-1)
		penalty[j] = math.Sqrt(ridge * squares)
		if squares < 1e-9 { // it does not vary, and has the weight 0
			penalty[j] = 1e6
		}
		rows, right = append(rows, penalty), append(right, 0)
	}
	var w, predicted mat.VecDense
	if err := w.SolveVec(mat.NewDense(len(rows), k-1, slices.Concat(rows...)),
		mat.NewVecDense(len(right), right)); err != nil {
		t.Fatal(err)
	}
	predicted.MulVec(x.Slice(from, to, 0, k-1), &w)
	return predicted.RawVector().Data
}

// Each fold's baseline is the regression on the others, with the penalty by which these predict each other best; with
// and without a value function.
func TestRidgeBaselineAgreesWithTwin(t *testing.T) {
	backend := cpu.New(1)
	for _, l := range []*train.Learner{{Backend: backend}, {Backend: backend, Values: train.Head{
		Critic: critic.New(3, critic.Kind{}, rand.New(rand.NewPCG(5, 6)))}}} {
		episodes := episodesOf(30, 20, 41, 33, 25, 37, 28)
		y := returnsOf(episodes)
		got, err := baselineOf(t, l, episodes, y)
		if err != nil {
			t.Fatal(err)
		}
		s := compute.NewScope(backend)
		defer s.Release()
		samples := train.NewSamples(s, episodes, nil, policy.Identity(3, 10))
		x, folds := regression(l, samples, y), samples.Trajectories().Folds(5)
		for _, f := range folds {
			inside := func(f [2]int, row int) bool { return row >= f[0] && row < f[1] }
			best, least := 0.0, math.Inf(1)
			for power := -5; power <= 2; power++ {
				ridge, sum := math.Pow(10, float64(power)), 0.0
				for _, g := range folds {
					if g != f {
						e := ridgeTwin(t, x, func(row int) bool { return !inside(f, row) && !inside(g, row) }, ridge,
							g[0], g[1])
						sum += math.Pow(floats.Distance(e, y[g[0]:g[1]], 2), 2)
					}
				}
				if sum < least {
					best, least = ridge, sum
				}
			}
			want := ridgeTwin(t, x, func(row int) bool { return !inside(f, row) }, best, f[0], f[1])
			if d := floats.Distance(got[f[0]:f[1]], want, math.Inf(1)); d > 1e-5*floats.Norm(want, math.Inf(1)) {
				t.Errorf("steps %v, penalty %g: off by %.2g of %.2g", f, best, d, floats.Norm(want, math.Inf(1)))
			}
		}
		if explained := critic.ExplainedVariance(got, y); explained < 0.5 {
			t.Errorf("it explains %.2f", explained)
		}
	}
}

// No return has a part in its own baseline, nor in that of another of its fold.
func TestRidgeBaselineIsCrossFitted(t *testing.T) {
	l, episodes := &train.Learner{Backend: cpu.New(1)}, episodesOf(30, 20, 41, 33, 25)
	y := returnsOf(episodes)
	before, err := baselineOf(t, l, episodes, y)
	if err != nil {
		t.Fatal(err)
	}
	for i := 30; i < 50; i++ {
		y[i] = 1e3 * math.Sin(float64(i))
	}
	after, err := baselineOf(t, l, episodes, y)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(before[30:50], after[30:50]) {
		t.Error("a fold's returns change its own baseline")
	}
	if slices.Equal(before[:30], after[:30]) {
		t.Error("they change no other fold's")
	}
}

// Two episodes cannot be cross-fitted, and numbers that are not finite have no baseline.
func TestRidgeBaselineErrors(t *testing.T) {
	l, episodes := &train.Learner{Backend: cpu.New(1)}, episodesOf(30, 20, 41, 33, 25)
	for want, given := range map[string][]*proto.Episode{"needs 3 episodes": episodes[:2], "not finite": episodes} {
		y := returnsOf(given)
		y[0] = math.Inf(1)
		if _, err := baselineOf(t, l, given, y); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d episodes: %v, want %q", len(given), err, want)
		}
	}
}
