package gp

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// priorTwin is the process before its batch, by dense algebra: the kernel matrices over
// the batch's n points and then m others.
type priorTwin map[Part]*mat.SymDense

// newPriorTwin forms them element by element. The others' features are scaled as x's are
// and end where those do.
func newPriorTwin(x, others batch, k Kernel) priorTwin {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range x.features {
		low, high = min(low, v), max(high, v)
	}
	var z []float64
	for _, v := range append(append([]float64{}, x.features...), others.features...) {
		z = append(z, -0.95+1.9*(min(max(v, low), high)-low)/(high-low))
	}
	v := append(append([]float64{}, x.fisher...), others.fisher...)
	r := gridMatrix(k)
	total := x.n + others.n
	t := priorTwin{Value: mat.NewSymDense(total, nil), Advantage: mat.NewSymDense(total, nil),
		ActionValue: mat.NewSymDense(total, nil)}
	for i := range total {
		for j := i; j < total; j++ {
			state, fisher := 0.0, 0.0
			for c := range x.d {
				state += k.C1 * k.OutputScale * interpolatedKernel(r, grid(), z[i*x.d+c], z[j*x.d+c])
			}
			for c := range x.k {
				fisher += k.C2 * float64(x.n) * k.FisherVariance * v[i*x.k+c] * v[j*x.k+c]
			}
			t[Value].SetSym(i, j, state)
			t[Advantage].SetSym(i, j, fisher)
			t[ActionValue].SetSym(i, j, state+fisher)
		}
	}
	return t
}

// moments returns those of a part at the points at, given noisy targets of Q at the points given.
func (t priorTwin) moments(part Part, given, at []int, targets []float64, noise float64) (mean, variance []float64) {
	k := mat.NewSymDense(len(given), nil)
	cross := mat.NewDense(len(given), len(at), nil)
	for i, p := range given {
		for j, q := range given {
			k.SetSym(i, j, t[ActionValue].At(p, q))
		}
		k.SetSym(i, i, k.At(i, i)+noise)
		for j, q := range at {
			cross.Set(i, j, t[part].At(p, q))
		}
	}
	var factor mat.Cholesky
	if !factor.Factorize(k) {
		panic("the twin's kernel matrix is not positive definite")
	}
	var solved mat.Dense
	_ = factor.SolveTo(&solved, cross) // a bad condition number is part of the comparison
	for j, q := range at {
		column := solved.ColView(j)
		mean = append(mean, mat.Dot(column, mat.NewVecDense(len(targets), targets)))
		variance = append(variance, t[part].At(q, q)-mat.Dot(column, cross.ColView(j)))
	}
	return mean, variance
}

// span returns lo, lo+1, ..., hi-1.
func span(lo, hi int) (all []int) {
	for i := lo; i < hi; i++ {
		all = append(all, i)
	}
	return all
}

// points puts a batch's states and actions on a backend.
func (x batch) points(s *compute.Scope) Points { return x.upload(s).Points() }

// predict returns a posterior's moments of a part at m points.
func predict(t *testing.T, s *compute.Scope, p Posterior, part Part, at Points) (mean, variance []float64) {
	t.Helper()
	m, v := s.New(at.Features.Rows, 1), s.New(at.Features.Rows, 1)
	if err := p.(Predictor).Predict(part, at, m, v); err != nil {
		t.Fatal(err)
	}
	return compute.ToSlice(s.Backend(), m), compute.ToSlice(s.Backend(), v)
}

// compareMoments compares variances on the scale of the prior's, from which the twin
// subtracts.
func compareMoments(t *testing.T, what string, mean, variance, wantMean, wantVariance []float64, tolerance float64) {
	t.Helper()
	for i := range wantMean {
		if !(math.Abs(mean[i]-wantMean[i]) <= tolerance) || !(math.Abs(variance[i]-wantVariance[i]) <= tolerance) ||
			variance[i] < 0 {
			t.Errorf("%s, point %d: mean %g and variance %g, want %g and %g", what, i, mean[i], variance[i],
				wantMean[i], wantVariance[i])
			return
		}
	}
}

