package train

import (
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/learner/critic"
	"github.com/dbqpg/dbqpg/proto"
)

// Samples are a batch's n steps on the backend, and its episodes' rewards on the
// host.
type Samples struct {
	observations compute.Block // n × o, normalised
	actions      compute.Block // n × a
	trajectories critic.Trajectories
	final        []float64 // the observations after the episodes' ends, one an episode, normalised
	terminated   []bool    // whether the task ended the episode, or else its time limit
}

// NewSamples normalises the episodes, in order, and uploads them to s.
func NewSamples(s *compute.Scope, episodes []*proto.Episode, n policy.Normalizer) Samples {
	steps, o, a := 0, episodes[0].ObservationDim(), episodes[0].ActionDim()
	for _, e := range episodes {
		steps += e.Steps()
	}
	x := Samples{
		final:      make([]float64, len(episodes)*o),
		terminated: make([]bool, len(episodes)),
	}
	observations, actions := make([]float64, steps*o), make([]float64, 0, steps*a)
	at := 0
	for i, e := range episodes {
		n.Apply(observations[at*o:(at+e.Steps())*o], e.Observations)
		n.Apply(x.final[i*o:(i+1)*o], e.FinalObservation)
		for _, v := range e.Actions {
			actions = append(actions, float64(v))
		}
		x.terminated[i] = e.Terminated
		x.trajectories.Rewards = append(x.trajectories.Rewards, e.Rewards...)
		x.trajectories.Lengths = append(x.trajectories.Lengths, e.Steps())
		at += e.Steps()
	}
	x.observations = s.FromSlice(steps, o, observations)
	x.actions = s.FromSlice(steps, a, actions)
	return x
}

// size is n.
func (x Samples) size() int { return x.observations.Rows }
