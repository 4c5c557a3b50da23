package linop

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/computetest"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
)

// symmetricCase returns Q diag(values) Q' with a random orthogonal Q.
func symmetricCase(values []float64, rng *rand.Rand) (a, q *mat.Dense) {
	n := len(values)
	x := mat.NewDense(n, n, nil)
	x.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, x)
	var qr mat.QR
	qr.Factorize(x)
	q, a = new(mat.Dense), new(mat.Dense)
	qr.QTo(q)
	a.Product(q, mat.NewDiagDense(n, values), q.T())
	return a, q
}

// onOpaque runs f on each backend behind memory that the host cannot read, and fails
// where f leaves a block unreleased.
func onOpaque(t *testing.T, f func(t *testing.T, s *compute.Scope)) {
	for _, b := range []compute.Backend{computetest.Naive(), cpu.New(0)} {
		t.Run(b.Name(), func(t *testing.T) {
			opaque := computetest.Opaque(b)
			s := compute.NewScope(opaque)
			f(t, s)
			s.Release()
			if n := opaque.Live(); n != 0 {
				t.Errorf("%d blocks were not released", n)
			}
		})
	}
}

// denseOperator uploads a matrix.
func denseOperator(s *compute.Scope, a *mat.Dense) Operator {
	rows, cols := a.Dims()
	return NewDense(s.Backend(), s.FromSlice(rows, cols, mat.DenseCopyOf(a).RawMatrix().Data))
}

func TestRandomizedEigenConverges(t *testing.T) {
	values := make([]float64, 40)
	for i := range values {
		values[i] = math.Pow(0.8, float64(i))
	}
	a, q := symmetricCase(values, rand.New(rand.NewPCG(1, 0)))
	const rank = 5
	onOpaque(t, func(t *testing.T, s *compute.Scope) {
		operator := denseOperator(s, a)
		worst := math.Inf(1)
		for depth, tolerance := range map[int]float64{1: 0.3, 4: 1e-6} {
			pairs, err := RandomizedEigen(s, operator, rank, depth, rand.New(rand.NewPCG(2, 0)))
			if err != nil {
				t.Fatal(err)
			}
			vectors := mat.NewDense(40, rank, compute.ToSlice(s.Backend(), pairs.Vectors))
			for j, value := range pairs.Values {
				// Ritz values approach from below.
				if e := 1 - value/values[j]; e < -1e-12 || e > tolerance {
					t.Errorf("depth %d: eigenvalue %d is %g, exactly %g", depth, j, value, values[j])
				}
				if depth == 4 {
					worst = min(worst, math.Abs(mat.Dot(vectors.ColView(j), q.ColView(j))))
				}
			}
		}
		if worst < 1-1e-6 {
			t.Errorf("the worst cosine between an eigenvector and the exact one is %g", worst)
		}
	})
}

// A matrix of two eigenvalues closes the Krylov space at once: the basis must end
// there, not go on with normalised rounding error.
func TestKrylovSpaceCloses(t *testing.T) {
	a, _ := symmetricCase([]float64{3, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1}, rand.New(rand.NewPCG(3, 0)))
	onOpaque(t, func(t *testing.T, s *compute.Scope) {
		rng := rand.New(rand.NewPCG(4, 0))
		q, err := krylov(s, denseOperator(s, a), s.FromSlice(12, 4, randomSigns(48, rng)), 6)
		if err != nil {
			t.Fatal(err)
		}
		if q.Cols > 8 {
			t.Errorf("a space of 8 dimensions has a basis of %d", q.Cols)
		}
		basis := mat.NewDense(12, q.Cols, compute.ToSlice(s.Backend(), q))
		var gram mat.Dense
		gram.Mul(basis.T(), basis)
		gram.Apply(func(i, j int, v float64) float64 {
			if i == j {
				return v - 1
			}
			return v
		}, &gram)
		if e := mat.Norm(&gram, 2); e > 1e-12 {
			t.Errorf("the basis is orthonormal to %g only", e)
		}
	})
}

func TestRandomizedEigenOfALowRank(t *testing.T) {
	a, _ := symmetricCase([]float64{2, 1, 0, 0, 0, 0, 0, 0}, rand.New(rand.NewPCG(5, 0)))
	onOpaque(t, func(t *testing.T, s *compute.Scope) {
		pairs, err := RandomizedEigen(s, denseOperator(s, a), 5, 2, rand.New(rand.NewPCG(6, 0)))
		if err != nil {
			t.Fatal(err)
		}
		if len(pairs.Values) != 2 || math.Abs(pairs.Values[0]-2) > 1e-12 || math.Abs(pairs.Values[1]-1) > 1e-12 {
			t.Errorf("eigenvalues %v, want 2 and 1", pairs.Values)
		}
	})
}

func TestRandomizedEigenOfNaN(t *testing.T) {
	a := mat.NewDense(6, 6, nil)
	a.Set(2, 3, math.NaN())
	onOpaque(t, func(t *testing.T, s *compute.Scope) {
		var e *NotFiniteError
		if _, err := RandomizedEigen(s, denseOperator(s, a), 2, 1, rand.New(rand.NewPCG(7, 0))); !errors.As(err, &e) {
			t.Errorf("a matrix with NaN gives %v", err)
		}
	})
}
