package optim

import (
	"errors"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// NPG ascends the natural gradient with Adam, whose state is its own.
type NPG struct{ *Adam }

// NewNPG returns the algorithm for n policy parameters.
func NewNPG(n int, learningRate float64) NPG {
	return NPG{NewAdam(n, learningRate, DefaultWeightDecay)}
}

// Step implements [Algorithm].
func (a NPG) Step(params []float64, o Objective) (Report, error) {
	s := compute.NewScope(o.Policy.Backend())
	defer s.Release()
	report := Report{GradientNorm: o.norm(s.Backend())}
	natural, solve, err := o.natural(s)
	if report.Solve = solve; err != nil {
		return report, err
	}
	err = a.ascend(s, params, o, "natural gradient", natural, &report)
	return report, err
}

// Natural returns the natural gradient (p × 1), in s, before any correction.
func (o Objective) Natural(s *compute.Scope) (compute.Block, error) {
	d, _, err := o.natural(s)
	return d, err
}

// natural solves G d = g for the natural gradient (p × 1), with the damped Fisher
// matrix G. As in the authors' code a solution that has not converged in the most
// iterations (50 there) is used as it is.
func (o Objective) natural(s *compute.Scope) (compute.Block, linop.Result, error) {
	b := s.Backend()
	if _, err := o.download("gradient", o.Gradient); err != nil {
		return compute.Block{}, linop.Result{}, err
	}
	cg := o.CG
	if o.SVD != nil {
		// G is U U'/n or its expectation, so that U's leading part leaves little of its
		// spectrum above the damping for conjugate gradients to find.
		cg.Preconditioner = o.SVD.Preconditioner(s, 1/float64(o.Policy.Samples()), o.Fisher.Damping)
	}
	d := s.New(o.Gradient.Rows, 1)
	result, err := cg.Solve(b, o.Fisher.Metric(b), d, o.Gradient)
	if late := (*linop.NotConvergedError)(nil); errors.As(err, &late) {
		err = nil
	}
	return d, result, err
}