// "E[Q(z)|D] = k(z)'(K + sigma² I)^-1 Q, Cov[Q(z_1), Q(z_2)|D] = k(z_1, z_2) - k(z_1)'(K +
// sigma² I)^-1 k(z_2)" (eqn:appendix_Q_function_posterior), and its parts
// (eqn:appendix_value_posterior_1, _2; eqn:appendix_adv_posterior_1, _2), at the batch's
// points and at others, some of whose features lie outside the batch's range: by both
// solvers and for every base kernel against dense algebra.
func TestPredictAgainstDenseTwin(t *testing.T) {
	rng := seeded(t, 20)
	x, others := newBatch(rng, 40, 2, 4), newBatch(rng, 70, 2, 4)
	others.features[0], others.features[5] = 3, -3
	for name, k := range cases() {
		t.Run(name, func(t *testing.T) {
			twin := newPriorTwin(x, others, k)
			onBackend(t, cpu.New(2), func(t *testing.T, s *compute.Scope) {
				data := x.upload(s)
				iterative, err := Iterative{}.Fit(s, k, data)
				if err != nil {
					t.Fatal(err)
				}
				for solver, p := range map[string]Posterior{"direct": fit(t, s, k, data), "iterative": iterative} {
					for _, part := range []Part{Value, Advantage, ActionValue} {
						wantMean, wantVariance := twin.moments(part, span(0, x.n), span(0, x.n+others.n), x.targets,
							k.Noise)
						mean, variance := predict(t, s, p, part, data.Points())
						compareMoments(t, solver+", "+part.String()+" in the batch", mean, variance, wantMean[:x.n],
							wantVariance[:x.n], 1e-6)
						mean, variance = predict(t, s, p, part, others.points(s))
						compareMoments(t, solver+", "+part.String()+" elsewhere", mean, variance, wantMean[x.n:],
							wantVariance[x.n:], 1e-6)
					}
				}
			})
		})
	}
}

// Q = V + A: the means add up, but the variances do not, because V and A are dependent given a
// batch. The mean is bit-identical whether or not the variance is requested. Leaving out a
// sample increases the variance at it.
func TestActionValueIsOneVariable(t *testing.T) {
	x, k := newBatch(seeded(t, 21), 60, 3, 4), someKernel()
	k.C2 = 0.5
	backends(t, func(t *testing.T, s *compute.Scope) {
		p := fit(t, s, k, x.upload(s))
		value, spreadOfValue := predict(t, s, p, Value, x.points(s))
		advantage, spreadOfAdvantage := predict(t, s, p, Advantage, x.points(s))
		both, spread := predict(t, s, p, ActionValue, x.points(s))
		alone := s.New(x.n, 1)
		if err := p.(Predictor).Predict(ActionValue, x.points(s), alone, compute.Block{}); err != nil {
			t.Fatal(err)
		}
		apart := 0.0
		for i, mean := range compute.ToSlice(s.Backend(), alone) {
			if math.Abs(value[i]+advantage[i]-both[i]) > 1e-12 || mean != both[i] {
				t.Errorf("point %d: V %g, A %g, Q %g, alone %g", i, value[i], advantage[i], both[i], mean)
			}
			apart = max(apart, 1-spread[i]/(spreadOfValue[i]+spreadOfAdvantage[i]))
		}
		if apart < 0.01 {
			t.Errorf("V and A seem independent: their covariance takes at most %g off Q's variance", apart)
		}
		if _, without := leaveOut(t, s, p, 3, 4, x.points(s)); !(without[3] > spread[3]) {
			t.Errorf("without sample 3 its variance is %g, with it %g", without[3], spread[3])
		}
	})
}

// Far more certain than rounding allows a difference to be: many samples, little noise, a
// smooth kernel. The closed form's variances are sums of squares.
func TestVariancesAreNeverNegative(t *testing.T) {
	x, k := newBatch(seeded(t, 22), 800, 2, 3), someKernel()
	k.Noise, k.Hyper.Base = 1e-9, []float64{3}
	onBackend(t, cpu.New(2), func(t *testing.T, s *compute.Scope) {
		p := fit(t, s, k, x.upload(s))
		for _, part := range []Part{Value, Advantage, ActionValue} {
			_, variance := predict(t, s, p, part, x.points(s))
			for i, v := range variance {
				if !(v > 0 && v < 1e-8) {
					t.Fatalf("%v, point %d: variance %g, want a little above 0", part, i, v)
				}
			}
		}
	})
}

// leaveOut returns a posterior's moments of Q at some points without the samples [lo, hi).
func leaveOut(t *testing.T, s *compute.Scope, p Posterior, lo, hi int, at Points) (mean, variance []float64) {
	t.Helper()
	rest, err := p.(CrossValidator).LeaveOut(lo, hi)
	if err != nil {
		t.Fatal(err)
	}
	m, v := s.New(at.Features.Rows, 1), s.New(at.Features.Rows, 1)
	if err := rest.Predict(ActionValue, at, m, v); err != nil {
		t.Fatal(err)
	}
	return compute.ToSlice(s.Backend(), m), compute.ToSlice(s.Backend(), v)
}

