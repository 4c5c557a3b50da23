package optim

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/computetest"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/internal/nn/nntest"
	"github.com/dbqpg/dbqpg/internal/npz"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/learner/batched"
	"github.com/dbqpg/dbqpg/learner/state"
)

func random(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

// fixture is a small policy, a batch sampled from it, and a Monte Carlo gradient.
type fixture struct {
	b                    compute.Backend
	s                    *compute.Scope
	params, observations []float64
	Objective
}

func newFixture(b compute.Backend, seed uint64, choices ...int) fixture {
	const n, o, a = 700, 3, 2
	rng := rand.New(rand.NewPCG(seed, 0))
	shape := policy.Shape{Observation: o, Action: a, Hidden: []int{5, 4}, Choices: choices}
	f := fixture{b: b, s: compute.NewScope(b), params: random(rng, shape.NumParams())}
	observations, noise := random(rng, n*o), random(rng, n*a)
	f.observations = observations
	f.Policy = batched.New(f.s, shape, f.params, f.s.FromSlice(n, o, observations))
	outputs := compute.ToSlice(b, f.Policy.Outputs())
	for i := range noise {
		if choices != nil {
			noise[i] = float64(rng.IntN(choices[i%a]))
		} else {
			noise[i] = outputs[i] + math.Exp(f.Policy.LogStd()[i%a])*noise[i]
		}
	}
	f.Actions = f.s.FromSlice(n, a, noise)
	weights := random(rng, n)
	for i := range weights {
		weights[i] = (weights[i] + observations[i*o]*noise[i*a]) / n
	}
	f.setWeights(weights)
	return f
}

// damping is that of the fixtures' Fisher matrix, the policy's analytic one.
const damping = 0.1

// setWeights sets w, the gradient U w and the Fisher matrix.
func (f *fixture) setWeights(w []float64) {
	weights := f.s.FromSlice(len(w), 1, w)
	f.Estimate = &estimators.Estimate{Weights: weights,
		Gradient: linop.Mul(f.s, f.Policy.Scores(f.s, f.Actions), weights, false)}
	f.Fisher = estimators.NewFisher(f.Policy.Fisher(0), damping)
}

// golden returns a golden batch as a fixture, with its arrays.
func golden(t *testing.T, b compute.Backend, name string) (fixture, npz.Arrays) {
	t.Helper()
	arrays, err := npz.ReadFile("../../estimators/testdata/" + name + ".npz")
	if err != nil {
		t.Fatal(err)
	}
	n, o, a := arrays["observations"].Shape[0], arrays["observations"].Shape[1], arrays["actions"].Shape[1]
	shape := policy.Shape{Observation: o, Action: a, Hidden: policy.DefaultHidden()}
	f := fixture{b: b, s: compute.NewScope(b), params: flat(arrays, "policy_")}
	f.Policy = batched.New(f.s, shape, f.params, f.s.FromSlice(n, o, arrays["observations"].Floats))
	f.Actions = f.s.FromSlice(n, a, arrays["actions"].Floats)
	w := make([]float64, n)
	for i, y := range arrays["targets"].Floats {
		w[i] = y / float64(n)
	}
	f.setWeights(w)
	return f, arrays
}

// flat joins one array a policy parameter in the flat order.
func flat(arrays npz.Arrays, prefix string) []float64 {
	var params []float64
	for _, name := range []string{"w1", "b1", "w2", "b2", "w3", "b3", "log_std"} {
		params = append(params, arrays[prefix+name].Floats...)
	}
	return params
}

func (f fixture) gradient() []float64 { return compute.ToSlice(f.b, f.Gradient) }

func each(t *testing.T, test func(t *testing.T, f fixture)) {
	for _, b := range nntest.Backends() {
		t.Run(b.Name(), func(t *testing.T) {
			f := newFixture(b, 1)
			defer f.s.Release()
			test(t, f)
		})
	}
}

func clone(x []float64) []float64 { return append([]float64(nil), x...) }

// The dense twin of the natural gradient: G column by column, then elimination.
func (f fixture) naturalTwin(t *testing.T) []float64 {
	p := len(f.params)
	g := f.s.New(p, p)
	identity := make([]float64, p*p)
	for i := range p {
		identity[i*p+i] = 1
	}
	f.Policy.Fisher(0.1).MulTo(g, f.s.FromSlice(p, p, identity), false)
	var d mat.VecDense
	if err := d.SolveVec(mat.NewDense(p, p, compute.ToSlice(f.b, g)), mat.NewVecDense(p, f.gradient())); err != nil {
		t.Fatal(err)
	}
	return d.RawVector().Data
}

// A Fisher matrix over more samples than the gradient's: the step is the one that the
// larger batch's matrix gives.
func TestFisherMatrixOfMoreSamples(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		whole := f.Policy
		f.Policy, f.Actions = whole.First(300), f.Actions.RowRange(0, 300)
		f.setWeights(compute.ToSlice(f.b, f.Weights)[:300])
		f.Fisher = estimators.NewFisher(whole.Fisher(0), damping)
		got, _, err := f.natural(f.s)
		if err != nil {
			t.Fatal(err)
		}
		small := f.naturalTwin(t)
		f.Policy = whole
		want := f.naturalTwin(t)
		nntest.Near(t, "natural gradient", compute.ToSlice(f.b, got), want, 1e-4)
		if d := nntest.Distance(small, want); !(d > 1e-2) {
			t.Errorf("the gradient's own samples give nearly the same, off by %.2g, so that this shows nothing", d)
		}
	})
}

