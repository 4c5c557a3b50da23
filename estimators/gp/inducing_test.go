package gp

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
)

// inducingTwin is the process with c1 K_nm (K_mm + jitter I)^-1 K_mn for c1 K_s, by dense
// algebra.
func inducingTwin(x batch, k Kernel, inducing []int) *twin {
	m := len(inducing)
	z := scaleDense(x.features)
	r, _ := k.gridMatrix()
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
	return solveTwin(x, k, symmetric(x.n, product.RawMatrix().Data))
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
			return floats.Sum(compute.ToSlice(s.Backend(), diagonal(p.gram.matrix))[:p.state.cols()])
		}
		whole := kernelTrace()
		all, err := ChooseInducing(s.Backend(), x.upload(s).Features, 80, rand.New(rand.NewPCG(1, 0)))
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

// A state kernel of too many columns is an error, not a day's work.
func TestTooManyColumns(t *testing.T) {
	rough := withBase(someKernel(), "matern12")
	onBackend(t, cpu.New(2), func(t *testing.T, s *compute.Scope) {
		for _, c := range []struct {
			features int
			fits     bool
		}{{64, true}, {65, false}} {
			if columns := Columns(rough.Base, c.features); columns != 128*c.features {
				t.Errorf("%d features: %d columns", c.features, columns)
			}
			x := newBatch(seeded(t, 36), 5, c.features, 2)
			scaled := s.New(5, c.features)
			if _, err := Scale(s.Backend(), scaled, x.upload(s).Features); err != nil {
				t.Fatal(err)
			}
			_, err := newFactor(s, rough, scaled, nil)
			var e *TooManyColumnsError
			if errors.As(err, &e) == c.fits {
				t.Errorf("%d features: error %v", c.features, err)
			}
			if _, err := newFactor(s, rough, scaled, []int{1, 3}); err != nil {
				t.Errorf("%d features with inducing points: %v", c.features, err)
			}
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
		wantNear(t, "alpha", compute.ToSlice(s.Backend(), many.Alpha()), compute.ToSlice(s.Backend(), one.Alpha()), 1e-6)
	})
}

// Each further point is drawn by its squared distance from the nearest before it: of
// points at 0, 1 and 3, pairs have the probabilities worked out by hand.
func TestChooseInducingDrawsBySquaredDistance(t *testing.T) {
	const draws = 20000
	rng := seeded(t, 34)
	b := cpu.New(1)
	s := compute.NewScope(b)
	defer s.Release()
	features := s.FromSlice(3, 1, []float64{0, 1, 3})
	counts := map[[2]int]float64{}
	for range draws {
		pair, err := ChooseInducing(b, features, 2, rng)
		if err != nil {
			t.Fatal(err)
		}
		counts[[2]int(pair)]++
	}
	for pair, want := range map[[2]int]float64{
		{0, 1}: 1. / 10, {0, 2}: 9. / 10, {1, 0}: 1. / 5, {1, 2}: 4. / 5, {2, 0}: 9. / 13, {2, 1}: 4. / 13,
	} {
		want /= 3
		if deviation := math.Sqrt(want * (1 - want) / draws); math.Abs(counts[pair]/draws-want) > 5*deviation {
			t.Errorf("%v is drawn in %.4f of all cases, want %.4f", pair, counts[pair]/draws, want)
		}
	}
}

func TestChooseInducing(t *testing.T) {
	x := newBatch(seeded(t, 35), 50, 3, 1)
	copy(x.features[3:], slices.Repeat(x.features[:3], 20)) // rows 0 to 20 are equal
	backends(t, func(t *testing.T, s *compute.Scope) {
		features := x.upload(s).Features
		choose := func(m int, seed uint64) []int {
			rows, err := ChooseInducing(s.Backend(), features, m, rand.New(rand.NewPCG(seed, 0)))
			if err != nil {
				t.Fatal(err)
			}
			return rows
		}
		if !slices.Equal(choose(10, 1), choose(10, 1)) || slices.Equal(choose(10, 1), choose(10, 2)) {
			t.Error("the choice is not a function of the seed")
		}
		for _, m := range []int{1, 30, 31, 50} {
			rows := choose(m, 3)
			equal := 0
			for _, row := range rows {
				if row <= 20 {
					equal++
				}
			}
			slices.Sort(rows)
			if len(slices.Compact(rows)) != m {
				t.Errorf("%d rows, some of them twice: %v", m, rows)
			}
			if m <= 30 && equal > 1 {
				t.Errorf("%d of %d rows are equal, though others are left", equal, m)
			}
		}
		var e *InducingError
		for _, m := range []int{0, 51} {
			if _, err := ChooseInducing(s.Backend(), features, m, rand.New(rand.NewPCG(1, 0))); !errors.As(err, &e) {
				t.Errorf("%d of 50 rows: error %v", m, err)
			}
		}
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
	t[Value] = symmetric(total, product.RawMatrix().Data)
	t[ActionValue].AddSym(t[Value], t[Advantage])
}
