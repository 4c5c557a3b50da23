package gp

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp/kernels"
)

// fit fits directly, with inducing points if there are any, or fails the test.
func fit(t *testing.T, s *compute.Scope, k Kernel, d Data, inducing ...int) Posterior {
	t.Helper()
	p, err := Direct{Inducing: inducing}.Fit(s, k, d)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// likelihood returns the log likelihood of a posterior whose solver cannot fail at it.
func likelihood(t *testing.T, p Posterior) float64 {
	t.Helper()
	l, err := p.LogLikelihood()
	if err != nil {
		t.Fatal(err)
	}
	return l.Value
}

// cases are what the closed form must get right: every base kernel, the paper's small
// noise, a long lengthscale, and one of the two kernels missing.
func cases() map[string]Kernel {
	smallNoise, noState, noFisher, long := someKernel(), someKernel(), someKernel(), someKernel()
	smallNoise.Noise = 1e-4
	noState.C1 = 0
	noFisher.C2 = 0
	long.Hyper.Base = []float64{30}
	all := map[string]Kernel{"small noise": smallNoise, "c1 = 0": noState, "c2 = 0": noFisher, "long lengthscale": long}
	for _, name := range kernels.Names() {
		all[name] = withBase(someKernel(), name)
	}
	return all
}

// lookup returns the base kernel with a name, which must exist.
func lookup(name string) *kernels.Kernel {
	k, err := kernels.Lookup(name)
	if err != nil {
		panic(err)
	}
	return k
}

// withBase returns k with another base kernel, whose hyperparameters are 0.4, 0.5, ...
func withBase(k Kernel, name string) Kernel {
	k.Base, k.Hyper.Base = lookup(name), nil
	for i := range k.Base.Hyperparameters() {
		k.Hyper.Base = append(k.Hyper.Base, 0.4+0.1*float64(i))
	}
	return k
}

func TestDirectAgainstDenseTwin(t *testing.T) {
	x := newBatch(seeded(t, 1), 60, 3, 4)
	for name, k := range cases() {
		t.Run(name, func(t *testing.T) {
			twin := newTwin(x, k, true)
			stateOnly := mat.NewSymDense(x.n, nil)
			stateOnly.CopySym(twin.state)
			for i := range x.n {
				stateOnly.SetSym(i, i, stateOnly.At(i, i)+k.Noise)
			}
			backends(t, func(t *testing.T, s *compute.Scope) {
				p := fit(t, s, k, x.upload(s))
				wantNear(t, "alpha", compute.ToSlice(s.Backend(), p.Alpha()), twin.alpha.RawVector().Data, 1e-6)
				wantNear(t, "log likelihood", []float64{likelihood(t, p)}, []float64{twin.value}, 1e-8)

				core, err := p.FisherCore()
				if err != nil {
					t.Fatal(err)
				}
				wantNear(t, "V'K^-1 V", mat.DenseCopyOf(core).RawMatrix().Data, x.core(twin.k).RawMatrix().Data, 1e-7)
				if core, err = p.StateCore(); err != nil {
					t.Fatal(err)
				}
				wantNear(t, "V'(c1 K_s + noise D)^-1 V", mat.DenseCopyOf(core).RawMatrix().Data,
					x.core(stateOnly).RawMatrix().Data, 1e-7)
			})
		})
	}
}

// The gradient in every hyperparameter and in every feature, through the minimum
// and the maximum too, by central differences of the dense twin.
func TestGradientByFiniteDifferences(t *testing.T) {
	x := newBatch(seeded(t, 2), 25, 3, 2)
	for name, k := range cases() {
		t.Run(name, func(t *testing.T) {
			value := func(k Kernel) float64 { return newTwin(x, k, true).value }
			wantHyper := hyperDifferences(k, value)
			wantFeatures := featureDifferences(x, func() float64 { return value(k) })
			backends(t, func(t *testing.T, s *compute.Scope) {
				p := fit(t, s, k, x.upload(s))
				features := s.New(x.n, x.d)
				hyper, err := p.Gradient(features)
				if err != nil {
					t.Fatal(err)
				}
				compareHyper(t, hyper, wantHyper, 1e-5)
				got := compute.ToSlice(s.Backend(), features)
				if k.C1 == 0 {
					if i := slices.IndexFunc(got, func(g float64) bool { return g != 0 }); i >= 0 {
						t.Errorf("the gradient in feature %d is %g although c1 = 0", i, got[i])
					}
					return
				}
				wantNear(t, "features", got, wantFeatures, 2e-5)
			})
		})
	}
}

// Without the features, the gradient in the hyperparameters is the same bits.
func TestGradientWithoutFeatures(t *testing.T) {
	x := newBatch(seeded(t, 5), 60, 3, 4)
	for _, name := range []string{"rbf", "matern12"} {
		k := withBase(someKernel(), name)
		backends(t, func(t *testing.T, s *compute.Scope) {
			for _, solver := range []Solver{Direct{}, Iterative{}} {
				p, err := solver.Fit(s, k, x.upload(s))
				if err != nil {
					t.Fatal(err)
				}
				want, err := p.Gradient(s.New(x.n, x.d))
				if err != nil {
					t.Fatal(err)
				}
				if got, err := p.Gradient(compute.Block{}); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%s by %T: %+v, want %+v; error %v", name, solver, got, want, err)
				}
			}
		})
	}
}

