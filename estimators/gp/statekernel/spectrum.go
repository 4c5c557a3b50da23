package statekernel

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/gp/kernels"
)

// cutoff is the eigenvalue of the grid's matrix R, relative to the largest, below
// which eigenpairs are left out.
const cutoff = 1e-12

// spectrum is R = E D E', the grid's matrix, cut to the q eigenvalues above cutoff.
//
// The range of a kernel of small rank, like cosine, turns as a hyperparameter changes, so
// that R's derivative leaves the span of E. The directions that it adds are taken in, with
// the eigenvalue at the cutoff, which is too small to matter in R.
//
// The closed form takes only a root L of it, R = LL', and any will do. It is E D^1/2, or if
// nothing is cut off the Cholesky factor, which is nested: its first m rows and columns are
// the root for m grid points, and for any m neighbours if R is Toeplitz.
type spectrum struct {
	values  []float64    // D
	vectors *mat.Dense   // E, 128 × q
	root    *mat.Dense   // L, 128 × q
	nested  bool         // L is the Cholesky factor, and R Toeplitz
	slopes  []*mat.Dense // L^-1 (dR/dh) L^-T, q × q, for each of the base kernel's hyperparameters h
}

// recent are the spectra last used, the latest first. To decompose the grid's matrix takes as long as the products over
// 1,000 samples, and it is the same for all fits of a batch whose features alone differ, and often for the next batch.
var recent struct {
	sync.Mutex
	spectra []remembered
}

// remembered is a spectrum and what it was made of.
type remembered struct {
	base  *kernels.Kernel
	hyper []float64
	*spectrum
}

// mostRecent is the number of spectra that are remembered: a few values of a lengthscale that is being learned.
const mostRecent = 4

// spectrumOf returns the spectrum of the kernel's grid matrix, which nobody changes.
func spectrumOf(k Kernel) *spectrum {
	recent.Lock()
	defer recent.Unlock()
	i := slices.IndexFunc(recent.spectra, func(
		r remembered) bool {
		return r.base == k.Base && slices.Equal(r.hyper, k.Hyper)
	})
	if i < 0 {
		recent.spectra = append(recent.spectra, remembered{k.Base, slices.Clone(k.Hyper), newSpectrum(k)})
		i = len(recent.spectra) - 1
	}
	found := recent.spectra[i]
	recent.spectra = slices.Insert(slices.Delete(recent.spectra, i, i+1), 0, found)
	recent.spectra = recent.spectra[:min(mostRecent, len(recent.spectra))]
	return found.spectrum
}

// newSpectrum decomposes the kernel's grid matrix.
func newSpectrum(k Kernel) *spectrum {
	value, gradients := k.gridMatrix()
	all, vectors := eigenpairs(value)
	first, size := 0, len(all)
	for all[first] <= cutoff*all[size-1] {
		first++
	}
	s := &spectrum{values: all[first:], vectors: mat.DenseCopyOf(vectors.Slice(0, size, first, size))}
	if s.nested = first == 0 && k.Base.Stationary(); s.nested {
		s.nest(value, gradients)
		return s
	}
	for _, gradient := range gradients {
		s.extend(gradient, cutoff*all[size-1])
	}
	s.root = new(mat.Dense)
	s.root.Apply(func(_, j int, x float64) float64 { return x * math.Sqrt(s.values[j]) }, s.vectors)
	for _, gradient := range gradients {
		slope := new(mat.Dense)
		slope.Product(s.vectors.T(), mat.DenseCopyOf(gradient), s.vectors)
		slope.Apply(func(i, j int, x float64) float64 { return x / math.Sqrt(s.values[i]*s.values[j]) }, slope)
		s.slopes = append(s.slopes, slope)
	}
	return s
}

// nest takes the Cholesky factor of R, whose condition number is at most 1/cutoff.
func (s *spectrum) nest(value *mat.SymDense, gradients []*mat.SymDense) {
	var factor mat.Cholesky
	var lower mat.TriDense
	if !factor.Factorize(value) {
		panic("gp: a kernel's grid matrix with positive eigenvalues has no Cholesky factor")
	}
	factor.LTo(&lower)
	s.root = mat.DenseCopyOf(&lower)
	for _, gradient := range gradients {
		var half mat.Dense
		slope := new(mat.Dense)
		if err := errors.Join(lower.SolveTo(&half, false, gradient),
			lower.SolveTo(slope, false, half.T())); err != nil {
			panic(fmt.Errorf("gp: the factor of a kernel's grid matrix: %w", err))
		}
		s.slopes = append(s.slopes, slope)
	}
}

// extend adds the directions outside the span of E to which gradient takes it, all
// with the given eigenvalue.
func (s *spectrum) extend(gradient *mat.SymDense, value float64) {
	const negligible = 1e-6 // beside the whole derivative
	var moved, inside, outside mat.Dense
	moved.Mul(gradient, s.vectors)
	inside.Mul(s.vectors.T(), &moved)
	outside.Mul(s.vectors, &inside)
	outside.Sub(&moved, &outside)
	least := negligible * mat.Norm(gradient, 2)
	if mat.Norm(&outside, 2) <= least {
		return
	}
	var gram mat.SymDense
	gram.SymOuterK(1, &outside)
	squares, directions := eigenpairs(&gram)
	size, first := len(squares), len(squares)
	for first > 0 && squares[first-1] > least*least {
		first--
	}
	if first == size {
		return
	}
	var all mat.Dense
	all.Augment(s.vectors, directions.Slice(0, size, first, size))
	s.vectors = &all
	for range size - first {
		s.values = append(s.values, value)
	}
}

// eigenpairs returns those of a symmetric matrix, in increasing order.
func eigenpairs(a mat.Symmetric) (values []float64, vectors *mat.Dense) {
	var eigen mat.EigenSym
	if !eigen.Factorize(a, true) {
		panic("gp: the eigenvalues of a symmetric matrix on the grid did not converge")
	}
	vectors = new(mat.Dense)
	eigen.VectorsTo(vectors)
	return eigen.Values(nil), vectors
}

// rank returns q.
func (s *spectrum) rank() int { return len(s.values) }

// factor returns scale^1/2 L, 128 × q.
func (s *spectrum) factor(scale float64) *mat.Dense {
	l := new(mat.Dense)
	l.Scale(math.Sqrt(scale), s.root)
	return l
}

// form returns half of the inner product of a, q × q, with each of the slopes.
func (s *spectrum) form(a []float64) []float64 {
	products := make([]float64, len(s.slopes))
	for h, slope := range s.slopes {
		products[h] = floats.Dot(a, slope.RawMatrix().Data) / 2
	}
	return products
}
