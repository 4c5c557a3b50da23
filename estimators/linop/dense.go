package linop

import "github.com/dbqpg/dbqpg/estimators/compute"

// Dense is a matrix that is stored, for tests and small factors.
type Dense struct {
	b compute.Backend
	x compute.Block
}

// NewDense makes an operator of the block x, which it keeps.
func NewDense(b compute.Backend, x compute.Block) *Dense { return &Dense{b, x} }

// Dims implements [Operator].
func (a *Dense) Dims() (rows, cols int) { return a.x.Rows, a.x.Cols }

// MulTo implements [Operator].
func (a *Dense) MulTo(dst, x compute.Block, trans bool) {
	checkMul("Dense", a, dst, x, trans)
	a.b.Gemm(trans, false, 1, a.x, x, 0, dst)
}
