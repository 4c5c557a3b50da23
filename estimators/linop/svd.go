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
// n × n eigenproblem costs more than the sketches (30 times more at n = 2,000).
const ExactSamples = 500

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
	return fmt.Sprintf("rank %d of the Fisher kernel, with %d samples and %d policy parameters: it must be at least 1 "+
		"and at most the smaller of the two",
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
	right, err := factorsOfGram(s, "the Gram matrix of the scores", gram, rank, smallestSquare)
	if err != nil {
		return nil, err
	}
	return &SVD{P: NewDense(b, Mul(s, u, right.inverse, false)), S: right.s, V: right.r}, nil // P = U V S^-1
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

// First returns the decomposition of the first n samples' scores, where d is that of more
// scores U = P S V', m samples of them: U_n = P S V_n' for the first n rows V_n of V. It
// stands for G = UU'/m, the Fisher matrix that all m samples give, in all that is made of
// a decomposition of n samples. With (n/m)^1/2 S for S and (m/n)^1/2 V_n for V the product
// P S V' is still U_n, and
//
//	P S² P'/n = G,  n V V' = m V_n V_n' = U_n'P (S²/m)^-1 P'U_n = U_n'G^-1 U_n
//
// so that it is the Fisher kernel's factor too (sec:appendix_Fisher_mvm). V's columns are
// not orthonormal any more. What it adds to d's blocks belongs to s; with n = m it is d.
func (d *SVD) First(s *compute.Scope, n int) *SVD {
	m := d.V.Rows
	if n == m {
		return d
	}
	ratio := math.Sqrt(float64(n) / float64(m))
	first := &SVD{P: d.P, S: make([]float64, len(d.S)), V: s.New(n, d.V.Cols)}
	for j, sigma := range d.S {
		first.S[j] = ratio * sigma
	}
	s.Backend().Affine(first.V, 1/ratio, d.V.RowRange(0, n), 0, 0)
	return first
}

// Rows allocates in s, for further scores u (p × m), the rows that V would have for them,
//
//	u'P S^-1  (m × k)
//
// so that the Fisher kernel between these samples and the batch's is n times them times V'
// (sec:appendix_Fisher_mvm): U_*'G^-1 U = U_*'P (S²/n)^-1 P'U with U = P S V'. For U itself
// they are V, as closely as P S V' is U's own decomposition.
func (d *SVD) Rows(s *compute.Scope, u Operator) compute.Block {
	inner := compute.NewScope(s.Backend())
	defer inner.Release()
	inverse := make([]float64, len(d.S))
	for j, sigma := range d.S {
		inverse[j] = 1 / sigma
	}
	return Mul(s, u, Mul(inner, d.P, inner.Diagonal(inverse), false), true)
}
