package linop

import "github.com/dbqpg/dbqpg/estimators/compute"

// LowRank is the n × n matrix scale V V' with V n × r, such as the Fisher kernel n v V V'
// of a rank-r SVD of the scores.
type LowRank struct {
	b     compute.Backend
	scale float64
	v     compute.Block
}

// NewLowRank returns scale V V' of the n × r block v, which it retains.
func NewLowRank(b compute.Backend, scale float64, v compute.Block) *LowRank {
	return &LowRank{b, scale, v}
}

// Dims implements [Operator].
func (a *LowRank) Dims() (rows, cols int) { return a.v.Rows, a.v.Rows }

// MulTo implements [Operator] with 4 n r flops per column.
func (a *LowRank) MulTo(dst, x compute.Block, trans bool) {
	checkMul("LowRank", a, dst, x, trans)
	s := compute.NewScope(a.b)
	defer s.Release()
	inner := s.New(a.v.Cols, x.Cols)
	a.b.Gemm(true, false, a.scale, a.v, x, 0, inner)
	a.b.Gemm(false, false, 1, a.v, inner, 0, dst)
}
