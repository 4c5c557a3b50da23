package linop

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// NotFiniteError reports NaN or an infinity in the input of a computation.
type NotFiniteError struct {
	// What names the matrix.
	What string
}

// Error implements error.
func (e *NotFiniteError) Error() string {
	return fmt.Sprintf("%s holds NaN or an infinity, or its eigenvalues do not converge", e.What)
}

// NotPositiveError reports that an operator that has to be positive definite has an
// eigenvalue estimate that is not positive.
type NotPositiveError struct{ Eigenvalue float64 }

// Error implements error.
func (e *NotPositiveError) Error() string {
	return fmt.Sprintf("the logarithm of a determinant: the matrix has an eigenvalue near %g, "+
		"so it is not positive definite", e.Eigenvalue)
}

// Symmetric returns the symmetric part of the row-major k × k matrix a.
func Symmetric(k int, a []float64) *mat.SymDense {
	m := mat.NewSymDense(k, nil)
	for i := range k {
		for j := i; j < k; j++ {
			m.SetSym(i, j, (a[i*k+j]+a[j*k+i])/2)
		}
	}
	return m
}

// eigenpairs of the symmetric n × n matrix a (row-major, only its upper triangle is
// looked at), largest eigenvalue first: a = Q diag(values) Q', column j of the
// row-major Q for values[j].
func eigenpairs(what string, n int, a []float64) (values []float64, q []float64, err error) {
	for _, v := range a {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, nil, &NotFiniteError{what}
		}
	}
	if n == 0 {
		return nil, nil, nil
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(mat.NewSymDense(n, a), true) {
		return nil, nil, &NotFiniteError{what}
	}
	ascending := eigen.Values(nil)
	var vectors mat.Dense
	eigen.VectorsTo(&vectors)
	values, q = make([]float64, n), make([]float64, n*n)
	for j := range n {
		values[j] = ascending[n-1-j]
		for i := range n {
			q[i*n+j] = vectors.At(i, n-1-j)
		}
	}
	return values, q, nil
}
