package gp

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/computetest"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/estimators/linop/linoptest"
)

// scored is a batch with scores U = P S V', p × n, whose singular values fall.
type scored struct {
	batch
	u       *mat.Dense
	s       []float64
	v       *mat.Dense // n × p
	damping float64
}

func newScored(rng *rand.Rand, n, p int, damping float64) scored {
	x := scored{batch: newBatch(rng, n, 2, 1), u: newScores(rng, p, n), damping: damping}
	var svd mat.SVD
	if !svd.Factorize(x.u, mat.SVDThin) {
		panic("no singular value decomposition")
	}
	x.s, x.v = svd.Values(nil), new(mat.Dense)
	svd.VTo(x.v)
	return x
}

// newScores draws p × n scores of which each parameter's have half the variance of
// those of the parameter before.
func newScores(rng *rand.Rand, p, n int) *mat.Dense {
	u := mat.NewDense(p, n, linoptest.Normal(rng, p*n))
	u.Apply(func(i, _ int, v float64) float64 { return 2 * v * math.Pow(2, -float64(i)/2) }, u)
	return u
}

// leading returns the batch with k columns of V diag(S/(S² + n damping)^1/2): the leading
// part of the damped kernel, and with k = p all of it.
func (x scored) leading(s *compute.Scope, k int) Data {
	x.k, x.fisher = k, make([]float64, x.n*k)
	for i := range x.n {
		for j := range k {
			x.fisher[i*k+j] = x.v.At(i, j) * x.s[j] / math.Sqrt(x.s[j]*x.s[j]+float64(x.n)*x.damping)
		}
	}
	return x.upload(s)
}

// kernel returns K_f with the empirical Fisher matrix, preconditioned with three of its
// eigenvectors.
func (x scored) kernel(s *compute.Scope, method linop.CG) *FisherKernel {
	return newFisherKernel(s, x.u, x.damping, method)
}

func newFisherKernel(s *compute.Scope, scores *mat.Dense, damping float64, method linop.CG) *FisherKernel {
	b := s.Backend()
	u := linop.NewDense(b, upload(s, scores))
	k, err := ExactFisher{CG: method, Rank: 3}.Kernel(s, u, linop.NewEmpiricalFisher(b, u), damping)
	if err != nil {
		panic(err)
	}
	return k
}

// operator is a matrix whose products do not fail in a test.
type operator struct {
	n        int
	multiply linop.Multiply
}

func (a operator) Dims() (rows, cols int) { return a.n, a.n }

func (a operator) MulTo(dst, x compute.Block, _ bool) {
	if x.Rows != a.n || dst.Rows != a.n || x.Cols != dst.Cols {
		panic("shapes")
	}
	if err := a.multiply(dst, x); err != nil {
		panic(err)
	}
}

func TestFisherKernelAgainstDenseTwin(t *testing.T) {
	const p, damping = 9, 0.1
	linoptest.Test(t, linoptest.Case{
		Build: func(s *compute.Scope, rng *rand.Rand, n int) linop.Operator {
			return operator{n, newFisherKernel(s, newScores(rng, p, n), damping, linop.CG{}).Multiply}
		},
		Dense: func(rng *rand.Rand, n int) *mat.Dense {
			u := newScores(rng, p, n)
			var g, inverse, k mat.Dense
			g.Mul(u, u.T())
			g.Scale(1/float64(n), &g)
			for i := range p {
				g.Set(i, i, g.At(i, i)+damping)
			}
			if err := inverse.Inverse(&g); err != nil {
				panic(err)
			}
			k.Product(u.T(), &inverse, u)
			return &k
		},
		Tolerance: 1e-8,
	})
}

