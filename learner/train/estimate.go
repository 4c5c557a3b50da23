package train

import (
	"errors"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/learner/critic"
	"github.com/dbqpg/dbqpg/learner/optim"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/learner/state"
)

// Estimation is an estimate of the policy gradient, before a policy step.
type Estimation struct {
	At        *Evaluation
	Objective optim.Objective
	Estimator estimators.Estimator
}

// Estimate runs an iteration's update in s up to its policy step. The critic learns from the batch for this estimate
// alone: it is restored afterwards.
func (l *Learner) Estimate(x Samples, s *compute.Scope, r Random, iteration uint64) (e Estimation, err error) {
	row := runs.NewRow()
	row.Iteration = iteration
	u := l.update(x, s, r, &row, nil)
	u.rest = nil
	if l.Critic != nil {
		before := state.Save(l.Critic.Visit)
		defer func() { err = errors.Join(err, state.Restore(before, l.Critic.Visit)) }()
	}
	err = u.each(stage{"scores", u.scores}, stage{"targets", u.targets}, stage{"decomposition", u.decomposition},
		stage{"kernel step", u.kernelStep}, stage{"estimate", u.integrate})
	if err != nil {
		return Estimation{}, err
	}
	return Estimation{u.at, u.objective(u.estimate), u.estimator}, nil
}

// Fixed is a [Process] that keeps its hyperparameters and features.
type Fixed struct{ Process }

func (Fixed) learn(u *update, embedding *critic.Evaluation, _ *estimators.Quadrature) (deferred, error) {
	features := embedding.Features()
	u.at.Features = u.s.New(features.Rows, features.Cols)
	compute.Copy(u.Backend, u.at.Features, features)
	return nil, nil
}