func TestVanillaPGTakesAdamsStepUphill(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		got, want := clone(f.params), clone(f.params)
		report, err := NewVanillaPG(len(got), 0.02).Step(got, f.Objective)
		if err != nil {
			t.Fatal(err)
		}
		for i, g := range f.gradient() {
			want[i] = torchAdam(f.params[i], 0.02, DefaultWeightDecay, []float64{-g})
		}
		nntest.Near(t, "parameters", got, want, 1e-13)
		if kl := f.Policy.KL(f.Policy.At(f.s, want)); math.Abs(report.KL-kl) > 1e-9*kl {
			t.Errorf("reported divergence %v, want %v", report.KL, kl)
		}
		if norm := mat.Norm(mat.NewVecDense(len(want), f.gradient()),
			2); math.Abs(report.GradientNorm-norm) > 1e-12*norm {
			t.Errorf("reported gradient norm %v, want %v", report.GradientNorm, norm)
		}
	})
}

func TestNPGTakesAdamsStepAlongTheNaturalGradient(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		got, want := clone(f.params), clone(f.params)
		report, err := NewNPG(len(got), 0.02).Step(got, f.Objective)
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range f.naturalTwin(t) {
			want[i] = torchAdam(f.params[i], 0.02, DefaultWeightDecay, []float64{-d})
		}
		nntest.Near(t, "parameters", got, want, 1e-5)
		if report.Solve.Iterations == 0 || report.Solve.Residual > 1e-10 || !(report.KL > 0) {
			t.Errorf("report %+v", report)
		}
	})
}

// After a single iteration the solution is the gradient times g'g/g'Gg; after a few it is still on its way.
func TestBoundedConjugateGradients(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		g := f.gradient()
		product := compute.ToSlice(f.b, linop.Mul(f.s, f.Fisher.Metric(f.b), f.Gradient, false))
		f.CG.MaxIterations = 1
		d, solve, err := f.natural(f.s)
		if err != nil || solve.Iterations != 1 {
			t.Fatalf("%+v, %v", solve, err)
		}
		want := clone(g)
		floats.Scale(floats.Dot(g, g)/floats.Dot(g, product), want)
		nntest.Near(t, "natural gradient", compute.ToSlice(f.b, d), want, 1e-10)
		f.CG.MaxIterations = 4
		_, longer, err := f.natural(f.s)
		if err != nil || longer.Iterations != 4 || !(longer.Residual < solve.Residual) {
			t.Errorf("%+v after %+v, %v", longer, solve, err)
		}
		// which the fourth iteration reaches at the latest
		f.CG = linop.CG{Tolerance: (longer.Residual + solve.Residual) / 2}
		if _, loose, err := f.natural(f.s); err != nil || loose.Iterations > 4 || !(loose.Residual <= f.CG.Tolerance) {
			t.Errorf("%+v with tolerance %g, %v", loose, f.CG.Tolerance, err)
		}
	})
}

