package linop

import (
	"math"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// rightFactors are k singular values of some x = P S R' with R, x.Cols × k, and
// R S^-1: x times that is P.
type rightFactors struct {
	s          []float64
	r, inverse compute.Block
}

// rightVectors finds the leading singular values of x, columns of them or as many
// as have squares above floor times the largest's, from the eigenpairs of x'x.
func rightVectors(s *compute.Scope, x compute.Block, columns int, floor float64) (rightFactors, error) {
	b, n := s.Backend(), x.Cols
	gram := compute.NewBlock(b, n, n)
	defer b.Release(gram.Buffer)
	b.Gram(gram, x)
	return factorsOfGram(s, "a sketch of the scores", gram, columns, floor)
}

// factorsOfGram is rightVectors of the gram matrix x'x.
func factorsOfGram(s *compute.Scope, what string, gram compute.Block, columns int, floor float64) (rightFactors,
	error) {
	n := gram.Rows
	values, vectors, err := eigenpairs(what, n, compute.ToSlice(s.Backend(), gram))
	if err != nil {
		return rightFactors{}, err
	}
	var singular []float64
	for _, v := range values[:min(columns, len(values))] {
		if !(v > floor*values[0]) {
			break
		}
		singular = append(singular, math.Sqrt(v))
	}
	k := len(singular)
	r, inverse := make([]float64, n*k), make([]float64, n*k)
	for i := range n {
		for j, sigma := range singular {
			r[i*k+j] = vectors[i*n+j]
			inverse[i*k+j] = vectors[i*n+j] / sigma
		}
	}
	return rightFactors{s: singular, r: s.FromSlice(n, k, r), inverse: s.FromSlice(n, k, inverse)}, nil
}

// smallestSquare is the threshold, relative to the largest, below which an eigenvalue of a
// Gram matrix x'x counts as zero. Eigenvalues have errors of some 1e-16 of the largest,
// which normalised vectors inherit: here at most 1e-6, and 1e-12 on the spectrum of a real
// batch.
const smallestSquare = 1e-10
