package estimators_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// linopDense returns a stored matrix as an operator.
func linopDense(s *compute.Scope, a *mat.Dense) linop.Operator {
	return linop.NewDense(s.Backend(), upload(s, a))
}

// columns applies f to each unit vector of the parameters and gives the results as
// the columns of a matrix.
func (x solved) columns(f func(e compute.Block)) *mat.Dense {
	all := mat.NewDense(x.p, x.p, nil)
	for j := range x.p {
		unit := make([]float64, x.p)
		unit[j] = 1
		e := x.scope.FromSlice(x.p, 1, unit)
		f(e)
		all.SetCol(j, compute.ToSlice(x.b, e))
	}
	return all
}

// compareEigenpairs compares values, and the projections that distinct vectors span.
func compareEigenpairs(t *testing.T, name string, b compute.Backend, got *estimators.Eigenpairs, values []float64,
	vectors *mat.Dense, tolerance float64) {
	t.Helper()
	wantNear(t, name+": values", mat.NewVecDense(len(got.Values), got.Values), mat.NewVecDense(len(values), values),
		tolerance)
	s := compute.NewScope(b)
	defer s.Release()
	gotVectors := download(b, linop.MulOut(s, got.Vectors))
	for j := range values {
		if cosine := math.Abs(mat.Dot(gotVectors.ColView(j), vectors.ColView(j))); cosine < 1-tolerance {
			t.Errorf("%s: eigenvector %d has cosine %g to the exact one", name, j, cosine)
		}
	}
}

// The covariance over kappa, G - kappa U K^-1 U' (eq:GP_grad), multiplied out: the operator,
// and its leading eigenpairs by both ways, for the empirical Fisher matrix and for another.
func TestCovarianceOfTheGradient(t *testing.T) {
	const damping = 1e-9
	for _, seed := range []uint64{24, 25} { // of Fisher variances 0.3 and 3
		x := newProblem(t, seed, 7, 30)
		other := mat.NewDense(x.p, x.p, nil)
		for i := range x.p {
			other.Set(i, i, 1+1/float64(i+1))
		}
		for name, g := range map[string]*mat.Dense{"empirical": x.fisherMatrix(), "another": other} {
			t.Run(fmt.Sprintf("%s, seed %d", name, seed), func(t *testing.T) {
				want := x.sandwich(g, -x.kappa(), inverse(x.fullKernel()))
				values, vectors := leading(want, x.p)
				backends(t, func(t *testing.T, s *compute.Scope) {
					x := x.solve(t, s, x.rank())
					fisher := x.given(g, damping)
					if g != other {
						fisher = x.empirical(damping)
					}
					covariance := x.covariance(t, fisher)
					wantNear(t, "covariance", dense(s, covariance), want, 1e-6)
					d := mat.NewVecDense(x.p, nil)
					for i := range x.p {
						d.SetVec(i, float64(i%3)-0.7)
					}
					variance, err := x.estimate(t, fisher).Variance(s, s.FromSlice(x.p, 1, d.RawVector().Data))
					if err != nil {
						t.Fatal(err)
					}
					wantNear(t, "variance", mat.NewVecDense(1, []float64{variance}),
						mat.NewVecDense(1, []float64{x.kappa() * mat.Inner(d, want, d)}), 1e-6)
					compareEigenpairs(t, "projected", x.b, x.pairs(t, estimators.Projected, covariance), values,
						vectors, 1e-4)
					randomized := estimators.Randomized(x.p, 3, rand.New(rand.NewPCG(5, 0)))
					compareEigenpairs(t, "randomized", x.b, x.pairs(t, randomized, covariance), values, vectors, 1e-4)
				})
			})
		}
	}
}

// With the empirical Fisher matrix no eigenvalue of C is below the damping, whatever the
// kernel claims: nothing is raised. These are the smallest noise and variances, where the
// weight c2 in kappa's place gave negative ones.
func TestEmpiricalCovarianceIsPositiveDefinite(t *testing.T) {
	const damping = 1e-3
	for _, variance := range []float64{0.01, 0.3, 1, 3} {
		x := newProblem(t, 20, 7, 30)
		x.kernel.FisherVariance, x.kernel.Noise, x.kernel.C1 = variance, 1e-4, 1e-3
		backends(t, func(t *testing.T, s *compute.Scope) {
			for _, rank := range []int{3, x.rank()} {
				x := x.solve(t, s, rank)
				covariance := x.covariance(t, x.empirical(damping))
				exact, _ := leading(dense(s, covariance), x.p)
				if least := exact[x.p-1]; least < damping*(1-1e-9) {
					t.Errorf("variance %g, rank %d: an eigenvalue is %g, below the damping", variance, rank, least)
				}
				pairs := x.pairs(t, estimators.Projected, covariance)
				for j, value := range pairs.Values {
					if math.Abs(value-exact[j]) > 1e-9*exact[0] {
						t.Errorf("variance %g, rank %d: eigenvalue %d is %g, multiplied out %g", variance, rank, j,
							value, exact[j])
					}
				}
			}
		})
	}
}

