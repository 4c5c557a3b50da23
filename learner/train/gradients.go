package train

import (
	"errors"
	"math/rand/v2"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/learner/progress"
	"github.com/dbqpg/dbqpg/proto"
)

// Gradients are estimates of the policy gradient from the same samples, p numbers each. None is natural.
type Gradients struct{ MonteCarlo, DBQPG, UAPG []float64 }

// Gradients estimates the gradient of the current policy from the episodes that it played, in every way. If learn is
// set, the critic learns from them first as in an update (one step on the value loss where there are advantages, one
// on the marginal likelihood), so that these are the gradients that the update would have followed; otherwise it is
// taken as it is. Either way it is afterwards what it was, and the policy takes no step. The run's estimator must be
// Bayesian. rng draws the sketches.
func (r *Run) Gradients(episodes []*proto.Episode, learn bool, rng *rand.Rand) (g Gradients, err error) {
	scope := compute.NewScope(r.Backend)
	defer scope.Release()
	u := r.measurement(scope, episodes, rng)
	u.Bayesian, u.Aware = true, true
	before := u.Critic.State()
	restore := func() error { return u.Critic.Restore(before) }
	defer func() { err = errors.Join(err, restore()) }()

	stages := []func() error{u.evaluate, u.judge, u.decompose, u.learnKernel, u.condition, u.estimate}
	if !learn {
		stages = []func() error{u.evaluate, u.judge, restore, u.decompose, u.condition, u.estimate}
	}
	for _, stage := range stages {
		if err := stage(); err != nil {
			return g, err
		}
	}
	gradient := u.objective.Gradient
	g.DBQPG = compute.ToSlice(r.Backend, gradient)
	u.objective.Correct(gradient)
	g.UAPG = compute.ToSlice(r.Backend, gradient)
	g.MonteCarlo = u.monteCarlo()
	return g, nil
}

// ControlledGradient is a Monte-Carlo gradient from n samples with a baseline for a control variate.
type ControlledGradient struct {
	Gradient []float64 // with the targets less the baseline, p; of the same expectation as Plain
	Plain    []float64 // with the targets as they are, p
	Baseline []float64 // the weights of the baseline fitted on these samples, for others
}

// MonteCarloGradient estimates the gradient of the current policy from the episodes that it played, with the critic as
// it is. baseline are the weights of one fitted on other episodes of the same policy, or a mean of such; nil: none.
func (r *Run) MonteCarloGradient(episodes []*proto.Episode, baseline []float64) (g ControlledGradient, err error) {
	scope := compute.NewScope(r.Backend)
	defer scope.Release()
	u := r.measurement(scope, episodes, nil)
	features := u.baselineFeatures() // before the critic has seen these targets
	if u.Critic != nil {
		before := u.Critic.State()
		defer func() { err = errors.Join(err, u.Critic.Restore(before)) }()
	}
	if err := errors.Join(u.evaluate(), u.judge()); err != nil {
		return g, err
	}
	if g.Baseline, err = fitBaseline(scope, features, u.targets); err != nil {
		return g, err
	}
	g.Plain = u.monteCarlo()
	if baseline != nil {
		weights := scope.FromSlice(len(baseline), 1, baseline)
		u.Backend.Gemm(false, false, -1, features, weights, 1, u.targets)
	}
	g.Gradient = u.monteCarlo()
	return g, nil
}

// measurement is an update of a learner that follows the plain gradient, with the run's parameters.
func (r *Run) measurement(scope *compute.Scope, episodes []*proto.Episode, rng *rand.Rand) *update {
	l, row := *r.Learner, progress.NewRow()
	l.Vanilla, l.ActorCritic = true, false
	return &update{Learner: &l, Samples: NewSamples(scope, episodes, nil, r.Normalizer()), scope: scope, rng: rng, row: &row}
}

// monteCarlo is U y / n.
func (u *update) monteCarlo() []float64 {
	gradient := u.scope.New(len(u.Params), 1)
	estimators.MonteCarlo(u.Backend, gradient, u.scores, u.targets)
	return compute.ToSlice(u.Backend, gradient)
}
