package linop

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// Eigenvalues over nine orders of magnitude, of a matrix of lower rank than asked for.
func TestNystromOfALowRank(t *testing.T) {
	values := make([]float64, 40)
	for i := range 10 {
		values[i] = math.Pow(10, 3-float64(i))
	}
	a, q := symmetricCase(values, rand.New(rand.NewPCG(1, 0)))
	onOpaque(t, func(t *testing.T, s *compute.Scope) {
		pairs, err := Nystrom(s, denseOperator(s, a), 15, rand.New(rand.NewPCG(2, 0)))
		if err != nil {
			t.Fatal(err)
		}
		if len(pairs.Values) < 10 {
			t.Fatalf("%d eigenvalues, want 10 at least", len(pairs.Values))
		}
		vectors := mat.NewDense(40, len(pairs.Values), compute.ToSlice(s.Backend(), pairs.Vectors))
		for j := range 10 {
			if e := math.Abs(pairs.Values[j] - values[j]); e > 1e-10*values[0] {
				t.Errorf("eigenvalue %d is %g, want %g", j, pairs.Values[j], values[j])
			}
			if cosine := math.Abs(mat.Dot(vectors.ColView(j), q.ColView(j))); cosine < 1-1e-4 {
				t.Errorf("eigenvector %d has cosine %g to the exact one", j, cosine)
			}
		}
	})
}

// The approximation stays below the matrix: A - its approximation is semidefinite.
func TestNystromIsBelow(t *testing.T) {
	values := make([]float64, 40)
	for i := range values {
		values[i] = 1 / float64(1+i)
	}
	a, _ := symmetricCase(values, rand.New(rand.NewPCG(3, 0)))
	onOpaque(t, func(t *testing.T, s *compute.Scope) {
		pairs, err := Nystrom(s, denseOperator(s, a), 8, rand.New(rand.NewPCG(4, 0)))
		if err != nil {
			t.Fatal(err)
		}
		vectors := mat.NewDense(40, 8, compute.ToSlice(s.Backend(), pairs.Vectors))
		var low, rest mat.Dense
		low.Product(vectors, mat.NewDiagDense(8, pairs.Values), vectors.T())
		rest.Sub(a, &low)
		symmetric := mat.NewSymDense(40, nil)
		for i := range 40 {
			for j := i; j < 40; j++ {
				symmetric.SetSym(i, j, (rest.At(i, j)+rest.At(j, i))/2)
			}
		}
		var eigen mat.EigenSym
		eigen.Factorize(symmetric, false)
		if least := eigen.Values(nil)[0]; least < -1e-12 {
			t.Errorf("what is left has an eigenvalue %g", least)
		}
	})
}

func TestNystromRefusals(t *testing.T) {
	indefinite, _ := symmetricCase([]float64{3, 2, 1, -1, -2, -3}, rand.New(rand.NewPCG(5, 0)))
	broken := mat.DenseCopyOf(indefinite)
	broken.Set(1, 1, math.NaN())
	onOpaque(t, func(t *testing.T, s *compute.Scope) {
		var notPositive *NotPositiveError
		if _, err := Nystrom(s, denseOperator(s, indefinite), 6, rand.New(rand.NewPCG(6, 0))); !errors.As(err,
			&notPositive) {
			t.Errorf("an indefinite matrix gives %v", err)
		}
		var notFinite *NotFiniteError
		if _, err := Nystrom(s, denseOperator(s, broken), 6, rand.New(rand.NewPCG(6, 0))); !errors.As(err, &notFinite) {
			t.Errorf("a matrix with NaN gives %v", err)
		}
	})
}

// A matrix of zeros has no eigenvalue above rounding errors.
func TestNystromOfZero(t *testing.T) {
	onOpaque(t, func(t *testing.T, s *compute.Scope) {
		pairs, err := Nystrom(s, NewScaledIdentity(s.Backend(), 12, 0), 5, rand.New(rand.NewPCG(3, 0)))
		if err != nil || len(pairs.Values) != 0 || pairs.Vectors.Rows != 12 || pairs.Vectors.Cols != 0 {
			t.Errorf("%+v, %v", pairs, err)
		}
	})
}