// Without their targets the samples that are left out are predicted as if the process had
// been fitted to the others alone: at the ends, in the middle, and all but one.
func TestLeaveOutAgainstDenseTwin(t *testing.T) {
	x := newBatch(seeded(t, 23), 60, 2, 4)
	for name, k := range cases() {
		t.Run(name, func(t *testing.T) {
			twin := newPriorTwin(x, batch{}, k)
			onBackend(t, cpu.New(2), func(t *testing.T, s *compute.Scope) {
				p := fit(t, s, k, x.upload(s))
				for _, left := range [][2]int{{0, 7}, {20, 45}, {53, 60}, {0, 59}} {
					lo, hi := left[0], left[1]
					mean, variance := leaveOut(t, s, p, lo, hi, x.points(s))
					given := append(span(0, lo), span(hi, x.n)...)
					var targets []float64
					for _, i := range given {
						targets = append(targets, x.targets[i])
					}
					wantMean, wantVariance := twin.moments(ActionValue, given, span(lo, hi), targets, k.Noise)
					compareMoments(t, name, mean[lo:hi], variance[lo:hi], wantMean, wantVariance, 1e-6)
				}
			})
		})
	}
}

// Whatever stands for the state kernel, alpha and the moments are bound to each other:
// y - E[Q] = noise alpha and Var[Q_i] = noise - noise² k, with k for element i of K^-1's
// diagonal; and without sample i y_i - E[Q_i] = alpha_i/k and Var[Q_i] + noise = 1/k
// (Rasmussen and Williams 2006, 5.12).
func TestMomentsAgreeWithAlpha(t *testing.T) {
	x := newBatch(seeded(t, 27), 60, 2, 4)
	for name, k := range cases() {
		for _, inducing := range [][]int{nil, {3, 14, 15, 59}} {
			onBackend(t, cpu.New(2), func(t *testing.T, s *compute.Scope) {
				data := x.upload(s)
				p := fit(t, s, k, data, inducing...)
				alpha := compute.ToSlice(s.Backend(), p.Alpha())
				mean, variance := predict(t, s, p, ActionValue, data.Points())
				for i := range alpha {
					if got, want := x.targets[i]-mean[i], k.Noise*alpha[i]; math.Abs(got-want) > 1e-8 {
						t.Fatalf("%s, inducing points %v, sample %d: residual %g, want %g", name, inducing, i, got,
							want)
					}
				}
				for _, i := range []int{0, 15, 59} {
					left, spread := leaveOut(t, s, p, i, i+1, data.Points().rowRange(i, i+1))
					diagonal := (k.Noise - variance[i]) / (k.Noise * k.Noise)
					compareMoments(t, name, left, spread, []float64{x.targets[i] - alpha[i]/diagonal},
						[]float64{1/diagonal - k.Noise}, 1e-6)
				}
			})
		}
	}
}

// The rows that a decomposition gives for further scores are the Fisher kernel's: with all
// of U's rank, n V_*V' is U_*'G^-1 U.
func TestPredictAtFurtherScores(t *testing.T) {
	rng := seeded(t, 24)
	x, others, k := newBatch(rng, 40, 2, 5), newBatch(rng, 8, 2, 5), someKernel()
	u, further := random(rng, x.k, x.n), random(rng, x.k, others.n)
	var svd mat.SVD
	if !svd.Factorize(u, mat.SVDThin) {
		t.Fatal("no singular value decomposition")
	}
	var p, v, g, gInverse, fisher, whole mat.Dense
	svd.UTo(&p)
	svd.VTo(&v)
	g.Mul(u, u.T())
	g.Scale(1/float64(x.n), &g)
	if err := gInverse.Inverse(&g); err != nil {
		t.Fatal(err)
	}
	whole.Augment(u, further)
	fisher.Product(whole.T(), &gInverse, &whole)
	x.fisher = v.RawMatrix().Data
	others.fisher = make([]float64, others.n*others.k)
	twin := newPriorTwin(x, others, k)
	for i := range x.n + others.n {
		for j := i; j < x.n+others.n; j++ {
			state := twin[Value].At(i, j)
			twin[ActionValue].SetSym(i, j, state+k.C2*k.FisherVariance*fisher.At(i, j))
		}
	}
	wantMean, wantVariance := twin.moments(ActionValue, span(0, x.n), span(x.n, x.n+others.n), x.targets, k.Noise)
	backends(t, func(t *testing.T, s *compute.Scope) {
		b := s.Backend()
		decomposition := &linop.SVD{P: linop.NewDense(b, upload(s, &p)), S: svd.Values(nil), V: upload(s, &v)}
		at := others.points(s)
		at.Fisher = decomposition.Rows(s, linop.NewDense(b, upload(s, further)))
		mean, variance := predict(t, s, fit(t, s, k, x.upload(s)), ActionValue, at)
		compareMoments(t, "Q", mean, variance, wantMean, wantVariance, 1e-9)
	})
}

