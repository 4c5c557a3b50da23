package linop

import "github.com/dbqpg/dbqpg/estimators/compute"

// Toeplitz is a symmetric matrix that is constant along its diagonals, T_ij =
// t_|i-j|: a stationary kernel on a grid of evenly spaced points.
//
// It is kept as a dense matrix, because a product with one of 128 rows costs less
// than the transforms of the circulant way and is exact.
type Toeplitz struct{ *Dense }

// NewToeplitz makes the matrix whose first column is t, in s.
func NewToeplitz(s *compute.Scope, t []float64) *Toeplitz {
	n := len(t)
	full := make([]float64, n*n)
	for i := range n {
		for j := range n {
			full[i*n+j] = t[max(i-j, j-i)]
		}
	}
	return &Toeplitz{NewDense(s.Backend(), s.FromSlice(n, n, full))}
}
