package linop

import "github.com/dbqpg/dbqpg/estimators/compute"

// EmpiricalFisher is the Fisher matrix G = UU'/n, p × p, of the scores U of n samples
// (paper, eqn:kernel_equations).
type EmpiricalFisher struct {
	b      compute.Backend
	scores Operator // U, p × n
}

// NewEmpiricalFisher makes G of the scores u (p × n), which it keeps.
func NewEmpiricalFisher(b compute.Backend, u Operator) *EmpiricalFisher {
	return &EmpiricalFisher{b, u}
}

// Dims implements [Operator].
func (a *EmpiricalFisher) Dims() (rows, cols int) {
	p, _ := a.scores.Dims()
	return p, p
}

// MulTo implements [Operator]: a product with U' and one with U, at once where U can.
func (a *EmpiricalFisher) MulTo(dst, x compute.Block, trans bool) {
	checkMul("EmpiricalFisher", a, dst, x, trans)
	if u, ok := a.scores.(interface{ MulSquare(dst, x compute.Block) }); ok {
		u.MulSquare(dst, x)
	} else {
		s := compute.NewScope(a.b)
		defer s.Release()
		a.scores.MulTo(dst, Mul(s, a.scores, x, true), false)
	}
	_, n := a.scores.Dims()
	compute.Scale(a.b, 1/float64(n), dst)
}
