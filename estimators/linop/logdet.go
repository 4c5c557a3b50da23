package linop

import (
	"cmp"
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

// Estimate is the mean of random numbers that estimate a value, and its standard
// error, which is NaN if there is only one number.
type Estimate struct{ Value, StdErr float64 }

// quadratureShare is the share of the standard error that a Lanczos step has to change
// the estimate by for another to be worth it.
const quadratureShare = 0.01

// Estimate returns an estimate of log det A = tr log A for the symmetric positive
// definite matrix A of order n that a multiplies with, on backend b. The error is a
// [*NotPositiveError], a [*NotFiniteError], or that of a product.
//
// For a probe w of random signs, w'(log A)w has tr log A for its mean. Lanczos'
// method from w gives a tridiagonal T whose eigenpairs (theta, y) are the nodes and
// weights of a Gauss quadrature: w'(log A)w ~ |w|^2 sum_i y_i1^2 log theta_i. Each
// step lowers it towards its limit, geometrically, and they end where what they change
// is small beside the probes' spread.
func (l LogDet) Estimate(b compute.Backend, n int, a Multiply, rng *rand.Rand) (Estimate, error) {
	l.Probes = cmp.Or(l.Probes, 10)
	l.Steps = cmp.Or(l.Steps, 20)
	s := compute.NewScope(b)
	defer s.Release()
	k := newLanczos(s, a, s.FromSlice(n, l.Probes, randomSigns(n*l.Probes, rng)))
	last := Estimate{Value: math.Inf(1)}
	for step := 1; ; step++ {
		if err := k.project(); err != nil {
			return Estimate{}, err
		}
		estimate, err := k.logDet()
		if err != nil || step == min(l.Steps, n) ||
			math.Abs(last.Value-estimate.Value) <= quadratureShare*estimate.StdErr {
			return estimate, err
		}
		last = estimate
		k.extend()
	}
}

// lanczos is Lanczos' method from each column of a block at once: for each an
// orthonormal basis of its Krylov space, and the tridiagonal matrix that A is there.
type lanczos struct {
	scope    *compute.Scope
	a        Multiply
	basis    []compute.Block // vector i of each column's
	next     compute.Block   // A times the last
	overlap  compute.Block   // with another vector, 1 × columns
	diagonal [][]float64     // by column
	off      [][]float64
	ended    []bool // columns whose Krylov space has no more directions
}

func newLanczos(s *compute.Scope, a Multiply, w compute.Block) *lanczos {
	k := &lanczos{scope: s, a: a, basis: []compute.Block{w}, overlap: s.New(1, w.Cols),
		diagonal: make([][]float64, w.Cols), off: make([][]float64, w.Cols), ended: make([]bool, w.Cols)}
	normalize(s.Backend(), w)
	return k
}

// project multiplies the last vector by A: the diagonal's next element.
func (k *lanczos) project() error {
	last := k.basis[len(k.basis)-1]
	k.next = k.scope.New(last.Rows, last.Cols)
	if err := k.a(k.next, last); err != nil {
		return err
	}
	for j, d := range columnDots(k.scope.Backend(), last, k.next) {
		if !k.ended[j] {
			k.diagonal[j] = append(k.diagonal[j], d)
		}
	}
	return nil
}

// extend takes from the product what is new in it, the next vector. It is made
// orthogonal to all before it, twice: without that, rounding brings converged
// eigenvalues back as ghosts.
func (k *lanczos) extend() {
	b := k.scope.Backend()
	size := columnDots(b, k.next, k.next)
	for range 2 {
		for _, v := range k.basis {
			b.ColDots(k.overlap, v, k.next)
			compute.Scale(b, -1, k.overlap)
			b.Mul(k.next, k.overlap, v, 1)
		}
	}
	for j, norm := range normalize(b, k.next) {
		// What is left of A v is rounding error: the basis spans an invariant space.
		if norm <= 1e-12*math.Sqrt(size[j]) {
			k.ended[j] = true
		}
		if !k.ended[j] {
			k.off[j] = append(k.off[j], norm)
		}
	}
	k.basis = append(k.basis, k.next)
}

// logDet returns the quadratures' mean, each |w|² = n times a weighted sum of logarithms.
func (k *lanczos) logDet() (Estimate, error) {
	n := float64(k.next.Rows)
	values := make([]float64, len(k.diagonal))
	for j := range values {
		quadrature, err := logQuadrature(k.diagonal[j], k.off[j])
		if err != nil {
			return Estimate{}, err
		}
		values[j] = n * quadrature
	}
	mean, deviation := stat.MeanStdDev(values, nil)
	return Estimate{mean, deviation / math.Sqrt(float64(len(values)))}, nil
}

// normalize divides each column by its length, leaving zeros alone, and returns
// the lengths.
func normalize(b compute.Backend, x compute.Block) []float64 {
	norms := columnDots(b, x, x)
	factors := make([]float64, len(norms))
	for j := range norms {
		norms[j] = math.Sqrt(norms[j])
		if norms[j] > 0 {
			factors[j] = 1 / norms[j]
		}
	}
	s := compute.NewScope(b)
	defer s.Release()
	longer := s.New(x.Rows, x.Cols)
	compute.Copy(b, longer, x)
	b.Mul(x, s.FromSlice(1, len(factors), factors), longer, 0)
	return norms
}

// logQuadrature returns the sum of y_i1^2 log theta_i over the eigenpairs of a tridiagonal
// matrix.
func logQuadrature(diagonal, offDiagonal []float64) (float64, error) {
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
	return sum, nil
}