func TestGoldenNaturalGradients(t *testing.T) {
	for _, name := range []string{"hopper_gae", "swimmer_returns"} {
		for _, b := range nntest.Backends()[1:] {
			f, arrays := golden(t, b, name)
			for _, estimate := range []string{"mc", "dbqpg"} {
				f.Gradient = f.s.FromSlice(len(f.params), 1, flat(arrays, "expect_"+estimate+"_policy_"))
				d, _, err := f.natural(f.s)
				if err != nil {
					t.Fatal(err)
				}
				nntest.Near(t, name+" "+estimate, compute.ToSlice(b, d), flat(arrays, "expect_natural_"+estimate+"_policy_"),
					1e-4)
			}
			f.s.Release()
		}
	}
}

// The leading part of U's decomposition changes how fast the natural gradient is
// found, not what is found.
func TestPreconditionedSolutionIsTheSameAndFaster(t *testing.T) {
	for _, name := range []string{"hopper_gae", "swimmer_returns"} {
		for _, b := range nntest.Backends()[1:] {
			f, arrays := golden(t, b, name)
			_, plain, err := f.natural(f.s)
			if err != nil {
				t.Fatal(err)
			}
			f.SVD, err = linop.ExactSVD(f.s, f.Policy.Scores(f.s, f.Actions), 30)
			if err != nil {
				t.Fatal(err)
			}
			d, fast, err := f.natural(f.s)
			if err != nil {
				t.Fatal(err)
			}
			nntest.Near(t, name, compute.ToSlice(b, d), flat(arrays, "expect_natural_mc_policy_"), 1e-4)
			t.Logf("%s: %d iterations, preconditioned %d", name, plain.Iterations, fast.Iterations)
			if 3*fast.Iterations > 2*plain.Iterations {
				t.Errorf("%s: %d iterations without, %d with a preconditioner", name, plain.Iterations, fast.Iterations)
			}
			f.s.Release()
		}
	}
}

// widen inserts, after each row of width numbers in the first rows of them, what add returns.
func widen(x []float64, rows, width int, add func() []float64) (wide []float64) {
	for i := range rows {
		wide = append(append(wide, x[i*width:(i+1)*width]...), add()...)
	}
	return append(wide, x[rows*width:]...)
}

// Inputs that are zero throughout the batch change no step; their weights get Adam's weight decay alone.
func TestStepsWithInputsThatAreZero(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		const o, hidden, zeros = 3, 5, 2
		rng := rand.New(rand.NewPCG(2, 0))
		observations := widen(f.observations, len(f.observations)/o, o,
			func() []float64 { return make([]float64, zeros) })
		start := widen(f.params, hidden, o, func() []float64 { return random(rng, zeros) })
		shape := policy.Shape{Observation: o + zeros, Action: 2, Hidden: []int{hidden, 4}}
		wide := f
		wide.Policy = batched.New(f.s, shape, start, f.s.FromSlice(f.Policy.Samples(), o+zeros, observations))
		wide.setWeights(compute.ToSlice(f.b, f.Weights))
		for _, a := range []func(n int) Algorithm{
			func(n int) Algorithm { return NewVanillaPG(n, 0.02) }, func(n int) Algorithm { return NewNPG(n, 0.02) },
			func(int) Algorithm { return &TRPO{} },
		} {
			narrow, got := clone(f.params), clone(start)
			for params, objective := range map[*[]float64]Objective{&narrow: f.Objective, &got: wide.Objective} {
				if report, err := a(len(*params)).Step(*params, objective); err != nil || report.Rejected {
					t.Fatal(report, err)
				}
			}
			row := 0
			want := widen(narrow, hidden, o, func() []float64 {
				row++
				decayed := clone(start[row*(o+zeros)-zeros : row*(o+zeros)])
				if _, trustRegion := a(1).(*TRPO); !trustRegion {
					for i, w := range decayed {
						decayed[i] = torchAdam(w, 0.02, DefaultWeightDecay, []float64{0})
					}
				}
				return decayed
			})
			nntest.Near(t, fmt.Sprintf("%T", a(1)), got, want, 1e-13)
		}
	})
}