// Any other Fisher matrix may be smaller than UU'/n along a direction, and C indefinite: there
// its eigenvalues count as the damping.
func TestOtherCovarianceIsBounded(t *testing.T) {
	x := newProblem(t, 26, 7, 30)
	const damping = 1e-3
	small := mat.DenseCopyOf(x.fisherMatrix())
	small.Scale(0.5, small)
	x.kernel.Noise, x.kernel.C1 = 1e-4, 1e-3
	backends(t, func(t *testing.T, s *compute.Scope) {
		x := x.solve(t, s, x.rank())
		fisher := x.given(small, damping)
		covariance := x.covariance(t, fisher)
		if exact, _ := leading(dense(s, covariance), x.p); exact[x.p-1] >= 0 {
			t.Fatalf("the smallest eigenvalue is %g, so this test shows nothing", exact[x.p-1])
		}
		pairs := x.pairs(t, estimators.Projected, covariance)
		if least := pairs.Values[len(pairs.Values)-1]; least != damping {
			t.Errorf("the smallest eigenvalue is %g, want the damping %g", least, damping)
		}
		g := x.dbqpg(t)
		before := mat.Norm(download(x.b, g), 2)
		x.correction(t, estimators.UAPG{Decompose: estimators.Projected}, fisher)(g)
		if after := mat.Norm(download(x.b, g), 2); !(after > 0 && after <= before) {
			t.Errorf("the correction takes a gradient of norm %g to %g", before, after)
		}
	})
}

// A Krylov space that closes early gives a smaller basis, not noise: here A is the
// identity plus a matrix of rank 2.
func TestRandomizedInASmallKrylovSpace(t *testing.T) {
	x := newProblem(t, 21, 30, 40)
	backends(t, func(t *testing.T, s *compute.Scope) {
		x := x.solve(t, s, 2)
		covariance := x.covariance(t, x.empirical(0.1))
		values, vectors := leading(dense(s, covariance), 2)
		pairs := x.pairs(t, estimators.Randomized(2, 5, rand.New(rand.NewPCG(2, 0))), covariance)
		compareEigenpairs(t, "rank 2", x.b, pairs, values, vectors, 1e-9)
	})
}

// The same seed gives the same bits, another seed another sketch.
func TestRandomizedRepeats(t *testing.T) {
	x := newProblem(t, 22, 30, 40)
	backends(t, func(t *testing.T, s *compute.Scope) {
		x := x.solve(t, s, 6)
		covariance := x.covariance(t, x.given(x.fisherMatrix(), 0.1))
		run := func(seed uint64) float64 {
			pairs := x.pairs(t, estimators.Randomized(6, 1, rand.New(rand.NewPCG(seed, 0))), covariance)
			return pairs.Values[5]
		}
		if a, b, c := run(3), run(3), run(4); a != b || a == c {
			t.Errorf("seeds 3, 3, 4 give %g, %g, %g", a, b, c)
		}
	})
}

func TestNonFiniteUncertainty(t *testing.T) {
	x := newProblem(t, 23, 7, 12)
	backends(t, func(t *testing.T, s *compute.Scope) {
		x := x.solve(t, s, 3)
		x.svd.S[1] = math.NaN()
		covariance := x.covariance(t, x.empirical(0.1))
		var e *linop.NotFiniteError
		if _, err := estimators.Projected(s, covariance); !errors.As(err, &e) {
			t.Errorf("a NaN singular value gives %v", err)
		}
	})
}

// FisherUAPG against G multiplied out, in the span of a truncated decomposition: each eigenvector of P'GP becomes
// min(sqrt(nu/nu_delta), epsilon) times as long, whatever the damping, and nothing else changes. Monte Carlo has the
// same.
func TestFisherUAPGAgainstDense(t *testing.T) {
	const rank, damping, epsilon = 6, 0.1, 1.7
	x, y := newProblem(t, 34, 30, 40), newProblem(t, 35, 30, 40)
	p, _, _ := x.decompose(rank)
	c := estimators.FisherUAPG{Epsilon: epsilon, Decompose: estimators.Projected}
	for name, g := range map[string]*mat.Dense{"empirical": x.fisherMatrix(), "another": y.fisherMatrix()} {
		var small, vectors mat.Dense
		small.Product(p.T(), g, p)
		values, inSpan := leading(&small, rank)
		vectors.Mul(p, inSpan)
		want := plusDiagonal(mat.NewDense(x.p, x.p, nil), 1)
		for j, nu := range values {
			h := vectors.ColView(j)
			var along mat.Dense
			along.Outer(min(math.Sqrt(nu/values[rank-1]), epsilon)-1, h, h)
			want.Add(want, &along)
		}
		backends(t, func(t *testing.T, s *compute.Scope) {
			x := x.solve(t, s, rank)
			fisher := x.given(g, damping)
			if name == "empirical" {
				fisher = x.empirical(damping)
			}
			wantNear(t, name, x.columns(x.correction(t, c, fisher)), want, 1e-9)
			x.batch.Fisher = fisher
			e, err := estimators.MonteCarlo{Correction: c}.Estimate(s, &x.batch)
			if err != nil {
				t.Fatal(err)
			}
			wantNear(t, name+", Monte Carlo", x.columns(e.Correct), want, 1e-9)
		})
	}
}

// Without the state kernel the precision is (1 + kappa n/sigma²) G: UAPG's correction is FisherUAPG's, and G^1/2 up
// to a factor.
func TestUAPGIsFisherUAPGWithoutTheStateKernel(t *testing.T) {
	x := newProblem(t, 36, 7, 30)
	x.kernel.C1 = 0
	backends(t, func(t *testing.T, s *compute.Scope) {
		x := x.solve(t, s, x.rank())
		fisher := x.empirical(noDamping)
		uapg := estimators.NaturalUAPG{Epsilon: math.Inf(1), Decompose: estimators.Projected}
		a := x.columns(x.correction(t, estimators.FisherUAPG(uapg), fisher))
		wantNear(t, "correction", a, x.columns(x.correction(t, uapg, fisher)), 1e-9)
		values, _ := leading(x.fisherMatrix(), x.p)
		var square mat.Dense
		square.Mul(a, a)
		square.Scale(values[x.p-1], &square)
		wantNear(t, "its square", &square, x.fisherMatrix(), 1e-9)
	})
}
