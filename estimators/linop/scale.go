package linop

import "github.com/dbqpg/dbqpg/estimators/compute"

// Scale is a number times an operator.
type Scale struct {
	b     compute.Backend
	alpha float64
	a     Operator
}

// NewScale makes alpha A.
func NewScale(b compute.Backend, alpha float64, a Operator) *Scale { return &Scale{b, alpha, a} }

// Dims implements [Operator].
func (a *Scale) Dims() (rows, cols int) { return a.a.Dims() }

// MulTo implements [Operator].
func (a *Scale) MulTo(dst, x compute.Block, trans bool) {
	a.a.MulTo(dst, x, trans)
	compute.Scale(a.b, a.alpha, dst)
}
