package gp

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/estimators/gp/statekernel"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// jitter, times the number of inducing points and features, is on their kernel matrix's
// diagonal.
const jitter = 1e-10

// inducingTwin returns the process with c1 K_nm (K_mm + jitter I)^-1 K_mn for c1 K_s, by dense
// algebra.
func inducingTwin(x batch, k Kernel, inducing []int) *twin {
	m := len(inducing)
	z := scaleDense(x.features)
	r := gridMatrix(k)
	value := func(i, j int) (sum float64) {
		for c := range x.d {
			sum += interpolatedKernel(r, grid(), z[i*x.d+c], z[j*x.d+c])
		}
		return sum
	}
	small, cross := mat.NewSymDense(m, nil), mat.NewDense(m, x.n, nil)
	for p, i := range inducing {
		for q := p; q < m; q++ {
			small.SetSym(p, q, value(i, inducing[q]))
		}
		small.SetSym(p, p, small.At(p, p)+jitter*float64(m*x.d))
		for j := range x.n {
			cross.Set(p, j, value(i, j))
		}
	}
	var factor mat.Cholesky
	if !factor.Factorize(small) {
		panic("the twin's kernel matrix of the inducing points is not positive definite")
	}
	var solved, product mat.Dense
	_ = factor.SolveTo(&solved, cross) // a bad condition number is part of the comparison
	product.Mul(cross.T(), &solved)
	product.Scale(k.C1*k.OutputScale, &product)
	return solveTwin(x, k, linop.Symmetric(x.n, product.RawMatrix().Data))
}

func TestInducingAgainstDenseTwin(t *testing.T) {
	rng := seeded(t, 30)
	x := newBatch(rng, 60, 3, 4)
	inducing := rng.Perm(60)[:7]
	for name, k := range cases() {
		t.Run(name, func(t *testing.T) {
			twin := inducingTwin(x, k, inducing)
			backends(t, func(t *testing.T, s *compute.Scope) {
				p := fit(t, s, k, x.upload(s), inducing...)
				wantNear(t, "alpha", compute.ToSlice(s.Backend(), p.Alpha()), twin.alpha.RawVector().Data, 1e-6)
				wantNear(t, "log likelihood", []float64{likelihood(t, p)}, []float64{twin.value}, 1e-8)
			})
		})
	}
}

// The gradient in every hyperparameter and in every feature, those of the inducing points
// among them, by central differences of the dense twin.
func TestInducingGradientByFiniteDifferences(t *testing.T) {
	rng := seeded(t, 31)
	x := newBatch(rng, 20, 2, 2)
	inducing := rng.Perm(20)[:5]
	for name, k := range cases() {
		k.Noise = max(k.Noise, 1e-2) // with less the twin has too few digits for differences
		t.Run(name, func(t *testing.T) {
			value := func(k Kernel) float64 { return inducingTwin(x, k, inducing).value }
			wantHyper := hyperDifferences(k, value)
			want := featureDifferences(x, func() float64 { return value(k) })
			backends(t, func(t *testing.T, s *compute.Scope) {
				p := fit(t, s, k, x.upload(s), inducing...)
				features := s.New(x.n, x.d)
				hyper, err := p.Gradient(features)
				if err != nil {
					t.Fatal(err)
				}
				compareHyper(t, hyper, wantHyper, 1e-5)
				got := compute.ToSlice(s.Backend(), features)
				if k.C1 > 0 {
					wantNear(t, "features", got, want, 2e-5)
				} else if i := slices.IndexFunc(got, func(g float64) bool { return math.Abs(g) > 1e-14 }); i >= 0 {
					t.Errorf("the gradient in feature %d is %g although c1 = 0", i, got[i])
				}
				if alone, err := p.Gradient(compute.Block{}); err != nil || !reflect.DeepEqual(alone, hyper) {
					t.Errorf("without the features: %+v, want %+v; error %v", alone, hyper, err)
				}
			})
		})
	}
}