// The exact kernel against the closed form, which can have it where all singular
// vectors are few: every answer of a posterior, from a preconditioner that knows three.
func TestExactFisherKernel(t *testing.T) {
	x := newScored(seeded(t, 21), 60, 12, 0.1)
	for _, noise := range []float64{0.2, 1e-4} {
		k := someKernel()
		k.Noise = noise
		onBackend(t, cpu.New(2), func(t *testing.T, s *compute.Scope) {
			direct := fit(t, s, k, x.leading(s, 12))
			exact, err := Iterative{FisherKernel: x.kernel(s, linop.CG{}), CG: linop.CG{Tolerance: 1e-14},
				LogDet: linop.LogDet{Probes: 40}}.Fit(s, k, x.leading(s, 3))
			if err != nil {
				t.Fatal(err)
			}
			wantNear(t, "alpha", compute.ToSlice(s.Backend(), exact.Alpha()),
				compute.ToSlice(s.Backend(), direct.Alpha()), 1e-5)
			value, err := exact.LogLikelihood()
			if err != nil {
				t.Fatal(err)
			}
			if want := likelihood(t, direct); !(math.Abs(value.Value-want) <= 4*value.StdErr) || !(value.StdErr < 0.1) {
				t.Errorf("log likelihood %g ± %g, want %g", value.Value, value.StdErr, want)
			}
			unit := upload(s, identity(x.n))
			got, want := s.New(x.n, x.d), s.New(x.n, x.d)
			hyper, err := exact.(*iterativePosterior).gradient(got, unit, unit)
			if err != nil {
				t.Fatal(err)
			}
			wantHyper, err := direct.Gradient(want)
			if err != nil {
				t.Fatal(err)
			}
			compareHyper(t, hyper, wantHyper, 1e-4)
			wantNear(t, "features", compute.ToSlice(s.Backend(), got), compute.ToSlice(s.Backend(), want), 1e-4)

			if exact, err = (Iterative{FisherKernel: x.kernel(s, linop.CG{})}).Fit(s, k, x.leading(s, 12)); err != nil {
				t.Fatal(err)
			}
			compareCores(t, exact, direct)
		})
	}
}

func identity(n int) *mat.Dense {
	one := mat.NewDense(n, n, nil)
	for i := range n {
		one.Set(i, i, 1)
	}
	return one
}

// "in practice, we avoid the computational overhead of a full-rank SVD by using a
// truncated one" (sec:appendix_Fisher_mvm): both ways agree as the rank grows, and with
// no damping to speak of in all of it.
func TestBothWaysAgreeAsTheRankGrows(t *testing.T) {
	x := newScored(seeded(t, 22), 80, 16, 1e-9)
	onBackend(t, cpu.New(2), func(t *testing.T, s *compute.Scope) {
		exact, err := Iterative{FisherKernel: x.kernel(s, linop.CG{}), CG: linop.CG{Tolerance: 1e-14}}.Fit(s,
			someKernel(), x.leading(s, 4))
		if err != nil {
			t.Fatal(err)
		}
		want := compute.ToSlice(s.Backend(), exact.Alpha())
		last := math.Inf(1)
		for _, rank := range []int{1, 4, 8, 12, 16} {
			e := relative(compute.ToSlice(s.Backend(), fit(t, s, someKernel(), x.leading(s, rank)).Alpha()), want)
			t.Logf("rank %d: relative error %.2g", rank, e)
			if !(e < last) {
				t.Errorf("rank %d has error %g, a smaller one %g", rank, e, last)
			}
			last = e
		}
		if last > 1e-5 {
			t.Errorf("the error at full rank is %g", last)
		}
	})
}

