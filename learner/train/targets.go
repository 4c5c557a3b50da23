package train

import (
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/stats"
	"github.com/dbqpg/dbqpg/learner/critic"
)

// Targets turns a batch's rewards into targets for the action values: [Returns] or
// [Advantages].
type Targets interface {
	// of returns n targets, and the deferred part of learning from them.
	of(u *update) ([]float64, deferred, error)
}

// Returns are the discounted returns, not standardised. Experiments alone set Bootstrap and Baseline.
type Returns struct {
	Gamma     float64
	Bootstrap bool     // a time limit's end continues with the value of its last state, as in [Advantages]
	Baseline  Baseline // subtracted from the returns; nil: none. The row's explained variance is the baseline's.
}

// Baseline returns a value for each of the batch's n returns.
type Baseline func(l *Learner, x Samples, returns []float64) ([]float64, error)

func (r Returns) of(u *update) ([]float64, deferred, error) {
	if r.Bootstrap {
		u.x.bootstrap(u.Learner, true)
	}
	targets := u.x.trajectories.Returns(r.Gamma)
	if r.Baseline != nil {
		values, err := r.Baseline(u.Learner, u.x, targets)
		if err != nil {
			return nil, nil, err
		}
		u.row.ExplainedVariance = critic.ExplainedVariance(values, targets)
		floats.Sub(targets, values)
	}
	u.row.TargetStd = stats.StdDev(targets)
	return targets, nil, nil
}

// Advantages are generalised advantages, standardised over the batch. They come from the
// learner's values before these learn from the batch, as in the authors' code.
type Advantages struct {
	Gamma, Lambda float64
	Bootstrap     bool // a time limit's end continues with the value of its last state, as a segment's always does
}

func (a Advantages) of(u *update) ([]float64, deferred, error) {
	s, x := compute.NewScope(u.Backend), u.x
	defer s.Release()
	x.bootstrap(u.Learner, a.Bootstrap)
	v, err := u.Values.learn(s, x, a)
	if err != nil {
		return nil, nil, err
	}
	u.row.ValueLoss, u.row.ExplainedVariance = v.loss, critic.ExplainedVariance(v.values, v.returns)
	targets := x.trajectories.Advantages(v.values, a.Gamma, a.Lambda)
	u.row.TargetStd = stats.StdDev(targets)
	critic.Standardize(targets)
	return targets, v.later, nil
}

// bootstrap sets the values with which trajectories continue: those of the states after segments and, with limit, after
// time limits.
func (x *Samples) bootstrap(l *Learner, limit bool) {
	if !limit && !slices.Contains(x.endings, GoesOn) {
		return
	}
	s := compute.NewScope(l.Backend)
	defer s.Release()
	values := l.Values.At(s, s.FromSlice(len(x.endings), l.Shape.Observation, x.final))
	for i, ending := range x.endings {
		if ending == Terminated || ending == TimeLimit && !limit {
			values[i] = 0
		}
	}
	x.trajectories.Bootstrap = values
}
