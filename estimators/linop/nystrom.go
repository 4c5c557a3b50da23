package linop

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// nystromFloor is the eigenvalue, relative to the largest, below which Nystrom's are
// rounding error.
const nystromFloor = 1e-10

// Nystrom returns leading eigenpairs of the symmetric positive semidefinite operator a
// (n × n), those of its randomised Nyström approximation of the given rank,
//
//	A Q (Q'A Q)^-1 (A Q)'
//
// with a random orthonormal n × rank matrix Q, or fewer where A has no more
// (Frangella, Tropp and Udell 2021, algorithm 2.1). It takes one product of rank
// columns, and resolves eigenvalues over ten orders of magnitude, where
// [RandomizedEigen], which does not need them positive, resolves six. The vectors
// belong to s. The error is a [*NotFiniteError] or a [*NotPositiveError].
func Nystrom(s *compute.Scope, a Operator, rank int, rng *rand.Rand) (*Eigen, error) {
	n := squareSize("a Nyström approximation", a)
	if rank < 1 || rank > n {
		panic(fmt.Sprintf("linop: a Nyström approximation of rank %d of an operator of order %d", rank, n))
	}
	b := s.Backend()
	inner := compute.NewScope(b)
	defer inner.Release()
	random := make([]float64, n*rank)
	for i := range random {
		random[i] = rng.NormFloat64()
	}
	q := inner.FromSlice(n, rank, random)
	for range 2 { // the second pass removes the rounding errors of the first
		right, err := rightVectors(inner, q, rank, smallestSquare)
		if err != nil {
			return nil, err
		}
		basis := inner.New(n, right.r.Cols)
		b.Gemm(false, false, 1, q, right.inverse, 0, basis)
		q = basis
	}

	// A shift by the size of rounding errors keeps the small matrix positive definite:
	// Y = (A + nu I) Q, Q'Y = C'C.
	y, small := Mul(inner, a, q, false), inner.New(q.Cols, q.Cols)
	nu := math.Sqrt(float64(n)) * 0x1p-52 * math.Sqrt(b.Dot(y, y))
	if nu == 0 { // A is zero
		return &Eigen{Vectors: s.New(n, 0)}, nil
	}
	compute.Axpy(b, nu, q, y)
	b.Gemm(true, false, 1, q, y, 0, small)
	c, err := inverseFactor(q.Cols, compute.ToSlice(b, small))
	if err != nil {
		return nil, err
	}

	// The approximation of A + nu I is B B' with B = Y C^-1.
	half := inner.New(n, q.Cols)
	b.Gemm(false, false, 1, y, inner.FromSlice(q.Cols, q.Cols, c), 0, half)
	right, err := rightVectors(inner, half, rank, nystromFloor)
	if err != nil {
		return nil, err
	}
	pairs := &Eigen{Values: right.s, Vectors: s.New(n, right.r.Cols)}
	b.Gemm(false, false, 1, half, right.inverse, 0, pairs.Vectors)
	for j, sigma := range pairs.Values {
		pairs.Values[j] = max(0, sigma*sigma-nu)
	}
	return pairs, nil
}

// inverseFactor returns C^-1 (row-major) for the upper triangular C with C'C = a, k × k.
func inverseFactor(k int, a []float64) ([]float64, error) {
	m := Symmetric(k, a)
	if norm := mat.Norm(m, 1); math.IsNaN(norm) || math.IsInf(norm, 0) {
		return nil, &NotFiniteError{"a Nyström approximation"}
	}
	var factor mat.Cholesky
	if !factor.Factorize(m) {
		var eigen mat.EigenSym
		eigen.Factorize(m, false)
		return nil, &NotPositiveError{eigen.Values(nil)[0]}
	}
	var c, inverse mat.TriDense
	factor.UTo(&c)
	_ = inverse.InverseTri(&c) // its condition is that of a, which the shift bounds
	return mat.DenseCopyOf(&inverse).RawMatrix().Data, nil
}