// The correction sees the direction of the step, and leaves the gradient alone.
func TestCorrectionsApplyToTheDirection(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		gradient := f.gradient()
		natural, _, err := f.natural(f.s)
		if err != nil {
			t.Fatal(err)
		}
		for name, tc := range map[string]struct {
			algorithm Algorithm
			want      []float64
		}{
			"vanilla": {NewVanillaPG(len(f.params), 0.1), gradient},
			"npg":     {NewNPG(len(f.params), 0.1), compute.ToSlice(f.b, natural)},
			"trpo":    {&TRPO{}, compute.ToSlice(f.b, natural)},
		} {
			var seen []float64
			o := f.Objective
			estimate := *o.Estimate
			o.Estimate = &estimate
			o.Correct = func(d compute.Block) {
				seen = compute.ToSlice(f.b, d)
				compute.Fill(f.b, d, 0)
			}
			params := clone(f.params)
			if _, err := tc.algorithm.Step(params, o); err != nil {
				t.Fatal(err)
			}
			nntest.Near(t, name+": corrected direction", seen, tc.want, 1e-12)
			nntest.Near(t, name+": gradient", f.gradient(), gradient, 0)
			if name == "trpo" { // which has no weight decay
				nntest.Near(t, "trpo: parameters without a direction", params, f.params, 0)
			}
		}
	})
}

func TestNotFiniteGradientTakesNoStep(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		compute.Fill(f.b, f.Gradient.Row(4), math.NaN())
		for _, a := range []Algorithm{NewVanillaPG(len(f.params), 0.1), NewNPG(len(f.params), 0.1), &TRPO{}} {
			params := clone(f.params)
			var notFinite *NotFiniteError
			if _, err := a.Step(params, f.Objective); !errors.As(err, &notFinite) || notFinite.Index != 4 {
				t.Errorf("%T: error %v", a, err)
			}
			nntest.Near(t, "parameters", params, f.params, 0)
		}
	})
}

func TestStatesRoundTrip(t *testing.T) {
	f := newFixture(nntest.Backends()[2], 3)
	defer f.s.Release()
	n := len(f.params)
	for _, pair := range [][2]Algorithm{
		{NewVanillaPG(n, 0.1), NewVanillaPG(n, 0.1)}, {NewNPG(n, 0.1), NewNPG(n, 0.1)}, {&TRPO{}, &TRPO{}},
		{&TRPO{Adaptive: true}, &TRPO{Adaptive: true}},
	} {
		params := clone(f.params)
		step := func(a Algorithm, params []float64) {
			if _, err := a.Step(params, f.Objective); err != nil {
				t.Fatal(err)
			}
		}
		f.TargetVariance = 3
		step(pair[0], params)
		f.TargetVariance = 0.3
		if err := state.Restore(state.Save(pair[0].Visit), pair[1].Visit); err != nil {
			t.Fatal(err)
		}
		restored := clone(params)
		step(pair[0], params)
		step(pair[1], restored)
		nntest.Near(t, "parameters", restored, params, 0)
	}
}

// A step gives back all that it allocated.
func TestStepsReleaseTheirBlocks(t *testing.T) {
	b := computetest.Opaque(cpu.New(2))
	f := newFixture(b, 4)
	before := b.Live()
	for _, a := range []Algorithm{NewVanillaPG(len(f.params), 0.1), NewNPG(len(f.params), 0.1), &TRPO{}} {
		if _, err := a.Step(clone(f.params), f.Objective); err != nil {
			t.Fatal(err)
		}
		if live := b.Live(); live != before {
			t.Errorf("%T leaves %d buffers behind", a, live-before)
		}
	}
}
