package estimators

import (
	"fmt"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// Fisher is the policy's Fisher information matrix G, p × p, with damping times the
// identity to be added: one matrix for the natural gradient, for the exact Fisher kernel,
// and for the uncertainty of the gradient.
type Fisher struct {
	Matrix  linop.Operator // G without damping
	Damping float64        // positive

	// empirical says that G is P S² P'/n of the batch's own decomposition, all of it that the
	// uncertainty needs, so that this is known in closed form.
	empirical bool
}

// NewFisher returns the Fisher matrix g (p × p), such as the policy's analytic one. It panics unless
// damping is positive.
func NewFisher(g linop.Operator, damping float64) Fisher {
	if !(damping > 0) {
		panic(fmt.Sprintf("estimators: damping %g, want a positive number", damping))
	}
	return Fisher{Matrix: g, Damping: damping}
}

// EmpiricalFisher returns UU'/n of the scores u (p × n) (eqn:kernel_equations). In the
// uncertainty their decomposition takes u's place. It panics unless damping is positive.
func EmpiricalFisher(b compute.Backend, u linop.Operator, damping float64) Fisher {
	f := NewFisher(linop.NewEmpiricalFisher(b, u), damping)
	f.empirical = true
	return f
}

// Metric returns G + damping I, the metric of the natural gradient d: (G + damping I) d = g.
func (f Fisher) Metric(b compute.Backend) linop.Operator {
	p, _ := f.Matrix.Dims()
	return linop.NewSum(b, f.Matrix, linop.NewScaledIdentity(b, p, f.Damping))
}