// With every sample an inducing point the kernel is that of the interpolation, and more
// points never leave less of it.
func TestMoreInducingPointsComeCloser(t *testing.T) {
	x := newBatch(seeded(t, 32), 80, 3, 4)
	onBackend(t, cpu.New(2), func(t *testing.T, s *compute.Scope) {
		kernelTrace := func(inducing ...int) float64 {
			p := fit(t, s, someKernel(), x.upload(s), inducing...).(*directPosterior)
			return floats.Sum(compute.ToSlice(s.Backend(), p.gram.matrix.Diagonal())[:p.state.Cols()])
		}
		whole := kernelTrace()
		all, err := statekernel.ChooseInducing(s.Backend(), x.upload(s).Features, 80, rand.New(rand.NewPCG(1, 0)))
		if err != nil {
			t.Fatal(err)
		}
		last := 0.0
		for _, m := range []int{1, 5, 20, 40, 80} {
			share := kernelTrace(all[:m]...) / whole
			if share < last-1e-7 || share > 1+1e-7 {
				t.Errorf("%d points hold %.9f of the kernel, fewer %.9f", m, share, last)
			}
			last = share
		}
		if last < 1-1e-6 {
			t.Errorf("all points together hold %.9f of the kernel", last)
		}
	})
}

// Points that coincide make K_mm singular; the jitter lets it be.
func TestEqualInducingPoints(t *testing.T) {
	x := newBatch(seeded(t, 33), 40, 2, 3)
	copy(x.features[2:], slices.Repeat(x.features[:2], 10)) // rows 0 to 10 are equal
	onBackend(t, cpu.New(2), func(t *testing.T, s *compute.Scope) {
		one := fit(t, s, someKernel(), x.upload(s), 0, 20, 30)
		many := fit(t, s, someKernel(), x.upload(s), 0, 3, 20, 5, 30, 8)
		wantNear(t, "alpha", compute.ToSlice(s.Backend(), many.Alpha()), compute.ToSlice(s.Backend(), one.Alpha()),
			1e-6)
	})
}

// The moments at the batch's points and at others, from the twin's prior projected on the
// inducing points.
func TestInducingMoments(t *testing.T) {
	rng := seeded(t, 37)
	x, others, k := newBatch(rng, 40, 3, 4), newBatch(rng, 9, 3, 4), someKernel()
	inducing := rng.Perm(40)[:6]
	prior := newPriorTwin(x, others, k)
	prior.project(inducing, k.C1*k.OutputScale*jitter*float64(len(inducing)*x.d))
	backends(t, func(t *testing.T, s *compute.Scope) {
		p := fit(t, s, k, x.upload(s), inducing...)
		for part := Value; part <= ActionValue; part++ {
			mean, variance := predict(t, s, p, part, others.points(s))
			wantMean, wantVariance := prior.moments(part, span(0, x.n), span(x.n, x.n+others.n), x.targets, k.Noise)
			compareMoments(t, part.String(), mean, variance, wantMean, wantVariance, 1e-7)
		}
	})
}

// project replaces the state kernel by that of the subset of regressors.
func (t priorTwin) project(inducing []int, jitter float64) {
	total, m := t[Value].SymmetricDim(), len(inducing)
	small, cross := mat.NewSymDense(m, nil), mat.NewDense(m, total, nil)
	for i, p := range inducing {
		for j, q := range inducing {
			small.SetSym(i, j, t[Value].At(p, q))
		}
		small.SetSym(i, i, small.At(i, i)+jitter)
		for j := range total {
			cross.Set(i, j, t[Value].At(p, j))
		}
	}
	var solved, product mat.Dense
	if err := solved.Solve(small, cross); err != nil {
		panic(err)
	}
	product.Mul(cross.T(), &solved)
	t[Value] = linop.Symmetric(total, product.RawMatrix().Data)
	t[ActionValue].AddSym(t[Value], t[Advantage])
}
