package linop

import "github.com/dbqpg/dbqpg/estimators/compute"

// Dense is a stored matrix, for tests and small factors.
type Dense struct {
	b compute.Backend
	x compute.Block
}

// NewDense returns the operator of the block x, which it retains.
func NewDense(b compute.Backend, x compute.Block) *Dense { return &Dense{b, x} }

// Dims implements [Operator].
func (a *Dense) Dims() (rows, cols int) { return a.x.Rows, a.x.Cols }

// MulTo implements [Operator].
func (a *Dense) MulTo(dst, x compute.Block, trans bool) {
	checkMul("Dense", a, dst, x, trans)
	a.b.Gemm(trans, false, 1, a.x, x, 0, dst)
}
