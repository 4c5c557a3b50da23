package optim

import (
	"errors"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// DefaultDamping is the multiple of the identity that the Fisher matrix gets.
const DefaultDamping = 0.1

// NPG climbs the natural gradient with Adam.
type NPG struct {
	adam    *Adam
	damping float64
}

// NewNPG returns the algorithm for n policy parameters; damping times the identity is
// added to the Fisher matrix.
func NewNPG(n int, learningRate, damping float64) *NPG {
	return &NPG{NewAdam(n, learningRate, DefaultWeightDecay), damping}
}

// Step implements [Algorithm].
func (a *NPG) Step(params []float64, o Objective) (Report, error) {
	s := compute.NewScope(o.Policy.Backend())
	defer s.Release()
	report := Report{GradientNorm: o.norm(s.Backend())}
	natural, solve, err := o.natural(s, a.damping)
	if report.Solve = solve; err != nil {
		return report, err
	}
	d, err := download(s.Backend(), "natural gradient", o.corrected(s, natural))
	if err != nil {
		return report, err
	}
	ascend(a.adam, params, d)
	report.arrive(o.Policy, o.Policy.At(s, params))
	return report, nil
}

// State implements [Algorithm].
func (a *NPG) State() State { return a.adam.State() }

// Restore implements [Algorithm].
func (a *NPG) Restore(s State) error { return a.adam.Restore(s) }

// natural solves G d = g for the natural gradient (p × 1), G being the damped
// Fisher matrix. As in the authors' code a solution that has not converged in 50
// iterations is used as it is.
func (o Objective) natural(s *compute.Scope, damping float64) (compute.Block, linop.Result, error) {
	b := s.Backend()
	if _, err := download(b, "gradient", o.Gradient); err != nil {
		return compute.Block{}, linop.Result{}, err
	}
	cg := linop.CG{}
	if o.SVD != nil {
		// G is the expectation of U U'/n + damping I, so that U's leading part leaves
		// little of G's spectrum above the damping for conjugate gradients to find.
		cg.Preconditioner = o.SVD.Preconditioner(s, 1/float64(o.Policy.Samples()), damping)
	}
	d := s.New(o.Gradient.Rows, 1)
	result, err := cg.Solve(b, o.fisher(damping), d, o.Gradient)
	if late := (*linop.NotConvergedError)(nil); errors.As(err, &late) {
		err = nil
	}
	return d, result, err
}
