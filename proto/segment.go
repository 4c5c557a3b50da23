package proto

import (
	"fmt"
	"math/rand/v2"
)

// A State is the state of a stream of episodes between two steps: another actor continues from it, and every later
// step is the same to the last bit.
type State struct {
	// Task names the task.
	Task string
	// Step counts the episode's steps so far.
	Step uint64
	// Random is the state of the stream's random numbers, as math/rand/v2's ChaCha8 encodes it.
	Random Array[byte]
	// Observation is the one for the next action, of length o.
	Observation Array[float32]
	// Physics is the environment's state, as sim.Saver has it.
	Physics Array[float64]
}

// size bounds the encoding's length from above.
func (s *State) size() int {
	const headers = 256 // and the numbers
	return headers + len(s.Task) + len(s.Random) + 4*len(s.Observation) + 8*len(s.Physics)
}

func (s *State) check() error {
	if err := checkName("task", s.Task); err != nil {
		return err
	}
	if len(s.Observation) == 0 || len(s.Physics) == 0 {
		return fmt.Errorf("%w: a state of %d observations and %d numbers", ErrShape, len(s.Observation), len(s.Physics))
	}
	if size := s.size(); size > MaxState {
		return fmt.Errorf("%w: a state of %d bytes, at most %d are allowed", ErrTooLarge, size, MaxState)
	}
	if err := new(rand.ChaCha8).UnmarshalBinary(s.Random); err != nil {
		return fmt.Errorf("random: %w: %w", ErrInvalid, err)
	}
	return firstError(finite("observation", s.Observation, 1), finite("physics", s.Physics, 1))
}

// A Start is the beginning of a ticket's segment. The ticket's Index is then the number of its stream.
type Start struct {
	// Steps is the segment's length.
	Steps uint64
	// Counted is the number of steps that a stream's first episode counts before it has begun, so that its time limit
	// comes sooner, and not all streams' at the same time.
	Counted uint64
	// State is the stream's state; nil means its beginning.
	State *State
}

func (s *Start) check() error {
	if s.Steps == 0 || s.Steps > MaxSegment {
		return fmt.Errorf("steps: %w: %d, 1 to %d are allowed", ErrInvalid, s.Steps, MaxSegment)
	}
	if s.State != nil {
		if s.Counted > 0 {
			return fmt.Errorf("counted: %w: %d, with a state", ErrInvalid, s.Counted)
		}
		return s.State.check()
	}
	return nil
}

// End says how a step of a segment ended.
type End = byte

// The ends.
const (
	GoesOn     End = iota // the episode goes on
	Terminated            // the task ended the episode
	TimeLimit             // the time limit ended the episode

	ends
)

// A Segment is the result of the ticket of a segment: T steps of a stream of episodes, one after another. Dimensions
// and types are as in [Episode].
type Segment struct {
	Ticket Ticket
	Engine string
	// Observations is T x o, Actions T x a, and Rewards has length T.
	Observations Array[float32]
	Actions      Array[float32]
	Rewards      Array[float64]
	// Ends has length T. The step after one that ended an episode is the first of the next episode.
	Ends Array[End]
	// Finals has a row for each episode that ended: the observation after its last action.
	Finals Array[float32]
	// State is the stream's state after the segment.
	State State
}

// PlayedOn sets Engine.
func (s *Segment) PlayedOn(engine string) { s.Engine = engine }

// Steps returns T.
func (s *Segment) Steps() int { return len(s.Rewards) }

// ObservationDim returns o.
func (s *Segment) ObservationDim() int { return len(s.State.Observation) }

// ActionDim returns a.
func (s *Segment) ActionDim() int { return len(s.Actions) / max(s.Steps(), 1) }

// Episodes splits the segment into episodes, which share its memory. before is the part of the first episode that was
// played in earlier segments; after is the same for the next segment.
func (s *Segment) Episodes(before Before) (episodes []*Episode, after Before) {
	o, a, finals := s.ObservationDim(), s.ActionDim(), s.Finals
	first := 0
	cut := func(end int, final []float32, how End) {
		e := &Episode{
			Ticket: s.Ticket, Engine: s.Engine, Before: before,
			Observations: s.Observations[first*o : end*o : end*o], FinalObservation: final,
			Actions: s.Actions[first*a : end*a : end*a], Rewards: s.Rewards[first:end:end],
			Terminated: how == Terminated, GoesOn: how == GoesOn,
		}
		episodes = append(episodes, e)
		first, before = end, Before{}
	}
	for t, how := range s.Ends {
		if how != GoesOn {
			cut(t+1, finals[:o:o], how)
			finals = finals[o:]
		}
	}
	if first < s.Steps() {
		cut(s.Steps(), s.State.Observation, GoesOn)
		last := episodes[len(episodes)-1]
		after = Before{Steps: last.Before.Steps + last.Steps(), Return: last.Return(), Partial: last.Before.Partial}
	}
	return episodes, after
}

func (s *Segment) kind() string { return "segment" }
func (s *Segment) limit() int   { return MaxEpisode }
func (s *Segment) check() error {
	if err := firstError(s.Ticket.check(), checkLength("engine", s.Engine, MaxName), s.State.check()); err != nil {
		return err
	}
	steps, o := s.Steps(), s.ObservationDim()
	if steps == 0 || steps > MaxSegment || len(s.Actions) == 0 ||
		len(s.Observations) != steps*o || len(s.Actions)%steps != 0 || len(s.Ends) != steps {
		return fmt.Errorf("%w: %d rewards, %d observations of dimension %d, %d actions, %d ends",
			ErrShape, steps, len(s.Observations), o, len(s.Actions), len(s.Ends))
	}
	finished := 0
	for t, how := range s.Ends {
		if how >= ends {
			return fmt.Errorf("ends: %w: %d at step %d", ErrInvalid, how, t)
		}
		if how != GoesOn {
			finished++
		}
	}
	if len(s.Finals) != finished*o {
		return fmt.Errorf("finals: %w: %d numbers for the ends of %d episodes", ErrShape, len(s.Finals), finished)
	}
	return firstError(
		finite("observations", s.Observations, o),
		finite("actions", s.Actions, s.ActionDim()),
		finite("rewards", s.Rewards, 1),
		finite("finals", s.Finals, o),
	)
}
