package linop

import (
	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// sampleSketch sets dst (p × k) to an approximation of U Q for a basis Q = Y T with
// orthonormal columns. As U ~ (U Q) Q', U S ~ (U Q)(Q'S), and with Z = S'Q the
// least squares solution is
//
//	U Q ~ (U S) C,  C = Z (Z'Z)^-1.
//
// U S sums each group's signed scores: one pass over the batch, 2 n p flops in place
// of 2 n p k, and 2 groups p k for the product. Where each group is a single
// sample, S is orthogonal and the result is U Q exactly.
func (u *Scores) sampleSketch(dst, y, t compute.Block, groups *compute.Groups) error {
	s := compute.NewScope(u.b)
	defer s.Release()
	c, err := leastSquares(s, y, t, groups)
	if err != nil {
		return err
	}
	for _, l := range u.layers {
		u.sketchWeights(dst.RowRange(0, l.weights()), l, c, groups)
		u.sketchColumns(dst.RowRange(l.weights(), l.size()), l.Signals, c, groups)
		dst = dst.RowRange(l.size(), dst.Rows)
	}
	u.sketchColumns(dst, u.logStd, c, groups)
	return nil
}

// leastSquares returns C = Z (Z'Z)^-1, groups × k, for Z = S'Y T. The eigenvalues of
// Z'Z are near 1 (within (1 ± 1/2)^2 for the sizes here). One that is far below
// belongs to a direction that S cannot see, where a few samples carry it and fall
// into one group: it is left out, for its inverse would blow up the residual.
func leastSquares(s *compute.Scope, y, t compute.Block, groups *compute.Groups) (compute.Block, error) {
	const floor = 0.01
	b := s.Backend()
	sums := s.New(groups.Len(), y.Cols)
	b.GroupSum(sums, y, groups)
	z := Mul(s, NewDense(b, sums), t, false)
	if inverse := wellConditionedInverse(b, z, 1/floor); inverse != nil {
		return Mul(s, NewDense(b, z), s.FromSlice(z.Cols, z.Cols, inverse), false), nil
	}
	right, err := rightVectors(s, z, z.Cols, floor)
	if err != nil {
		return compute.Block{}, err
	}
	// With Z = P S R', Z (Z'Z)^-1 = P (R S^-1)'.
	left, c := s.New(groups.Len(), right.r.Cols), s.New(groups.Len(), z.Cols)
	b.Gemm(false, false, 1, z, right.inverse, 0, left)
	b.Gemm(false, true, 1, left, right.inverse, 0, c)
	return c, nil
}

// wellConditionedInverse returns (Z'Z)^-1, row-major, or nil if the condition number may
// exceed a bound. Where it does not, no eigenvalue is left out, and this is faster.
func wellConditionedInverse(b compute.Backend, z compute.Block, bound float64) []float64 {
	if z.Cols == 0 {
		return nil
	}
	gram := compute.NewBlock(b, z.Cols, z.Cols)
	defer b.Release(gram.Buffer)
	b.Gram(gram, z)
	var factor mat.Cholesky
	if !factor.Factorize(mat.NewSymDense(z.Cols, compute.ToSlice(b, gram))) || !(factor.Cond() < bound) {
		return nil
	}
	var inverse mat.SymDense
	if factor.InverseTo(&inverse) != nil {
		return nil
	}
	return mat.DenseCopyOf(&inverse).RawMatrix().Data
}

// sketchWeights sets dst (out*in × k) to (U S) C for a layer's weights, a few
// outputs at a time, so that U S takes no more than 64 MB of memory.
func (u *Scores) sketchWeights(dst compute.Block, l ScoreLayer, c compute.Block, groups *compute.Groups) {
	const atATime = 8 << 20
	in, out := l.Inputs.Cols, l.Signals.Cols
	width := max(1, min(out, atATime/(groups.Len()*in)))
	buffer := compute.NewBlock(u.b, 1, groups.Len()*width*in)
	defer u.b.Release(buffer.Buffer)
	for lo := 0; lo < out; lo += width {
		hi := min(out, lo+width)
		sums := buffer.ColRange(0, groups.Len()*(hi-lo)*in).Reshape(groups.Len(), (hi-lo)*in)
		u.b.GroupOuter(sums, l.Signals.ColRange(lo, hi), l.Inputs, groups)
		u.b.Gemm(true, false, 1, sums, c, 0, dst.RowRange(lo*in, hi*in))
	}
}

// sketchColumns sets dst (x.Cols × k) to (U S) C for the parameters whose scores
// are the columns of x: a bias, log_std.
func (u *Scores) sketchColumns(dst, x, c compute.Block, groups *compute.Groups) {
	sums := compute.NewBlock(u.b, groups.Len(), x.Cols)
	defer u.b.Release(sums.Buffer)
	u.b.GroupSum(sums, x, groups)
	u.b.Gemm(true, false, 1, sums, c, 0, dst)
}
