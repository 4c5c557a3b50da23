package train

import (
	"slices"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/stats"
	"github.com/dbqpg/dbqpg/learner/critic"
	"github.com/dbqpg/dbqpg/learner/progress"
)

// Targets turns a batch's rewards into targets for the action values: [Returns] or
// [Advantages].
type Targets interface {
	// of returns n targets, and has the learner's value function learn where they need one.
	of(l *Learner, x Samples, row *progress.Row) ([]float64, error)
}

// Returns are the discounted returns, not standardised.
type Returns struct{ Gamma float64 }

func (r Returns) of(_ *Learner, x Samples, row *progress.Row) ([]float64, error) {
	targets := x.trajectories.Returns(r.Gamma)
	row.TargetStd = stats.StdDev(targets)
	return targets, nil
}

// Advantages are generalised advantages, standardised over the batch. They come from the
// values before the value function's step, as in the authors' code.
type Advantages struct {
	Gamma, Lambda float64
	Bootstrap     bool // a time limit's end continues with the value of its last state, as a segment's always does
}

func (a Advantages) of(l *Learner, x Samples, row *progress.Row) ([]float64, error) {
	s := compute.NewScope(l.Backend)
	defer s.Release()
	if a.Bootstrap || slices.Contains(x.goesOn, true) {
		x.trajectories.Bootstrap = l.continuations(x, a.Bootstrap)
	}
	evaluation := l.Critic.Evaluate(s, x.observations)
	values, returns := evaluation.Values(), x.trajectories.Returns(a.Gamma)
	loss, err := l.Critic.StepValue(evaluation, returns)
	if err != nil {
		return nil, err
	}
	row.ValueLoss, row.ExplainedVariance = loss, critic.ExplainedVariance(values, returns)
	targets := x.trajectories.Advantages(values, a.Gamma, a.Lambda)
	row.TargetStd = stats.StdDev(targets)
	critic.Standardize(targets)
	return targets, nil
}

// continuations returns the values of the states after the episodes' ends: 0 if the
// task ended them or, without limit, their time limit did.
func (l *Learner) continuations(x Samples, limit bool) []float64 {
	s := compute.NewScope(l.Backend)
	defer s.Release()
	final := s.FromSlice(len(x.terminated), l.Shape.Observation, x.final)
	values := l.Critic.Evaluate(s, final).Values()
	for i, terminated := range x.terminated {
		if terminated || !limit && !x.goesOn[i] {
			values[i] = 0
		}
	}
	return values
}
