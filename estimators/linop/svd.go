package linop

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// SVD is a truncated singular value decomposition U ~ P diag(S) V' of a p × n
// matrix: P (p × k) and V (n × k) have orthonormal columns, and S is decreasing. k is the
// requested rank, or less if U has a lower rank. P is multiplied out only if that is cheap:
// an update takes at most a product or two with it.
type SVD struct {
	P Operator
	S []float64
	V compute.Block
}

// ExactSamples is the largest batch whose scores are decomposed exactly: beyond it the
// n × n eigenproblem costs more than all the rest of an update.
const ExactSamples = 2000

// Decompose returns U's leading rank singular triplets: [ExactSVD] for batches of up to
// [ExactSamples] samples, [RandomizedSVD] for larger ones.
func Decompose(s *compute.Scope, u *Scores, rank int, rng *rand.Rand) (*SVD, error) {
	if _, n := u.Dims(); n <= ExactSamples {
		return ExactSVD(s, u, rank)
	}
	return RandomizedSVD(s, u, rank, rng)
}

// RankError reports that more singular values were requested than there are.
type RankError struct{ Rank, Samples, Parameters int }

// Error implements error.
func (e *RankError) Error() string {
	return fmt.Sprintf("rank %d of the Fisher kernel, with %d samples and %d policy parameters: it must be at least 1 and at most the smaller of the two",
		e.Rank, e.Samples, e.Parameters)
}

func checkRank(u *Scores, rank int) error {
	p, n := u.Dims()
	if rank < 1 || rank > min(n, p) {
		return &RankError{Rank: rank, Samples: n, Parameters: p}
	}
	return nil
}

// ExactSVD returns the leading rank singular triplets of U from the eigenpairs of U'U,
// n × n. It costs (in + out) n^2 flops a layer and some 10 n^3, for small batches.
// Singular values below 1e-5 of the largest are left out.
// The blocks belong to s. The error is a [*RankError] or a [*NotFiniteError].
func ExactSVD(s *compute.Scope, u *Scores, rank int) (*SVD, error) {
	if err := checkRank(u, rank); err != nil {
		return nil, err
	}
	b, n := s.Backend(), u.logStd.Rows
	inner := compute.NewScope(b)
	defer inner.Release()
	gram := inner.New(n, n)
	u.gramTo(gram)
	values, q, err := eigenpairs("the Gram matrix of the scores", n, compute.ToSlice(b, gram))
	if err != nil {
		return nil, err
	}

	// With U'U = V S^2 V', P = U V S^-1.
	singular := singularValues(values, rank, smallestSquare)
	k := len(singular)
	v := make([]float64, n*k)
	inverse := make([]float64, n*k)
	for i := range n {
		for j, sigma := range singular {
			v[i*k+j] = q[i*n+j]
			inverse[i*k+j] = q[i*n+j] / sigma
		}
	}
	p := s.New(u.params, k)
	u.MulTo(p, inner.FromSlice(n, k, inverse), false)
	return &SVD{P: NewDense(b, p), S: singular, V: s.FromSlice(n, k, v)}, nil
}

// gramTo sets dst (n × n) to U'U. The scores of two samples in a layer are outer
// products, so their inner product is (d_i'd_j)(h_i'h_j), and d_i'd_j more for the
// bias: the elementwise product of D D' and H H' + 1.
func (u *Scores) gramTo(dst compute.Block) {
	n := dst.Rows
	u.b.Panels(n, func(b compute.Backend, _, lo, hi int) {
		s := compute.NewScope(b)
		defer s.Release()
		rows, inputs, signals := dst.RowRange(lo, hi), s.New(hi-lo, n), s.New(hi-lo, n)
		b.Gemm(false, true, 1, u.logStd.RowRange(lo, hi), u.logStd, 0, rows)
		for _, l := range u.layers {
			compute.Fill(b, inputs, 1)
			b.Gemm(false, true, 1, l.Inputs.RowRange(lo, hi), l.Inputs, 1, inputs)
			b.Gemm(false, true, 1, l.Signals.RowRange(lo, hi), l.Signals, 0, signals)
			b.Mul(rows, inputs, signals, 1)
		}
	})
}

// smallestSquare is the threshold, relative to the largest, below which an eigenvalue of a
// Gram matrix x'x counts as zero. Eigenvalues have errors of some 1e-16 of the largest,
// which normalised vectors inherit: here at most 1e-6, and 1e-12 on the spectrum of a real
// batch.
const smallestSquare = 1e-10

// singularValues returns the square roots of the first rank of a Gram matrix's
// eigenvalues, as far as they exceed floor times the largest.
func singularValues(eigenvalues []float64, rank int, floor float64) []float64 {
	var s []float64
	for _, v := range eigenvalues[:min(rank, len(eigenvalues))] {
		if !(v > floor*eigenvalues[0]) {
			break
		}
		s = append(s, math.Sqrt(v))
	}
	return s
}

// Preconditioner approximates the inverse of scale UU' + ridge I, taking U for its
// decomposition: with w_j = scale S_j^2,
//
//	(I - P diag(w_j / (w_j + ridge)) P') / ridge.
//
// With scale 1/n and the damping for the ridge it suits conjugate gradients with
// the Fisher matrix. Its blocks belong to s.
func (d *SVD) Preconditioner(s *compute.Scope, scale, ridge float64) Operator {
	b, k := s.Backend(), len(d.S)
	roots := make([]float64, k)
	for j, sigma := range d.S {
		w := scale * sigma * sigma
		roots[j] = math.Sqrt(w / (w + ridge))
	}
	shrunk := Mul(s, d.P, s.Diagonal(roots), false)
	return NewSum(b, NewScaledIdentity(b, shrunk.Rows, 1/ridge), NewLowRank(b, -1/ridge, shrunk))
}
