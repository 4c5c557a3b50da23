package gp

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// cutoff is the eigenvalue of the grid's matrix R, relative to the largest, below
// which eigenpairs are left out.
const cutoff = 1e-12

// spectrum is R = E D E', the grid's matrix, cut to the q eigenvalues above cutoff.
type spectrum struct {
	values  []float64  // D, increasing
	vectors *mat.Dense // E, 128 × q
	slope   *mat.Dense // D^-1/2 E' (dR/dl) E D^-1/2, q × q
}

// newSpectrum decomposes the kernel's grid matrix.
func newSpectrum(k Kernel, g compute.Grid) *spectrum {
	value, gradient := k.column(g)
	var eigen mat.EigenSym
	if !eigen.Factorize(toeplitz(value), true) {
		panic("gp: the eigenvalues of a symmetric Toeplitz matrix did not converge")
	}
	values := eigen.Values(nil)
	first := 0
	for values[first] <= cutoff*values[g.Size-1] {
		first++
	}
	var all mat.Dense
	eigen.VectorsTo(&all)
	s := &spectrum{values: values[first:], vectors: mat.DenseCopyOf(all.Slice(0, g.Size, first, g.Size))}

	s.slope = new(mat.Dense)
	s.slope.Product(s.vectors.T(), toeplitz(gradient), s.vectors)
	s.slope.Apply(func(i, j int, x float64) float64 { return x / math.Sqrt(s.values[i]*s.values[j]) }, s.slope)
	return s
}

// rank is q.
func (s *spectrum) rank() int { return len(s.values) }

// factor is L = E (scale D)^1/2 as row-major elements, 128 × q.
func (s *spectrum) factor(scale float64) []float64 {
	var l mat.Dense
	l.Apply(func(_, j int, x float64) float64 { return x * math.Sqrt(scale*s.values[j]) }, s.vectors)
	return l.RawMatrix().Data
}

// toeplitz is the symmetric matrix with the given first column.
func toeplitz(column []float64) *mat.SymDense {
	t := mat.NewSymDense(len(column), nil)
	for i := range column {
		for j := i; j < len(column); j++ {
			t.SetSym(i, j, column[j-i])
		}
	}
	return t
}
