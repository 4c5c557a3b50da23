package train

import (
	"slices"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/learner/critic"
	"github.com/dbqpg/dbqpg/proto"
)

// Samples are a batch's n steps on the backend, and its episodes' rewards on the
// host. Behind the n steps there may be more, m in all, for the Fisher matrix alone.
type Samples struct {
	observations compute.Block                                 // n × o, normalised
	actions      compute.Block                                 // n × a
	fisher       struct{ observations, actions compute.Block } // m × o, m × a
	trajectories critic.Trajectories
	final        []float64 // the observations after the episodes' ends, one an episode, normalised
	terminated   []bool    // whether the task ended the episode, or else its time limit or the segment
	goesOn       []bool    // whether the segment did, so that the next one continues it
}

// NewSamples normalises the episodes, in order, and uploads them to s. The episodes
// further are for the Fisher matrix alone.
func NewSamples(s *compute.Scope, episodes, further []*proto.Episode, n policy.Normalizer) Samples {
	o, a := episodes[0].ObservationDim(), episodes[0].ActionDim()
	x := Samples{
		final:      make([]float64, len(episodes)*o),
		terminated: make([]bool, len(episodes)),
		goesOn:     make([]bool, len(episodes)),
	}
	for i, e := range episodes {
		n.Apply(x.final[i*o:(i+1)*o], e.FinalObservation)
		x.terminated[i], x.goesOn[i] = e.Terminated, e.GoesOn
		x.trajectories.Rewards = append(x.trajectories.Rewards, e.Rewards...)
		x.trajectories.Lengths = append(x.trajectories.Lengths, e.Steps())
	}
	all := slices.Concat(episodes, further)
	observations, actions := make([]float64, steps(all)*o), make([]float64, 0, steps(all)*a)
	at := 0
	for _, e := range all {
		n.Apply(observations[at*o:(at+e.Steps())*o], e.Observations)
		for _, v := range e.Actions {
			actions = append(actions, float64(v))
		}
		at += e.Steps()
	}
	x.fisher.observations = s.FromSlice(at, o, observations)
	x.fisher.actions = s.FromSlice(at, a, actions)
	x.observations = x.fisher.observations.RowRange(0, steps(episodes))
	x.actions = x.fisher.actions.RowRange(0, steps(episodes))
	return x
}

// size returns n.
func (x Samples) size() int { return x.observations.Rows }

// steps returns the total number of steps of the episodes.
func steps(episodes []*proto.Episode) (sum int) {
	for _, e := range episodes {
		sum += e.Steps()
	}
	return sum
}

// prefix returns the shortest prefix of the episodes with at least so many steps.
func prefix(episodes []*proto.Episode, atLeast int) []*proto.Episode {
	for i, e := range episodes {
		if atLeast -= e.Steps(); atLeast <= 0 {
			return episodes[:i+1]
		}
	}
	return episodes
}
