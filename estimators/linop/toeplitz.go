package linop

import "github.com/dbqpg/dbqpg/estimators/compute"

// Toeplitz is a symmetric matrix that is constant along its diagonals, T_ij =
// t_|i-j|: a stationary kernel on a grid of evenly spaced points.
//
// A product costs 2 m² flops a column for the dense matrix and some 10 m log m for the
// transforms of the circulant way, but the machine is twenty times as fast at the
// first. Up to denseOrder, so for the kernel's 128 points, the matrix is kept dense.
type Toeplitz struct{ Operator }

// denseOrder is the largest order of which a dense product is the faster (BenchmarkToeplitz).
const denseOrder = 1024

// NewToeplitz makes the matrix whose first column is t, in s.
func NewToeplitz(s *compute.Scope, t []float64) *Toeplitz {
	if len(t) > denseOrder {
		return &Toeplitz{newCirculant(s.Backend(), t)}
	}
	return &Toeplitz{newDenseToeplitz(s, t)}
}

// newDenseToeplitz stores the whole matrix.
func newDenseToeplitz(s *compute.Scope, t []float64) *Dense {
	n := len(t)
	full := make([]float64, n*n)
	for i := range n {
		for j := range n {
			full[i*n+j] = t[max(i-j, j-i)]
		}
	}
	return NewDense(s.Backend(), s.FromSlice(n, n, full))
}
