package linop

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// LogDet estimates the logarithm of a determinant by stochastic Lanczos
// quadrature (Ubaru, Chen and Saad 2017). The zero value has gpytorch's settings
// in size: 10 probes, 20 steps.
type LogDet struct {
	// Probes is the number of random sign vectors; 0 means 10.
	Probes int
	// Steps bounds the Lanczos steps, products with the operator, a probe; 0 means
	// 20. All probes share each product.
	Steps int
}

// NotPositiveError says that an operator that has to be positive definite has an
// eigenvalue estimate that is not positive.
type NotPositiveError struct{ Eigenvalue float64 }

// Error implements error.
func (e *NotPositiveError) Error() string {
	return fmt.Sprintf("the logarithm of a determinant: the matrix has an eigenvalue near %g, so it is not positive definite", e.Eigenvalue)
}

// Estimate returns an estimate of log det A = tr log A for a symmetric positive
// definite A on backend b, and its standard error over the probes (NaN for a single
// one). The error is a [*NotPositiveError] or a [*NotFiniteError].
//
// For a probe w of random signs, w'(log A)w has tr log A for its mean. Lanczos'
// method from w gives a tridiagonal T whose eigenpairs (theta, y) are the nodes and
// weights of a Gauss quadrature: w'(log A)w ~ |w|^2 sum_i y_i1^2 log theta_i.
func (l LogDet) Estimate(b compute.Backend, a Operator, rng *rand.Rand) (mean, stdErr float64, err error) {
	n := squareSize("the logarithm of a determinant", a)
	if l.Probes == 0 {
		l.Probes = 10
	}
	if l.Steps == 0 {
		l.Steps = 20
	}
	s := compute.NewScope(b)
	defer s.Release()
	signs := make([]float64, n*l.Probes)
	for i := range signs {
		signs[i] = float64(2*rng.IntN(2) - 1)
	}
	diagonals, offDiagonals := lanczos(s, a, s.FromSlice(n, l.Probes, signs), min(l.Steps, n))
	estimates := make([]float64, l.Probes)
	for j := range estimates {
		if estimates[j], err = logQuadrature(float64(n), diagonals[j], offDiagonals[j]); err != nil {
			return 0, 0, err
		}
	}
	mean, deviation := stat.MeanStdDev(estimates, nil)
	return mean, deviation / math.Sqrt(float64(l.Probes)), nil
}

// lanczos runs Lanczos' method from each column of w at once and returns, for each,
// the diagonal and the off-diagonal of its tridiagonal matrix. New vectors are made
// orthogonal to all before them, twice: without that, rounding brings converged
// eigenvalues back as ghosts. A column ends early where its Krylov space does.
func lanczos(s *compute.Scope, a Operator, w compute.Block, steps int) (diagonals, offDiagonals [][]float64) {
	b, n, k := s.Backend(), w.Rows, w.Cols
	diagonals, offDiagonals = make([][]float64, k), make([][]float64, k)
	work := s.New(n, k)
	v := s.New(n, k)
	b.Copy(v, w)
	normalize(b, work, v)
	basis := []compute.Block{v}
	ended := make([]bool, k)
	for step := range steps {
		next := s.New(n, k)
		a.MulTo(next, basis[step], false)
		scale := columnDots(b, work, next, next)
		for j, d := range columnDots(b, work, basis[step], next) {
			if !ended[j] {
				diagonals[j] = append(diagonals[j], d)
			}
		}
		if step == steps-1 {
			break
		}
		for range 2 {
			for _, v := range basis {
				overlap := columnDots(b, work, v, next)
				for j := range overlap {
					overlap[j] = -overlap[j]
				}
				addColumns(b, next, v, overlap)
			}
		}
		for j, norm := range normalize(b, work, next) {
			// What is left of A v is rounding error: v spans an invariant space.
			if norm <= 1e-12*math.Sqrt(scale[j]) {
				ended[j] = true
			}
			if !ended[j] {
				offDiagonals[j] = append(offDiagonals[j], norm)
			}
		}
		basis = append(basis, next)
	}
	return diagonals, offDiagonals
}

// normalize divides each column by its length, leaving zeros alone, and returns
// the lengths.
func normalize(b compute.Backend, work, x compute.Block) []float64 {
	norms := columnDots(b, work, x, x)
	factors := make([]float64, len(norms))
	for j := range norms {
		norms[j] = math.Sqrt(norms[j])
		if norms[j] > 0 {
			factors[j] = 1 / norms[j]
		}
	}
	b.Copy(work, x)
	b.Fill(x, 0)
	addColumns(b, x, work, factors)
	return norms
}

// logQuadrature is size times the sum of y_i1^2 log theta_i over the eigenpairs of
// a tridiagonal matrix.
func logQuadrature(size float64, diagonal, offDiagonal []float64) (float64, error) {
	m := len(diagonal)
	t := make([]float64, m*m)
	for i, d := range diagonal {
		t[i*m+i] = d
		if i+1 < m {
			t[i*m+i+1] = offDiagonal[i]
		}
	}
	theta, y, err := eigenpairs("the Lanczos matrix of a determinant", m, t)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for i, value := range theta {
		if !(value > 0) {
			return 0, &NotPositiveError{value}
		}
		sum += y[i] * y[i] * math.Log(value)
	}
	return size * sum, nil
}