// random returns a matrix of normal numbers.
func random(rng *rand.Rand, rows, cols int) *mat.Dense {
	x := mat.NewDense(rows, cols, nil)
	x.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, x)
	return x
}

// An exact Fisher kernel leaves the value's moments, and says so of the others.
func TestPredictWithAnExactFisherKernel(t *testing.T) {
	rng := seeded(t, 25)
	x, k := newBatch(rng, 40, 2, 5), someKernel()
	u := random(rng, x.k, x.n)
	var svd mat.SVD
	if !svd.Factorize(u, mat.SVDThin) {
		t.Fatal("no singular value decomposition")
	}
	var v mat.Dense
	svd.VTo(&v)
	x.fisher = v.RawMatrix().Data
	onBackend(t, cpu.New(2), func(t *testing.T, s *compute.Scope) {
		b, data := s.Backend(), x.upload(s)
		want, wantSpread := predict(t, s, fit(t, s, k, data), Value, data.Points())
		scores := linop.NewDense(b, upload(s, u))
		exact, err := ExactFisher{}.Kernel(s, scores, linop.NewEmpiricalFisher(b, scores), 1e-12)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Iterative{FisherKernel: exact}.Fit(s, k, data)
		if err != nil {
			t.Fatal(err)
		}
		mean, spread := predict(t, s, p, Value, data.Points())
		compareMoments(t, "V", mean, spread, want, wantSpread, 1e-5)
		for _, part := range []Part{Advantage, ActionValue} {
			if err := p.(Predictor).Predict(part, data.Points(), s.New(x.n, 1), compute.Block{}); !errors.Is(err,
				ErrExactFisherKernel) {
				t.Errorf("%v: %v", part, err)
			}
		}
	})
}

func TestPredictPanicsOnShapes(t *testing.T) {
	x := newBatch(seeded(t, 26), 20, 2, 3)
	onBackend(t, cpu.New(2), func(t *testing.T, s *compute.Scope) {
		p := fit(t, s, someKernel(), x.upload(s))
		at, column := x.points(s), s.New(x.n, 1)
		for name, call := range map[string]func() error{
			"features": func() error {
				return p.(Predictor).Predict(Value, Points{Features: at.Fisher}, column, column)
			},
			"no Fisher vectors": func() error {
				return p.(Predictor).Predict(Advantage, Points{Features: at.Features}, column, column)
			},
			"mean":          func() error { return p.(Predictor).Predict(Value, at, column.RowRange(0, 3), column) },
			"variance":      func() error { return p.(Predictor).Predict(Value, at, column, column.RowRange(0, 3)) },
			"unknown part":  func() error { return p.(Predictor).Predict(3, at, column, column) },
			"empty range":   func() error { _, err := p.(CrossValidator).LeaveOut(5, 5); return err },
			"range too far": func() error { _, err := p.(CrossValidator).LeaveOut(1, 21); return err },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: no panic", name)
					}
				}()
				if err := call(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}()
		}
	})
}

// Supplying V'V does not change the results, neither of a fit nor of leaving out samples.
func TestFisherGramAtHand(t *testing.T) {
	x := newBatch(seeded(t, 44), 60, 1, 4)
	backends(t, func(t *testing.T, s *compute.Scope) {
		b, data := s.Backend(), x.upload(s)
		for _, name := range []string{"rbf", "matern12"} {
			k := withBase(someKernel(), name)
			numbers := func(solver Direct) []float64 {
				p, err := solver.Fit(s, k, data)
				if err != nil {
					t.Fatal(err)
				}
				rest, err := p.(CrossValidator).LeaveOut(5, 20)
				if err != nil {
					t.Fatal(err)
				}
				mean, variance := s.New(x.n, 1), s.New(x.n, 1)
				if err := rest.Predict(ActionValue, data.Points(), mean, variance); err != nil {
					t.Fatal(err)
				}
				return slices.Concat(compute.ToSlice(b, p.Alpha()), compute.ToSlice(b, mean),
					compute.ToSlice(b, variance))
			}
			want := numbers(Direct{})
			if got := numbers(Direct{FisherGram: FisherGram(b, data.Fisher)}); !slices.Equal(got, want) {
				t.Errorf("%s: other numbers with V'V given", name)
			}
		}
	})
}
