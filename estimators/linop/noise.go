package linop

import "github.com/dbqpg/dbqpg/estimators/compute"

// Noise is s I: the observation noise of a Gaussian process, the damping of a
// Fisher matrix.
type Noise struct {
	b compute.Backend
	n int
	s float64
}

// NewNoise makes s times the identity of order n.
func NewNoise(b compute.Backend, n int, s float64) *Noise { return &Noise{b, n, s} }

// Dims implements [Operator].
func (a *Noise) Dims() (rows, cols int) { return a.n, a.n }

// MulTo implements [Operator].
func (a *Noise) MulTo(dst, x compute.Block, trans bool) {
	checkMul("Noise", a, dst, x, trans)
	a.b.Affine(dst, a.s, x, 0, 0)
}
