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

// MulTo implements [Operator]: one product with U' and one with U.
func (a *EmpiricalFisher) MulTo(dst, x compute.Block, trans bool) {
	checkMul("EmpiricalFisher", a, dst, x, trans)
	s := compute.NewScope(a.b)
	defer s.Release()
	inner := Mul(s, a.scores, x, true)
	a.scores.MulTo(dst, inner, false)
	compute.Scale(a.b, 1/float64(inner.Rows), dst)
}
