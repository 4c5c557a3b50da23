package linop

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// Eigen holds leading eigenpairs of a symmetric p × p matrix.
type Eigen struct {
	Values  []float64
	Vectors compute.Block // p × their number, orthonormal columns
}

// eigenOversampling is the number of columns that RandomizedEigen takes beyond those
// asked for (the authors' code).
const eigenOversampling = 2

// RandomizedEigen approximates the eigenpairs of the symmetric operator a that are
// largest in magnitude, in this order: rank of them, or fewer where a has no more that
// differ from zero. Q is an orthonormal basis of the span of
//
//	[A R, A² R, ..., A^depth R]
//
// with a random p × (rank + 2) matrix R, and the pairs are the singular values and left
// singular vectors of A Q. Depth 1 is the randomised decomposition of Halko, Martinsson
// and Tropp (2011), as in the paper; a larger depth converges to the exact pairs (Musco
// and Musco 2015). It takes 2 depth products of rank + 2 columns with A. The vectors
// belong to s. The error is a [*NotFiniteError].
func RandomizedEigen(s *compute.Scope, a Operator, rank, depth int, rng *rand.Rand) (*Eigen, error) {
	p := squareSize("eigenpairs", a)
	if rank < 1 || rank > p || depth < 1 {
		panic(fmt.Sprintf("linop: %d eigenpairs at depth %d of an operator of order %d", rank, depth, p))
	}
	inner := compute.NewScope(s.Backend())
	defer inner.Release()
	width := min(rank+eigenOversampling, p)
	q, err := krylov(inner, a, inner.FromSlice(p, width, randomSigns(p*width, rng)), depth)
	if err != nil {
		return nil, err
	}
	return singular(s, q, Mul(inner, a, q, false), rank)
}

// singular returns the eigenpairs that the singular value decomposition of A Q gives,
// A Q = P S R': the values S with the signs of p_j'(Q r_j), the vectors P, which are one
// product with A closer to the exact ones than those in the span of Q.
func singular(s *compute.Scope, q, aq compute.Block, rank int) (*Eigen, error) {
	b := s.Backend()
	inner := compute.NewScope(b)
	defer inner.Release()
	right, err := rightVectors(inner, aq, rank, smallestSquare)
	if err != nil {
		return nil, err
	}
	pairs := &Eigen{Values: right.s, Vectors: s.New(q.Rows, right.r.Cols)}
	b.Gemm(false, false, 1, aq, right.inverse, 0, pairs.Vectors)
	qr := inner.New(q.Rows, right.r.Cols)
	b.Gemm(false, false, 1, q, right.r, 0, qr)
	for j, overlap := range columnDots(b, pairs.Vectors, qr) {
		pairs.Values[j] = math.Copysign(pairs.Values[j], overlap)
	}
	return pairs, nil
}

// Ritz returns the best approximations to eigenpairs of a symmetric A whose vectors are
// in the span of the k orthonormal columns Q, largest first: from the eigenpairs (nu_j,
// y_j) of small = Q'A Q (k × k, row-major, overwritten) they are (nu_j, Q y_j). vectors,
// k × k, holds the y_j and belongs to s. The error is a [*NotFiniteError].
func Ritz(s *compute.Scope, k int, small []float64) (values []float64, vectors compute.Block, err error) {
	for i := range k { // rounding leaves it not quite symmetric
		for j := range i {
			small[j*k+i] = (small[j*k+i] + small[i*k+j]) / 2
		}
	}
	values, y, err := eigenpairs("the projection of an eigenproblem", k, small)
	if err != nil {
		return nil, compute.Block{}, err
	}
	return values, s.FromSlice(k, k, y), nil
}

// dependent is the length, relative to all columns before the directions they share
// with others were taken out, of what counts as linearly dependent on those.
const dependent = 1e-7

// krylov returns an orthonormal basis of the span of [A x, A² x, ..., A^depth x] for a
// p × w block x, in s. It has fewer than depth w columns where the span does.
func krylov(s *compute.Scope, a Operator, x compute.Block, depth int) (compute.Block, error) {
	b := s.Backend()
	all := s.New(x.Rows, min(depth*x.Cols, x.Rows))
	columns := 0
	for range depth {
		next, basis := Mul(s, a, x, false), all.ColRange(0, columns)
		for range 2 { // the second subtraction takes what rounding left of the first
			size := b.Dot(next, next)
			overlap := s.New(columns, next.Cols)
			b.Gemm(true, false, 1, basis, next, 0, overlap)
			b.Gemm(false, false, -1, basis, overlap, 1, next)
			right, err := rightVectors(s, next, next.Cols, smallestSquare)
			if err != nil {
				return compute.Block{}, err
			}
			k := 0
			for k < len(right.s) && right.s[k]*right.s[k] > dependent*dependent*size {
				k++
			}
			y := next
			next = s.New(y.Rows, min(k, all.Cols-columns))
			b.Gemm(false, false, 1, y, right.inverse.ColRange(0, next.Cols), 0, next)
		}
		if next.Cols == 0 {
			break
		}
		x = all.ColRange(columns, columns+next.Cols)
		compute.Copy(b, x, next)
		columns += next.Cols
	}
	return all.ColRange(0, columns), nil
}
