package estimators

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// krylov returns an orthonormal basis, in s, of the span of [A x, A² x, ..., A^depth x]
// for a symmetric operator A and a p × w block x. It has fewer than depth w columns
// where the span does.
func krylov(s *compute.Scope, a linop.Operator, x compute.Block, depth int) (compute.Block, error) {
	b := s.Backend()
	scope := compute.NewScope(b)
	defer scope.Release()
	all := s.New(x.Rows, depth*x.Cols)
	columns := 0
	for range depth {
		next, basis := linop.Mul(scope, a, x, false), all.ColRange(0, columns)
		for range 2 { // what a first subtraction leaves by rounding, the second takes
			size := b.Dot(next, next)
			overlap := scope.New(columns, next.Cols)
			b.Gemm(true, false, 1, basis, next, 0, overlap)
			b.Gemm(false, false, -1, basis, overlap, 1, next)
			var err error
			if next, err = orthonormal(scope, next, size); err != nil {
				return compute.Block{}, err
			}
		}
		if next.Cols == 0 {
			break
		}
		x = all.ColRange(columns, columns+next.Cols)
		b.Copy(x, next)
		columns += next.Cols
	}
	return all.ColRange(0, columns), nil
}

// dependent is the length, relative to all columns before their common directions with
// others were taken out, of what counts as linearly dependent on those.
const dependent = 1e-7

// orthonormal returns an orthonormal basis, in s, of the span of y's columns, but for
// directions shorter than dependent times the root of size: y R S^-1 with the
// eigenvectors R and eigenvalues S² of y'y.
func orthonormal(s *compute.Scope, y compute.Block, size float64) (compute.Block, error) {
	b, k := s.Backend(), y.Cols
	if k == 0 {
		return y, nil
	}
	gram := s.New(k, k)
	b.Gram(gram, y)
	values, vectors, err := eigenpairs(mat.NewSymDense(k, compute.ToSlice(b, gram)))
	if err != nil {
		return y, err
	}
	rank := 0
	for rank < k && values[rank] > dependent*dependent*size {
		rank++
	}
	if rank == 0 {
		return y.ColRange(0, 0), nil
	}
	right := mat.NewDense(k, rank, nil)
	right.Apply(func(i, j int, _ float64) float64 { return vectors.At(i, j) / math.Sqrt(values[j]) }, right)
	q := s.New(y.Rows, rank)
	b.Gemm(false, false, 1, y, s.FromSlice(k, rank, right.RawMatrix().Data), 0, q)
	return q, nil
}

// eigenpairs of a symmetric matrix, largest eigenvalue first, eigenvectors in columns.
func eigenpairs(m *mat.SymDense) (values []float64, vectors *mat.Dense, err error) {
	k := m.SymmetricDim()
	if norm := mat.Norm(m, 1); math.IsNaN(norm) || math.IsInf(norm, 0) {
		return nil, nil, &NotFiniteError{What: "matrix of an eigenproblem"}
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(m, true) {
		return nil, nil, &NotFiniteError{What: "eigenvalues"}
	}
	var increasing mat.Dense
	eigen.VectorsTo(&increasing)
	values, vectors = eigen.Values(nil), mat.NewDense(k, k, nil)
	for i, j := 0, k-1; i < j; i, j = i+1, j-1 {
		values[i], values[j] = values[j], values[i]
	}
	vectors.Apply(func(i, j int, _ float64) float64 { return increasing.At(i, k-1-j) }, vectors)
	return values, vectors, nil
}

// NotFiniteError says that the uncertainty holds NaN or infinity.
type NotFiniteError struct {
	What string
}

// Error implements error.
func (e *NotFiniteError) Error() string {
	return fmt.Sprintf("estimators: the %s of the gradient's uncertainty are not finite", e.What)
}
