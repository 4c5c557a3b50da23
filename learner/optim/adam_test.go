package optim

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/learner/state"
)

// torchAdam follows the algorithm box of torch.optim.Adam's documentation, with L2
// weight decay, one parameter at a time and from the first gradient on.
func torchAdam(theta, lr, lambda float64, gradients []float64) float64 {
	m, v := 0.0, 0.0
	for i, g := range gradients {
		t := float64(i + 1)
		g = g + lambda*theta
		m = 0.9*m + (1-0.9)*g
		v = 0.999*v + (1-0.999)*g*g
		mHat := m / (1 - math.Pow(0.9, t))
		vHat := v / (1 - math.Pow(0.999, t))
		theta = theta - lr*mHat/(math.Sqrt(vHat)+1e-8)
	}
	return theta
}

func TestAdamAgreesWithTwin(t *testing.T) {
	const n, steps = 20, 50
	rng := rand.New(rand.NewPCG(1, 0))
	params, start := make([]float64, n), make([]float64, n)
	for i := range params {
		params[i] = rng.NormFloat64()
	}
	copy(start, params)
	adam := NewAdam(n, 0.01, 0.1)
	gradients := make([][]float64, n)
	for range steps {
		g := make([]float64, n)
		for i := range g {
			g[i] = rng.NormFloat64() * math.Pow(10, float64(i)-12) // from far below epsilon to far above
			gradients[i] = append(gradients[i], g[i])
		}
		adam.Step(params, g)
	}
	for i := range params {
		if want := torchAdam(start[i], 0.01, 0.1, gradients[i]); math.Abs(params[i]-want) > 1e-12*(1+math.Abs(want)) {
			t.Errorf("parameter %d is %v, want %v", i, params[i], want)
		}
	}
}

// The first three steps of torch 2's Adam(lr=0.1, weight_decay=0.5) from theta = 1
// on gradients 1, -2, 0.5, by hand.
func TestAdamByHand(t *testing.T) {
	adam, theta := NewAdam(1, 0.1, 0.5), []float64{1}
	adam.Step(theta, []float64{1})
	if math.Abs(theta[0]-0.9) > 1e-8 { // the first step is lr long, whatever the gradient
		t.Errorf("after one step %v", theta[0])
	}
	adam.Step(theta, []float64{-2})
	// g1 = 1.5, g2 = -2 + 0.45 = -1.55; m = 0.1 (0.9*1.5 - 1.55) = -0.02, v = 0.001 (0.999*2.25 + 2.4025)
	want := 0.9 + 0.1*(0.02/0.19)/math.Sqrt(0.00465025/0.001999)
	if math.Abs(theta[0]-want) > 1e-8 {
		t.Errorf("after two steps %v, want %v", theta[0], want)
	}
}

// An optimiser restored from another's state takes bit-identical steps.
func TestAdamRestores(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 0))
	a, b := NewAdam(3, 0.1, 1e-3), NewAdam(3, 0.1, 1e-3)
	x := []float64{1, 2, 3}
	gradient := func() []float64 { return []float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()} }
	a.Step(x, gradient())
	a.Step(x, gradient())
	if err := state.Restore(state.Save(a.Visit), b.Visit); err != nil {
		t.Fatal(err)
	}
	y, g := append([]float64(nil), x...), gradient()
	a.Step(x, g)
	b.Step(y, g)
	for i := range x {
		if x[i] != y[i] {
			t.Errorf("parameter %d: %v, restored %v", i, x[i], y[i])
		}
	}
}

func TestAdamRefusesBadState(t *testing.T) {
	good := func() state.Arrays { return state.Arrays{"steps": {2}, "first": {1, 2}, "second": {1, 2}} }
	for want, breakIt := range map[string]func(state.Arrays){
		`no array "first"`:                               func(s state.Arrays) { delete(s, "first") },
		`"second" has 1 elements, want 2`:                func(s state.Arrays) { s["second"] = s["second"][:1] },
		`element 1 of the state's`:                       func(s state.Arrays) { s["first"][1] = math.NaN() },
		`"steps" is -1`:                                  func(s state.Arrays) { s["steps"][0] = -1 },
		`"steps" is 1.5`:                                 func(s state.Arrays) { s["steps"][0] = 1.5 },
		`element 0 of the state's array "second" is -1`:  func(s state.Arrays) { s["second"][0] = -1 },
		`"steps" has 0 elements, want 1`:                 func(s state.Arrays) { s["steps"] = nil },
		`element 0 of the state's array "steps" is +Inf`: func(s state.Arrays) { s["steps"][0] = math.Inf(1) },
	} {
		a, s := NewAdam(2, 1, 0), good()
		breakIt(s)
		if err := state.Restore(s, a.Visit); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
		if a.steps != 0 || a.first[0] != 0 || a.second[0] != 0 {
			t.Errorf("%q: a refused state changed the optimiser: %+v", want, a)
		}
	}
	if err := state.Restore(good(), NewAdam(2, 1, 0).Visit); err != nil {
		t.Error(err)
	}
}
