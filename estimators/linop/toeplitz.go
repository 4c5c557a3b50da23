package linop

import "github.com/dbqpg/dbqpg/estimators/compute"

// Toeplitz is a symmetric matrix that is constant along its diagonals, T_ij =
// t_|i-j|: a stationary kernel on a grid of evenly spaced points.
//
// A product costs 2 m² flops a column for the dense matrix and some 20 m log m for the
// transforms of the circulant way, but the machine is far faster at the first: at the
// kernel's 128 points, 1 µs against 18 for one column, 88 against 1,118 for 110 of them.
// So matrices are kept dense up to denseOrder, where the two are about even (197 and 230
// µs for one column, 8.5 and 12 ms for 110).
type Toeplitz struct{ Operator }

// denseOrder is the largest order of a matrix that is kept dense. At twice that the
// circulant way is 3.5 times as fast for one column (BenchmarkToeplitz).
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
