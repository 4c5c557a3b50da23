package linop

import "github.com/dbqpg/dbqpg/estimators/compute"

// ScaledIdentity is s I, such as the covariance of a Gaussian process's observation noise or
// the damping of a Fisher matrix.
type ScaledIdentity struct {
	b compute.Backend
	n int
	s float64
}

// NewScaledIdentity returns s times the identity of order n.
func NewScaledIdentity(b compute.Backend, n int, s float64) *ScaledIdentity {
	return &ScaledIdentity{b, n, s}
}

// Dims implements [Operator].
func (a *ScaledIdentity) Dims() (rows, cols int) { return a.n, a.n }

// MulTo implements [Operator].
func (a *ScaledIdentity) MulTo(dst, x compute.Block, trans bool) {
	checkMul("ScaledIdentity", a, dst, x, trans)
	a.b.Affine(dst, a.s, x, 0, 0)
}
