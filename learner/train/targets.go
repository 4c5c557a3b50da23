package train

import (
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/stats"
	"github.com/dbqpg/dbqpg/learner/critic"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// Targets turns a batch's rewards into targets for the action values: [Returns] or
// [Advantages].
type Targets interface {
	// of returns n targets, and what they teach the value function that they need; nil if nothing is left to learn.
	of(l *Learner, x Samples, row *runs.Row) ([]float64, deferred, error)
	// raw returns targets that are not standardised, from which nothing learns.
	raw(l *Learner, x Samples) []float64
}

// Returns are the discounted returns, not standardised.
type Returns struct {
	Gamma float64
	// Bootstrap makes a time limit's end continue with the value of its last state, as in [Advantages]; for
	// measurements alone.
	Bootstrap bool
}

func (r Returns) of(_ *Learner, x Samples, row *runs.Row) ([]float64, deferred, error) {
	targets := x.trajectories.Returns(r.Gamma)
	row.TargetStd = stats.StdDev(targets)
	return targets, nil, nil
}

func (r Returns) raw(l *Learner, x Samples) []float64 {
	if r.Bootstrap {
		x.trajectories.Bootstrap = l.continuations(x, true)
	}
	return x.trajectories.Returns(r.Gamma)
}

// Advantages are generalised advantages, standardised over the batch. They come from the
// values before the value function learns from the batch, as in the authors' code.
type Advantages struct {
	Gamma, Lambda float64
	Bootstrap     bool // a time limit's end continues with the value of its last state, as a segment's always does
	Epochs        int  // passes over a batch that a value function with a network of its own makes at most
}

func (a Advantages) of(l *Learner, x Samples, row *runs.Row) ([]float64, deferred, error) {
	s := compute.NewScope(l.Backend)
	defer s.Release()
	a.bootstrap(l, &x)
	learn := a.step
	if l.Value != nil {
		learn = a.converge
	}
	values, later, err := learn(l, s, x, row)
	if err != nil {
		return nil, nil, err
	}
	targets := x.trajectories.Advantages(values, a.Gamma, a.Lambda)
	row.TargetStd = stats.StdDev(targets)
	critic.Standardize(targets)
	return targets, later, nil
}

func (a Advantages) raw(l *Learner, x Samples) []float64 {
	s := compute.NewScope(l.Backend)
	defer s.Release()
	a.bootstrap(l, &x)
	return x.trajectories.Advantages(l.values(s, x.observations), a.Gamma, a.Lambda)
}

// bootstrap sets the values that x's trajectories go on with.
func (a Advantages) bootstrap(l *Learner, x *Samples) {
	if a.Bootstrap || slices.Contains(x.goesOn, true) {
		x.trajectories.Bootstrap = l.continuations(*x, a.Bootstrap)
	}
}

// step returns the value head's values, and takes a step towards the returns.
func (a Advantages) step(l *Learner, s *compute.Scope, x Samples, row *runs.Row) ([]float64, deferred, error) {
	evaluation := l.Critic.Evaluate(s, x.observations)
	values, returns := evaluation.Values(), x.trajectories.Returns(a.Gamma)
	loss, err := l.Critic.StepValue(evaluation, returns)
	row.ValueLoss, row.ExplainedVariance = loss, critic.ExplainedVariance(values, returns)
	return values, nil, err
}

// converge returns the value function's values, and has it learn their lambda-returns afterwards.
func (a Advantages) converge(l *Learner, s *compute.Scope, x Samples, row *runs.Row) ([]float64, deferred, error) {
	values := l.Value.Values(s, x.observations)
	returns := x.trajectories.LambdaReturns(values, a.Gamma, a.Lambda)
	distance := floats.Distance(values, returns, 2)
	row.ValueLoss, row.ExplainedVariance = distance*distance/float64(len(values)),
		critic.ExplainedVariance(values, returns)
	return values, func() error {
		passes, err := l.Value.Learn(l.Backend, x.observations, returns, a.Epochs)
		row.ValuePasses = float64(passes)
		return err
	}, nil
}

// values returns the values of states (n × o, normalised).
func (l *Learner) values(s *compute.Scope, observations compute.Block) []float64 {
	if l.Value != nil {
		return l.Value.Values(s, observations)
	}
	return l.Critic.Evaluate(s, observations).Values()
}

// continuations returns the values of the states after the episodes' ends: 0 if the
// task ended them or, without limit, their time limit did.
func (l *Learner) continuations(x Samples, limit bool) []float64 {
	s := compute.NewScope(l.Backend)
	defer s.Release()
	values := l.values(s, s.FromSlice(len(x.terminated), l.Shape.Observation, x.final))
	for i, terminated := range x.terminated {
		if terminated || !limit && !x.goesOn[i] {
			values[i] = 0
		}
	}
	return values
}
