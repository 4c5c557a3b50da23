package train

import (
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/learner/optim"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// improve takes the policy step, and fills in what the row says of it.
func (l *Learner) improve(at *Evaluation, x Samples, e *estimators.Estimate, row *runs.Row) error {
	before := slices.Clone(l.Params)
	report, err := l.Optimizer.Step(l.Params, l.objective(at, x, e))
	if err != nil {
		return err
	}
	row.KL, row.GradientNorm, row.StepNorm = report.KL, report.GradientNorm, floats.Distance(before, l.Params, 2)
	switch l.Optimizer.(type) {
	case *optim.TRPO:
		row.CGIterations, row.Backtracks = float64(report.Solve.Iterations), float64(report.Halvings)
	case optim.NPG:
		row.CGIterations = float64(report.Solve.Iterations)
	}
	return nil
}

// objective returns what a policy step maximises. U's truncated decomposition preconditions the
// natural gradient's solution, unless it is a sketch of a large batch with fewer than two
// samples per parameter: then it is too noisy to save iterations (Ant), or even costs some
// (HumanoidStandup). Of 2,000 samples and the rest of an episode it saves most of them (after a
// million steps 10 are as good as 50 without it on Hopper, and 15 better on HalfCheetah).
func (l *Learner) objective(at *Evaluation, x Samples, e *estimators.Estimate) optim.Objective {
	objective := optim.Objective{Policy: at.policy, Actions: x.actions, Fisher: at.Fisher, Estimate: e, CG: l.CG,
		TargetVariance: at.variance}
	if m := at.onAll.Samples(); m <= largeBatch || m >= 2*objective.Gradient.Rows {
		objective.SVD = at.SVD
	}
	return objective
}

// largeBatch is the number of samples above which [Learner.objective] judges a decomposition by how many samples there
// are to a parameter.
const largeBatch = 3000
