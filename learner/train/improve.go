package train

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/learner/optim"
	"github.com/dbqpg/dbqpg/learner/progress"
)

// improve takes the policy step, then further ones from the same batch for as long as the
// process vouches for them, and fills in what the row says of them.
func (l *Learner) improve(at *Evaluation, x Samples, e *estimators.Estimate, r Random, row *progress.Row) error {
	before := slices.Clone(l.Params)
	report, err := l.step(l.Params, at, x, e)
	if err != nil {
		return err
	}
	row.KL, row.GradientNorm, row.PolicySteps = report.KL, report.GradientNorm, 1
	switch l.Optimizer.(type) {
	case *optim.TRPO:
		row.CGIterations, row.Backtracks = float64(report.Solve.Iterations), float64(report.Halvings)
	case optim.NPG:
		row.CGIterations = float64(report.Solve.Iterations)
	}
	for vouched := !report.Rejected; vouched && int(row.PolicySteps) < l.PolicySteps; {
		if vouched, err = l.stepAgain(at, x, r); err != nil {
			return fmt.Errorf("step %v: %w", row.PolicySteps+1, err)
		}
		if vouched {
			row.PolicySteps++
		}
	}
	if row.PolicySteps > 1 {
		s := compute.NewScope(l.Backend)
		defer s.Release()
		row.KL = at.policy.KL(at.policy.At(s, l.Params))
	}
	row.StepNorm = floats.Distance(before, l.Params, 2)
	return nil
}

// step takes one policy step from params.
func (l *Learner) step(params []float64, at *Evaluation, x Samples, e *estimators.Estimate) (optim.Report, error) {
	return l.Optimizer.Step(params, l.objective(at, x, e))
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

// largeBatch is the number of samples above which [Learner.objective] judges a decomposition by how many samples there are to a parameter.
const largeBatch = 3000

// stepAgain takes another step from samples that the current policy did not take, as
// quadrature may (docs/reuse.md): it conditions the process on them with the current scores
// and, by the ratios of the actions' probabilities, the current Fisher matrix, and integrates it in
// the Fisher kernel's span, in which the natural gradient is taken too. The process models the
// advantages of the policy that took them, so that this climbs the surrogate objective that
// a trust region bounds. The step is taken if the gain that the process expects of it exceeds
// the gain's standard deviation: the posterior's own trust region, as in uncertainty-aware
// TRPO (Queeney, Paschalidis and Cassandras 2021). It reports whether it was.
func (l *Learner) stepAgain(first *Evaluation, x Samples, r Random) (taken bool, err error) {
	s := compute.NewScope(l.Backend)
	defer s.Release()
	m := l.Method
	at := m.Evaluate(s, l.Params, x.observations, x.actions, x.size())
	at.Ages, at.Targets, at.Features = first.Ages, first.Targets, first.Features
	scores := at.allScores.OfMean(s)
	at.Scores = scores
	svd, err := linop.Decompose(s, scores, m.Rank, r.Sketch)
	if err != nil {
		return false, err
	}
	if at.SVD, err = svd.Reweighted(s, first.policy.Ratios(at.policy, x.actions)[:x.current().size()]); err != nil {
		return false, err
	}
	at.Fisher = estimators.SpanFisher(s, at.SVD, m.Damping)
	quadrature, err := m.Estimator(s, at, l.kernel(first), r)
	if err != nil {
		return false, err
	}
	quadrature.Integral = estimators.SpanIntegral{}
	estimate, err := quadrature.Estimate(s, &at.Batch)
	if err != nil {
		return false, err
	}
	params := slices.Clone(l.Params)
	if report, err := l.step(params, at, x, estimate); err != nil || report.Rejected {
		return false, err
	}
	gain, deviation, err := estimate.Gain(s, at.policy.Direction(s, l.Params, params))
	if err != nil || !(gain > deviation) {
		return false, err
	}
	copy(l.Params, params)
	return true, nil
}