// featureDifferences returns the gradient of value in the batch's features by central
// differences.
func featureDifferences(x batch, value func() float64) []float64 {
	const h = 1e-6
	gradient := make([]float64, len(x.features))
	for i, z := range x.features {
		x.features[i] = z + h
		gradient[i] = value()
		x.features[i] = z - h
		gradient[i] = (gradient[i] - value()) / (2 * h)
		x.features[i] = z
	}
	return gradient
}

// hyperDifferences returns the gradient of value in k's hyperparameters by central
// differences.
func hyperDifferences(k Kernel, value func(Kernel) float64) Hyper {
	difference := func(of func(*Kernel) *float64) float64 {
		up, down := k, k
		up.Hyper.Base, down.Hyper.Base = slices.Clone(k.Hyper.Base), slices.Clone(k.Hyper.Base)
		h := 1e-5 * *of(&k)
		*of(&up) += h
		*of(&down) -= h
		return (value(up) - value(down)) / (2 * h)
	}
	var base []float64
	for i := range k.Hyper.Base {
		base = append(base, difference(func(k *Kernel) *float64 { return &k.Hyper.Base[i] }))
	}
	return Hyper{
		Base:           base,
		OutputScale:    difference(func(k *Kernel) *float64 { return &k.OutputScale }),
		FisherVariance: difference(func(k *Kernel) *float64 { return &k.FisherVariance }),
		Noise:          difference(func(k *Kernel) *float64 { return &k.Noise }),
	}
}

// compareHyper compares each number on its own.
func compareHyper(t *testing.T, got, want Hyper, tolerance float64) {
	t.Helper()
	type number struct {
		name      string
		got, want float64
	}
	numbers := []number{
		{"output scale", got.OutputScale, want.OutputScale},
		{"fisher variance", got.FisherVariance, want.FisherVariance},
		{"noise", got.Noise, want.Noise},
	}
	if len(got.Base) != len(want.Base) {
		t.Fatalf("%d derivatives in the base kernel's hyperparameters, want %d", len(got.Base), len(want.Base))
	}
	for i := range want.Base {
		numbers = append(numbers, number{fmt.Sprintf("base kernel's hyperparameter %d", i), got.Base[i], want.Base[i]})
	}
	for _, x := range numbers {
		if math.Abs(x.got-x.want) > tolerance*math.Abs(x.want)+1e-9 {
			t.Errorf("gradient in the %s is %.10g, want %.10g", x.name, x.got, x.want)
		}
	}
}

// Interpolation on 128 points stays within 1e-5 of the exact kernel.
func TestInterpolationError(t *testing.T) {
	x := newBatch(seeded(t, 3), 100, 4, 3)
	exact := newTwin(x, someKernel(), false)
	backends(t, func(t *testing.T, s *compute.Scope) {
		p := fit(t, s, someKernel(), x.upload(s))
		wantNear(t, "alpha", compute.ToSlice(s.Backend(), p.Alpha()), exact.alpha.RawVector().Data, 1e-5)
		wantNear(t, "log likelihood", []float64{likelihood(t, p)}, []float64{exact.value}, 1e-6)
	})
}