// What inner solutions to a tolerance cost: a product's error is at most
// n (kappa^1/2 / 2) times it, with kappa the condition number of G, and the residual of
// K alpha = y that is left is no smaller than the inner errors, whatever conjugate
// gradients believe that they have reached.
func TestInnerToleranceBoundsTheOuter(t *testing.T) {
	x := newScored(seeded(t, 23), 60, 12, 1e-2)
	k := someKernel()
	n := float64(x.n)
	kappa := (x.s[0]*x.s[0]/n + x.damping) / (x.s[len(x.s)-1]*x.s[len(x.s)-1]/n + x.damping)
	onBackend(t, computetest.Naive(), func(t *testing.T, s *compute.Scope) {
		b := s.Backend()
		full := fit(t, s, k, x.leading(s, 12)).(*directPosterior)
		reference := linop.NewLowRank(b, n, full.data.Fisher)
		y := full.data.Targets
		exact, product := linop.Mul(s, reference, y, false), s.New(x.n, 1)
		var residuals []float64
		for _, inner := range []float64{1e-6, 1e-10, 1e-14} {
			kernel := x.kernel(s, linop.CG{Tolerance: inner * inner})
			if err := kernel.Multiply(product, y); err != nil {
				t.Fatal(err)
			}
			compute.Axpy(b, -1, exact, product)
			if e, most := norm(b, product)/norm(b, y), inner*n*math.Sqrt(kappa)/2; !(e <= most) {
				t.Errorf("inner tolerance %g: a product's error is %g, more than %g", inner, e, most)
			}
			p, err := Iterative{FisherKernel: kernel, CG: linop.CG{Tolerance: 1e-20}}.Fit(s, k, x.leading(s, 3))
			if err != nil {
				t.Fatal(err)
			}
			truth := linop.NewSum(b, p.(*iterativePosterior).state,
				linop.NewLowRank(b, k.fisherScale(x.n), full.data.Fisher), linop.NewScaledIdentity(b, x.n, k.Noise))
			truth.MulTo(product, p.Alpha(), false)
			compute.Axpy(b, -1, y, product)
			residuals = append(residuals, norm(b, product)/norm(b, y))
		}
		t.Logf("condition %.3g, true residuals %.2g", kappa, residuals)
		if !(residuals[0] > 1e-9 && residuals[1] < residuals[0]/100 && residuals[2] < 1e-9) {
			t.Errorf("the true residuals are %g, of which conjugate gradients believe 1e-10", residuals)
		}
	})
}

func norm(b compute.Backend, x compute.Block) float64 { return math.Sqrt(b.Dot(x, x)) }

// Where G^-1 fails, all that was asked for fails with its error, in whatever order.
func TestFisherKernelSaysWhatFailed(t *testing.T) {
	x := newScored(seeded(t, 24), 40, 8, 1e-3)
	onBackend(t, computetest.Naive(), func(t *testing.T, s *compute.Scope) {
		data := x.leading(s, 3)
		wantFailure := func(what string, err error) {
			t.Helper()
			var e *linop.NotConvergedError
			if !errors.As(err, &e) || e.Iterations != 2 || !strings.Contains(err.Error(), "Fisher kernel") {
				t.Errorf("%s of products that fail after two iterations with G: %v", what, err)
			}
		}
		_, err := Iterative{FisherKernel: x.kernel(s, linop.CG{MaxIterations: 2})}.Fit(s, someKernel(), data)
		wantFailure("a fit", err)

		fitted, err := Iterative{FisherKernel: x.kernel(s, linop.CG{})}.Fit(s, someKernel(), data)
		if err != nil {
			t.Fatal(err)
		}
		p := fitted.(*iterativePosterior)
		p.solver.FisherKernel = x.kernel(s, linop.CG{MaxIterations: 2})
		for range 2 {
			_, err := p.Gradient(s.New(x.n, x.d))
			wantFailure("the gradient", err)
			_, err = p.LogLikelihood()
			wantFailure("the log likelihood", err)
		}
	})
}

// A determinant that cannot be estimated is reported by the likelihood, whether it is asked
// for before the gradient, which needs none, or after it.
func TestFailedDeterminant(t *testing.T) {
	x := newBatch(seeded(t, 25), 40, 2, 3)
	onBackend(t, computetest.Naive(), func(t *testing.T, s *compute.Scope) {
		for _, gradientFirst := range []bool{false, true} {
			fitted, err := Iterative{}.Fit(s, someKernel(), x.upload(s))
			if err != nil {
				t.Fatal(err)
			}
			if gradientFirst {
				if _, err := fitted.Gradient(compute.Block{}); err != nil {
					t.Fatal(err)
				}
			}
			fitted.(*iterativePosterior).noise = linop.NewScaledIdentity(s.Backend(), x.n, -100)
			var e *linop.NotPositiveError
			if value, err := fitted.LogLikelihood(); !errors.As(err, &e) {
				t.Errorf("gradient first %t: log likelihood %v, error %v, want a *linop.NotPositiveError",
					gradientFirst, value, err)
			}
		}
	})
}
