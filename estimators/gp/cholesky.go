package gp

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"
)

// cholesky is the factor R of M = R'R, upper triangular. Unlike gonum's it lives where
// M was, has the factor of a leading part of M for nothing, and does not estimate the
// condition number: for a rough kernel's M, of order 1,300, copies and estimates took as
// long as the factorisation.
type cholesky struct{ upper blas64.Triangular }

// worstCondition is the condition number of M beyond which nothing solved with it
// would hold a correct digit. M's largest element over the noise stands for it: they
// bound its eigenvalues, and where the noise does not count beside B'B, nor does any
// digit of (y - B c)/noise.
const worstCondition = 1e15

// factorize finds the factor of m, whose eigenvalues are at least noise and which it
// overwrites.
func factorize(m *mat.SymDense, noise float64) (cholesky, error) {
	e := &NotPositiveDefiniteError{Size: m.SymmetricDim(), Noise: noise}
	for i := range e.Size {
		if x := m.At(i, i); !(x <= e.LargestElement) {
			e.LargestElement = x
		}
	}
	if !(e.LargestElement < worstCondition*noise) {
		return cholesky{}, e
	}
	upper, ok := lapack64.Potrf(m.RawSymmetric())
	if !ok {
		return cholesky{}, e
	}
	return cholesky{upper}, nil
}

func (c cholesky) diagonal(i int) float64 { return c.upper.Data[i*c.upper.Stride+i] }

// leading is the factor of the first n rows and columns of M.
func (c cholesky) leading(n int) cholesky {
	c.upper.N = n
	return c
}

// logDet is log det M.
func (c cholesky) logDet() (sum float64) {
	for i := range c.upper.N {
		sum += 2 * math.Log(c.diagonal(i))
	}
	return sum
}

// solve sets x to M^-1 x.
func (c cholesky) solve(x *mat.VecDense) {
	lapack64.Potrs(c.upper, blas64.General{Rows: c.upper.N, Cols: 1, Stride: 1, Data: x.RawVector().Data})
}

// whiten is R'^-1 x, whose Gram matrix is x'M^-1 x.
func (c cholesky) whiten(x *mat.Dense) *mat.Dense {
	out := mat.DenseCopyOf(x)
	blas64.Trsm(blas.Left, blas.Trans, 1, c.upper, out.RawMatrix())
	return out
}

// inverse is M^-1.
func (c cholesky) inverse() *mat.SymDense {
	inverse := mat.NewSymDense(c.upper.N, nil)
	raw := inverse.RawSymmetric()
	lapack64.Potri(c.copyTo(raw.Data))
	return inverse
}

// inverseRoot is R^-1.
func (c cholesky) inverseRoot() (*mat.TriDense, error) {
	root := mat.NewTriDense(c.upper.N, mat.Upper, nil)
	c.copyTo(root.RawTriangular().Data)
	return root, root.InverseTri(root)
}

// copyTo copies the factor into an N × N matrix.
func (c cholesky) copyTo(data []float64) blas64.Triangular {
	n := c.upper.N
	for i := range n {
		copy(data[i*n+i:(i+1)*n], c.upper.Data[i*c.upper.Stride+i:])
	}
	return blas64.Triangular{N: n, Stride: n, Data: data, Uplo: blas.Upper, Diag: blas.NonUnit}
}
