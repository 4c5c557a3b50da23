package estimators_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// linopDense is a stored matrix as an operator.
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
func compareEigenpairs(t *testing.T, name string, b compute.Backend, got *estimators.Eigenpairs, values []float64, vectors *mat.Dense, tolerance float64) {
	t.Helper()
	wantNear(t, name+": values", mat.NewVecDense(len(got.Values), got.Values), mat.NewVecDense(len(values), values), tolerance)
	s := compute.NewScope(b)
	defer s.Release()
	gotVectors := download(b, linop.MulOut(s, got.Vectors))
	for j := range values {
		if cosine := math.Abs(mat.Dot(gotVectors.ColView(j), vectors.ColView(j))); cosine < 1-tolerance {
			t.Errorf("%s: eigenvector %d has cosine %g to the exact one", name, j, cosine)
		}
	}
}

// The covariance in the gradient's units, c2 G - c2² U K^-1 U' (eq:GP_grad), multiplied out:
// the operator, its leading eigenpairs by both ways, and its trace, for the empirical Fisher
// matrix and for another.
func TestCovarianceOfTheGradient(t *testing.T) {
	x := newProblem(t, 24, 7, 30)
	const damping = 1e-9
	other := mat.NewDense(x.p, x.p, nil)
	for i := range x.p {
		other.Set(i, i, 1+1/float64(i+1))
	}
	for name, g := range map[string]*mat.Dense{"empirical": nil, "another": other} {
		t.Run(name, func(t *testing.T) {
			matrix := g
			if g == nil {
				matrix = x.fisherMatrix()
			}
			var want mat.Dense
			want.Scale(x.kernel.C2, x.sandwich(matrix, -x.kernel.C2, inverse(x.fullKernel())))
			values, vectors := leading(&want, x.p)
			backends(t, func(t *testing.T, s *compute.Scope) {
				x := x.solve(t, s, x.rank())
				fisher := estimators.Fisher{Damping: damping}
				if g != nil {
					fisher.Matrix = linopDense(s, g)
				}
				covariance, err := estimators.Covariance(x.b, fisher, x.svd, x.kernel.C2, x.posterior)
				if err != nil {
					t.Fatal(err)
				}
				covariance = covariance.Scaled(x.kernel.C2)
				wantNear(t, "covariance", dense(s, covariance), &want, 1e-6)
				projected, err := covariance.Projected(s)
				if err != nil {
					t.Fatal(err)
				}
				compareEigenpairs(t, "projected", x.b, projected, values, vectors, 1e-4)
				randomized, err := covariance.Randomized(s, x.p, 3, rand.New(rand.NewPCG(5, 0)))
				if err != nil {
					t.Fatal(err)
				}
				compareEigenpairs(t, "randomized", x.b, randomized, values, vectors, 1e-4)
				trace := covariance.Trace(5, rand.New(rand.NewPCG(6, 0)))
				if math.Abs(trace.Value/mat.Trace(&want)-1) > 1e-5 || trace.StdErr > 1e-12 {
					t.Errorf("trace %g with standard error %g, want %g", trace.Value, trace.StdErr, mat.Trace(&want))
				}
			})
		})
	}
}

// Beyond the span of P the trace is estimated, and says how well.
func TestTraceBeyondTheDecomposition(t *testing.T) {
	x := newProblem(t, 25, 30, 40)
	g := x.fisherMatrix()
	backends(t, func(t *testing.T, s *compute.Scope) {
		x := x.solve(t, s, 3)
		covariance, err := estimators.Covariance(x.b, estimators.Fisher{Matrix: linopDense(s, g), Damping: 0.1}, x.svd, x.kernel.C2, x.posterior)
		if err != nil {
			t.Fatal(err)
		}
		want := mat.Trace(dense(s, covariance))
		got := covariance.Trace(50, rand.New(rand.NewPCG(7, 0)))
		if !(got.StdErr > 0 && math.Abs(got.Value-want) < 4*got.StdErr) {
			t.Errorf("trace %g with standard error %g, want %g", got.Value, got.StdErr, want)
		}
	})
}

// Where the learned Fisher variance claims more certainty than G allows, C has
// negative eigenvalues in the span of P; they count as the damping.
func TestEigenvaluesAreAtLeastTheDamping(t *testing.T) {
	x := newProblem(t, 20, 7, 30)
	x.kernel.FisherVariance, x.kernel.Noise, x.kernel.C1 = 0.3, 1e-4, 1e-3
	const damping = 1e-3
	backends(t, func(t *testing.T, s *compute.Scope) {
		x := x.solve(t, s, x.rank())
		covariance, err := estimators.Covariance(x.b, estimators.Fisher{Damping: damping}, x.svd, x.kernel.C2, x.posterior)
		if err != nil {
			t.Fatal(err)
		}
		if exact, _ := leading(dense(s, covariance), x.p); exact[x.p-1] >= 0 {
			t.Fatalf("the smallest eigenvalue is %g, so this test shows nothing", exact[x.p-1])
		}
		pairs, err := covariance.Projected(s)
		if err != nil {
			t.Fatal(err)
		}
		if least := pairs.Values[len(pairs.Values)-1]; least != damping {
			t.Errorf("the smallest eigenvalue is %g, want the damping %g", least, damping)
		}
		g := x.dbqpg()
		before := mat.Norm(download(x.b, g), 2)
		pairs.Vanilla(x.b, g)
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
		covariance, err := estimators.Covariance(x.b, estimators.Fisher{Damping: 0.1}, x.svd, x.kernel.C2, x.posterior)
		if err != nil {
			t.Fatal(err)
		}
		values, vectors := leading(dense(s, covariance), 2)
		pairs, err := covariance.Randomized(s, 2, 5, rand.New(rand.NewPCG(2, 0)))
		if err != nil {
			t.Fatal(err)
		}
		compareEigenpairs(t, "rank 2", x.b, pairs, values, vectors, 1e-9)
	})
}

// The same seed gives the same bits, another seed another sketch.
func TestRandomizedRepeats(t *testing.T) {
	x := newProblem(t, 22, 30, 40)
	backends(t, func(t *testing.T, s *compute.Scope) {
		x := x.solve(t, s, 6)
		covariance, err := estimators.Covariance(x.b, estimators.Fisher{Matrix: linopDense(s, x.fisherMatrix()), Damping: 0.1}, x.svd, x.kernel.C2, x.posterior)
		if err != nil {
			t.Fatal(err)
		}
		run := func(seed uint64) float64 {
			pairs, err := covariance.Randomized(s, 6, 1, rand.New(rand.NewPCG(seed, 0)))
			if err != nil {
				t.Fatal(err)
			}
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
		covariance, err := estimators.Covariance(x.b, estimators.Fisher{Damping: 0.1}, x.svd, x.kernel.C2, x.posterior)
		if err != nil {
			t.Fatal(err)
		}
		var e *linop.NotFiniteError
		if _, err := covariance.Projected(s); !errors.As(err, &e) {
			t.Errorf("a NaN singular value gives %v", err)
		}
	})
}
