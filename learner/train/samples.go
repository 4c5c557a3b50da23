package train

import (
	"slices"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/learner/critic"
	"github.com/dbqpg/dbqpg/proto"
)

// Samples are a batch's m steps on the backend. The first n are the gradient's; the rest are for the Fisher matrix
// alone.
type Samples struct {
	Observations compute.Block // m × o, normalised
	Actions      compute.Block // m × a
	Current      int           // n

	trajectories critic.Trajectories // the gradient's episodes
	final        []float64           // the observations after their ends, one an episode, normalised
	endings      []Ending
}

// Ending is how an episode of a batch ends.
type Ending int

// Episodes end in a terminal state, at their time limit, or with a segment, after which the next batch continues them.
const (
	Terminated Ending = iota
	TimeLimit
	GoesOn
)

func endingOf(e *proto.Episode) Ending {
	switch {
	case e.Terminated:
		return Terminated
	case e.GoesOn:
		return GoesOn
	}
	return TimeLimit
}

// NewSamples normalises the episodes, in order, and uploads them to s. The episodes
// further are for the Fisher matrix alone.
func NewSamples(s *compute.Scope, episodes, further []*proto.Episode, n policy.Normalizer) Samples {
	o, a := episodes[0].ObservationDim(), episodes[0].ActionDim()
	x := Samples{Current: steps(episodes), final: make([]float64, len(episodes)*o)}
	for i, e := range episodes {
		n.Apply(x.final[i*o:(i+1)*o], e.FinalObservation)
		x.endings = append(x.endings, endingOf(e))
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
	x.Observations, x.Actions = s.FromSlice(at, o, observations), s.FromSlice(at, a, actions)
	return x
}

// Trajectories returns the gradient's episodes.
func (x Samples) Trajectories() critic.Trajectories { return x.trajectories }

// observations and actions return the gradient's n rows.
func (x Samples) observations() compute.Block { return x.Observations.RowRange(0, x.Current) }

func (x Samples) actions() compute.Block { return x.Actions.RowRange(0, x.Current) }

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
