package train

import (
	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/learner/critic"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// Values are the values of states: [Head] or [Network].
type Values interface {
	// At returns V at n states (n × o, normalised).
	At(s *compute.Scope, observations compute.Block) []float64
	// learn learns the returns of a batch's states.
	learn(s *compute.Scope, x Samples, a Advantages) (valued, error)
}

// valued are a batch's n states with the values before these learn from it, and with the returns that they learn.
type valued struct {
	values, returns []float64
	loss            float64  // their mean squared distance
	later           deferred // the part of learning that the policy step does not depend on
}

// Head is the critic's value head, which takes one step towards a batch's discounted returns.
type Head struct{ *critic.Critic }

// At implements [Values].
func (h Head) At(s *compute.Scope, observations compute.Block) []float64 {
	return h.Evaluate(s, observations).Values()
}

func (h Head) learn(s *compute.Scope, x Samples, a Advantages) (valued, error) {
	evaluation := h.Evaluate(s, x.observations())
	v := valued{values: evaluation.Values(), returns: x.trajectories.Returns(a.Gamma)}
	var err error
	v.loss, err = h.StepValue(evaluation, v.returns)
	return v, err
}

// Network is a value function with a network of its own, which learns a batch's lambda-returns in several passes.
type Network struct {
	*critic.ValueFunction
	Epochs int // passes over a batch at most
}

// At implements [Values].
func (n Network) At(s *compute.Scope, observations compute.Block) []float64 {
	return n.Values(s, observations)
}

func (n Network) learn(s *compute.Scope, x Samples, a Advantages) (valued, error) {
	v := valued{values: n.Values(s, x.observations())}
	v.returns = x.trajectories.LambdaReturns(v.values, a.Gamma, a.Lambda)
	distance := floats.Distance(v.values, v.returns, 2)
	v.loss = distance * distance / float64(len(v.values))
	b := s.Backend()
	v.later = func() (func(*runs.Row), error) {
		passes, err := n.Learn(b, x.observations(), v.returns, n.Epochs)
		return func(row *runs.Row) { row.ValuePasses = float64(passes) }, err
	}
	return v, nil
}
