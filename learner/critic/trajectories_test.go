package critic

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dbqpg/dbqpg/internal/nn/nntest"
	"github.com/dbqpg/dbqpg/internal/npz"
	"github.com/dbqpg/dbqpg/internal/stats"
)

func random(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

// lengths returns the episodes' lengths between the ends.
func lengths(dones []bool) []int {
	var lengths []int
	steps := 0
	for _, done := range dones {
		steps++
		if done {
			lengths = append(lengths, steps)
			steps = 0
		}
	}
	return lengths
}

// returnTwin and advantageTwin are the definitions as sums over the rest of an
// episode whose last step is followed by the value bootstrap.
func returnTwin(rewards []float64, t int, bootstrap, gamma float64) float64 {
	sum := 0.0
	for k := t; k < len(rewards); k++ {
		sum += math.Pow(gamma, float64(k-t)) * rewards[k]
	}
	return sum + math.Pow(gamma, float64(len(rewards)-t))*bootstrap
}

func advantageTwin(rewards, values []float64, t int, bootstrap, gamma, lambda float64) float64 {
	v := append(append([]float64(nil), values...), bootstrap)
	sum := 0.0
	for k := t; k < len(rewards); k++ {
		sum += math.Pow(gamma*lambda, float64(k-t)) * (rewards[k] + gamma*v[k+1] - v[k])
	}
	return sum
}

func TestReturnsAndAdvantagesAgreeWithTwins(t *testing.T) {
	const gamma, lambda = 0.9, 0.7
	rng := rand.New(rand.NewPCG(1, 0))
	for _, bootstrap := range [][]float64{nil, {0, 3, -2, 5, 0}} {
		e := Trajectories{Lengths: []int{4, 1, 7, 0, 20}, Bootstrap: bootstrap}
		e.Rewards = random(rng, 32)
		values := random(rng, 32)
		returns, advantages := e.Returns(gamma), e.Advantages(values, gamma, lambda)
		start := 0
		for i, length := range e.Lengths {
			after := 0.0
			if bootstrap != nil {
				after = bootstrap[i]
			}
			for step := range length {
				k := start + step
				if want := returnTwin(e.Rewards[start:start+length], step, after,
					gamma); math.Abs(returns[k]-want) > 1e-12 {
					t.Errorf("return %d is %v, want %v", k, returns[k], want)
				}
				want := advantageTwin(e.Rewards[start:start+length], values[start:start+length], step, after, gamma,
					lambda)
				if math.Abs(advantages[k]-want) > 1e-12 {
					t.Errorf("advantage %d is %v, want %v", k, advantages[k], want)
				}
			}
			start += length
		}
	}
}

// With lambda = 1 the advantages are the returns less the values, whatever the
// continuation; with lambda = 0 they are one-step errors.
func TestAdvantagesAtTheEndsOfLambda(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 0))
	e := Trajectories{Rewards: random(rng, 50), Lengths: []int{20, 30}, Bootstrap: []float64{0, 7}}
	values, returns := random(rng, 50), e.Returns(0.95)
	for i, a := range e.Advantages(values, 0.95, 1) {
		if want := returns[i] - values[i]; math.Abs(a-want) > 1e-12 {
			t.Errorf("lambda 1: advantage %d is %v, want %v", i, a, want)
		}
	}
	if got, want := e.Advantages(values, 0.95, 0)[49], e.Rewards[49]+0.95*7-values[49]; got != want {
		t.Errorf("lambda 0: last advantage %v, want %v", got, want)
	}
}

func TestGoldenTargets(t *testing.T) {
	for _, name := range []string{"hopper_gae", "swimmer_returns"} {
		a := golden(t, name)
		e := Trajectories{Rewards: a["rewards"].Floats, Lengths: lengths(a["dones"].Bools)}
		gamma, lambda := a["gamma"].Floats[0], a["gae_lambda"].Floats[0]
		nntest.Near(t, name+": returns", e.Returns(gamma), a["expect_returns"].Floats, 1e-13)
		if gae, ok := a["expect_gae"]; ok {
			got := e.Advantages(a["expect_values"].Floats, gamma, lambda)
			nntest.Near(t, name+": gae", got, gae.Floats, 1e-13)
			if name == "hopper_gae" {
				Standardize(got)
				nntest.Near(t, name+": targets", got, a["targets"].Floats, 1e-13)
			}
		}
	}
}

func golden(t *testing.T, name string) npz.Arrays {
	t.Helper()
	arrays, err := npz.ReadFile("../../estimators/testdata/" + name + ".npz")
	if err != nil {
		t.Fatal(err)
	}
	return arrays
}

func TestStandardize(t *testing.T) {
	x := []float64{1, 2, 3, 6}
	Standardize(x)
	mean, deviation := stats.MeanStdDev(x)
	if math.Abs(mean) > 1e-15 || math.Abs(deviation-1) > 1e-15 {
		t.Errorf("mean %v, deviation %v", mean, deviation)
	}
	equal := []float64{4, 4, 4}
	if Standardize(equal); equal[0] != 0 || equal[2] != 0 {
		t.Errorf("equal elements became %v", equal)
	}
	one := []float64{5}
	if Standardize(one); one[0] != 0 {
		t.Errorf("a single element became %v", one)
	}
}

func TestExplainedVariance(t *testing.T) {
	returns := []float64{1, 2, 3, 4}
	for _, tc := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{11, 12, 13, 14}, 1}, {[]float64{7, 7, 7, 7}, 0}, {[]float64{-1, -2, -3, -4}, -3},
	} {
		if got := ExplainedVariance(tc.values, returns); math.Abs(got-tc.want) > 1e-15 {
			t.Errorf("values %v explain %v, want %v", tc.values, got, tc.want)
		}
	}
}

func TestTrajectoriesPanic(t *testing.T) {
	for name, f := range map[string]func(){
		"too few steps":  func() { Trajectories{Rewards: make([]float64, 3), Lengths: []int{2}}.Returns(1) },
		"too many steps": func() { Trajectories{Rewards: make([]float64, 3), Lengths: []int{2, 2}}.Returns(1) },
		"negative":       func() { Trajectories{Rewards: make([]float64, 3), Lengths: []int{4, -1}}.Returns(1) },
		"continuations": func() {
			Trajectories{Rewards: make([]float64, 2), Lengths: []int{1, 1}, Bootstrap: []float64{0}}.Returns(1)
		},
		"values": func() { Trajectories{Rewards: make([]float64, 2), Lengths: []int{2}}.Advantages(nil, 1, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

// Folds are whole episodes in order, no fold is empty, and they hold about as many.
func TestFolds(t *testing.T) {
	e := Trajectories{Lengths: []int{3, 1, 4, 1, 5, 9, 2}}
	for most, want := range map[int][][2]int{
		1: {{0, 25}}, 2: {{0, 8}, {8, 25}}, 3: {{0, 4}, {4, 9}, {9, 25}},
		9: {{0, 3}, {3, 4}, {4, 8}, {8, 9}, {9, 14}, {14, 23}, {23, 25}},
	} {
		if got := e.Folds(most); !slices.Equal(got, want) {
			t.Errorf("at most %d folds: %v, want %v", most, got, want)
		}
	}
}
