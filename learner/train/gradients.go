package train

import (
	"errors"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/learner/progress"
	"github.com/dbqpg/dbqpg/proto"
)

// Gradients are estimates of the policy gradient (not the natural gradient) from the same samples, p numbers each.
type Gradients struct{ MonteCarlo, DBQPG, UAPG []float64 }

// Gradients estimates the gradient of the current policy from the episodes that it played, with every estimator. If learn
// is set, the critic first learns from them as in an update (one step on the value loss if there are advantages, one on
// the marginal likelihood), so that these are the gradients that the update would have followed; otherwise it is used as
// it is. Either way it is restored afterwards, and the policy takes no step. The run's estimator must be Bayesian.
func (r *Run) Gradients(episodes []*proto.Episode, learn bool, random Random) (g Gradients, err error) {
	l, s, row := *r.Learner, compute.NewScope(r.Backend), progress.NewRow()
	defer s.Release()
	quadrature := *l.Quadrature
	quadrature.Correction = func(*Evaluation, Random) estimators.Correction {
		return estimators.UAPG{Decompose: estimators.Projected}
	}
	l.Quadrature = &quadrature
	before := l.Critic.State()
	restore := func() error { return l.Critic.Restore(before) }
	defer func() { err = errors.Join(err, restore()) }()

	x := NewSamples(s, episodes, nil, r.Normalizer())
	at, err := l.judged(s, x, &row)
	if err != nil {
		return g, err
	}
	if !learn {
		if err := restore(); err != nil {
			return g, err
		}
	}
	if err := l.Decompose(s, at, random); err != nil {
		return g, err
	}
	monteCarlo, err := estimators.MonteCarlo{}.Estimate(s, &at.Batch)
	if err != nil {
		return g, err
	}
	var estimator estimators.Estimator
	if learn {
		estimator, err = l.learnKernel(s, at, x, random, &row)
	} else {
		l.center(at)
		at.Features = l.Critic.Embed(s, x.observations).Features()
		estimator, err = l.Estimator(s, at, l.kernel(at), random)
	}
	if err != nil {
		return g, err
	}
	bayesian, err := estimator.Estimate(s, &at.Batch)
	if err != nil {
		return g, err
	}
	g.MonteCarlo = at.Expand(monteCarlo.Gradient)
	g.DBQPG = at.Expand(bayesian.Gradient)
	bayesian.Correct(bayesian.Gradient)
	g.UAPG = at.Expand(bayesian.Gradient)
	return g, nil
}

// Evaluation evaluates the current policy on the episodes that it played, with their targets and features, in s, and the
// process's kernel. The critic learns nothing. The run's estimator must be Bayesian.
func (r *Run) Evaluation(s *compute.Scope, episodes []*proto.Episode) (_ *Evaluation, _ gp.Kernel, err error) {
	x, row, before := NewSamples(s, episodes, nil, r.Normalizer()), progress.NewRow(), r.Critic.State()
	at, err := r.judged(s, x, &row)
	if err := errors.Join(err, r.Critic.Restore(before)); err != nil {
		return nil, gp.Kernel{}, err
	}
	at.Features = r.Critic.Embed(s, x.observations).Features()
	r.center(at)
	return at, r.kernel(at), nil
}

// judged returns the evaluation of the policy on the samples, with their targets.
func (l *Learner) judged(s *compute.Scope, x Samples, row *progress.Row) (*Evaluation, error) {
	targets, _, err := l.Targets.of(l, x, row)
	if err != nil {
		return nil, err
	}
	at := l.Evaluate(s, l.Params, x.fisher.observations, x.fisher.actions, x.size())
	at.Targets = s.FromSlice(x.size(), 1, targets)
	return at, nil
}

// ControlledGradient is a Monte Carlo gradient from n samples with a baseline as control variate.
type ControlledGradient struct {
	Gradient []float64 // with the baseline subtracted from the targets, p; has the same expectation as Plain
	Plain    []float64 // with the unchanged targets, p
	Baseline []float64 // the weights of the baseline fitted on these samples, for others
}

// MonteCarloGradient estimates the gradient of the current policy from the episodes that it played, with the current
// critic. baseline contains the weights of a baseline fitted to other episodes of the same policy, or a mean of such; nil
// means none.
func (r *Run) MonteCarloGradient(episodes []*proto.Episode, baseline []float64) (g ControlledGradient, err error) {
	s, row := compute.NewScope(r.Backend), progress.NewRow()
	defer s.Release()
	x := NewSamples(s, episodes, nil, r.Normalizer())
	features := r.baselineFeatures(s, x) // before the critic has seen these targets
	if r.Critic != nil {
		before := r.Critic.State()
		defer func() { err = errors.Join(err, r.Critic.Restore(before)) }()
	}
	at, err := r.judged(s, x, &row)
	if err != nil {
		return g, err
	}
	if g.Baseline, err = fitBaseline(s, features, at.Targets); err != nil {
		return g, err
	}
	plain, err := estimators.MonteCarlo{}.Estimate(s, &at.Batch)
	if err != nil {
		return g, err
	}
	g.Plain = at.Expand(plain.Gradient)
	if baseline != nil {
		weights := s.FromSlice(len(baseline), 1, baseline)
		r.Backend.Gemm(false, false, -1, features, weights, 1, at.Targets)
	}
	controlled, err := estimators.MonteCarlo{}.Estimate(s, &at.Batch)
	if err != nil {
		return g, err
	}
	g.Gradient = at.Expand(controlled.Gradient)
	return g, nil
}
