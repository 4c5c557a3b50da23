package collect

import (
	"fmt"
	"slices"

	"github.com/dbqpg/dbqpg/proto"
)

// A Stream is one of the sequences of episodes that are played in segments, a segment a batch.
type Stream struct {
	// State is the state to continue from; nil means the beginning.
	State *proto.State
	// Before is the part of the current episode that was played.
	Before proto.Before
}

// NewStreams returns n streams at their beginning. If episodes take the full time limit, theirs end at evenly spaced
// times, so that a batch has steps of all parts of an episode: the first episode of stream i counts i/n of the time
// limit before it has begun.
func NewStreams(n, timeLimit int) []Stream {
	streams := make([]Stream, n)
	for i := range streams {
		if counted := i * timeLimit / n; counted > 0 {
			streams[i].Before = proto.Before{Steps: counted, Partial: true}
		}
	}
	return streams
}

// segments is the state of an iteration of segments besides its ledger; ticket i is stream i's.
type segments struct {
	steps         int // of all of them
	before, after []Stream
}

// length returns the number of steps of a ticket's segment: if they cannot be divided evenly, the first have one more
// than the others.
func (s *segments) length(ticket int) int {
	n := len(s.before)
	if ticket < s.steps%n {
		return s.steps/n + 1
	}
	return s.steps / n
}

// newSegments returns the segments of an order, whose tickets are like t; nil for whole episodes.
func newSegments(order Order, c *Config, t proto.Ticket) (*segments, error) {
	if len(order.Streams) == 0 {
		return nil, nil
	}
	s := &segments{steps: order.Steps, before: slices.Clone(order.Streams), after: make([]Stream, len(order.Streams))}
	return s, s.check(c, t)
}

// check makes sure that actors can play the segments and send them.
func (s *segments) check(c *Config, t proto.Ticket) error {
	if c.stateSize == 0 {
		return fmt.Errorf("%s cannot be played in segments: the state of its environment cannot be saved", c.Task.Name)
	}
	if size := maxSegment(c.Task.ObservationDim, c.Task.ActionDim, s.length(0)); size > proto.MaxEpisode {
		return fmt.Errorf("%w: segments of %d steps of %s take up to %d bytes, at most %d are allowed",
			proto.ErrTooLarge, s.length(0), c.Task.Name, size, proto.MaxEpisode)
	}
	for i, stream := range s.before {
		t.Index = uint64(i)
		if stream.State != nil {
			if stream.Before.Steps != int(stream.State.Step) {
				return fmt.Errorf("stream %d: %w: %d steps of the episode, and %d in its state",
					i, proto.ErrInvalid, stream.Before.Steps, stream.State.Step)
			}
			if err := c.checkState(stream.State); err != nil {
				return fmt.Errorf("stream %d: %w", i, err)
			}
		}
		if _, err := proto.Marshal(nil, &proto.Reply{Next: &t, Start: s.start(t)}); err != nil {
			return fmt.Errorf("stream %d: %w", i, err)
		}
	}
	return nil
}

// start returns the start of a ticket's segment, nil for an episode.
func (s *segments) start(t proto.Ticket) *proto.Start {
	if s == nil {
		return nil
	}
	stream := s.before[t.Index]
	start := &proto.Start{Steps: uint64(s.length(int(t.Index))), State: stream.State}
	if start.State == nil {
		start.Counted = uint64(stream.Before.Steps)
	}
	return start
}

// restart lets the ticket's stream start anew, because no actor can go on from its state: the simulation may have
// diverged, or an actor may have made it up. Where the simulation is at fault all actors agree, so the batch is a
// function of the streams nevertheless. It returns false if the stream stood at a beginning.
func (s *segments) restart(t proto.Ticket) bool {
	stream := &s.before[t.Index]
	if stream.State == nil {
		return false
	}
	*stream = Stream{}
	return true
}

// decode decodes and checks a ticket's segment, and returns its episodes and the stream after it.
func (s *segments) decode(c *Config, data []byte, t proto.Ticket) ([]*proto.Episode, Stream, error) {
	g := new(proto.Segment)
	if err := proto.Unmarshal(data, g); err != nil {
		return nil, Stream{}, err
	}
	stream := s.before[t.Index]
	if err := c.checkSegment(g, t, s.length(int(t.Index)), stream.Before.Steps); err != nil {
		return nil, Stream{}, err
	}
	if o := c.Task.ObservationDim; stream.State != nil && !slices.Equal(g.Observations[:o], stream.State.Observation) {
		return nil, Stream{}, fmt.Errorf("%w: a segment that starts with another observation than its state",
			proto.ErrInvalid)
	}
	episodes, before := g.Episodes(stream.Before)
	state := g.State
	return episodes, Stream{State: &state, Before: before}, nil
}

// checkSegment compares a segment with its ticket and the task; played is how many steps its first episode had had.
func (c *Config) checkSegment(g *proto.Segment, t proto.Ticket, steps, played int) error {
	task := c.Task
	switch {
	case g.Ticket != t:
		return fmt.Errorf("%w: the segment of %v came as that of %v", proto.ErrInvalid, g.Ticket, t)
	case g.ObservationDim() != task.ObservationDim || g.ActionDim() != task.ActionDim:
		return fmt.Errorf("%w: %d observations and %d actions a step, %s has %d and %d",
			proto.ErrShape, g.ObservationDim(), g.ActionDim(), task.Name, task.ObservationDim, task.ActionDim)
	case g.Steps() != steps:
		return fmt.Errorf("%w: a segment of %d steps, asked for were %d", proto.ErrInvalid, g.Steps(), steps)
	}
	for i, how := range g.Ends {
		played++
		if how != proto.Terminated && (played == task.TimeLimit) != (how == proto.TimeLimit) {
			return fmt.Errorf(
				"%w: step %d of a segment is the %dth of its episode and ends with %d, with a time limit of %d",
				proto.ErrInvalid, i, played, how, task.TimeLimit)
		}
		if how != proto.GoesOn {
			played = 0
		}
	}
	if g.State.Step != uint64(played) {
		return fmt.Errorf("%w: a state after %d steps of the episode, the segment ends after %d",
			proto.ErrInvalid, g.State.Step, played)
	}
	if err := task.CheckActions(g.Actions); err != nil {
		return fmt.Errorf("%w: %w", proto.ErrInvalid, err)
	}
	return c.checkState(&g.State)
}

// checkState compares a state with the task.
func (c *Config) checkState(s *proto.State) error {
	if s.Task != c.Task.Name || len(s.Observation) != c.Task.ObservationDim || len(s.Physics) != c.stateSize ||
		s.Step >= uint64(c.Task.TimeLimit) {
		return fmt.Errorf("%w: a state of %s with %d observations and %d numbers after %d steps, "+
			"for %s with %d and %d, at most %d steps an episode",
			proto.ErrInvalid, s.Task, len(s.Observation), len(s.Physics), s.Step,
			c.Task.Name, c.Task.ObservationDim, c.stateSize, c.Task.TimeLimit)
	}
	return nil
}

// maxSegment returns the size of the longest encoding of a segment: each of its steps ends an episode.
func maxSegment(o, a, steps int) uint64 {
	return uint64(steps*(4*(2*o+a)+8+1) + proto.MaxState + proto.MaxControl)
}
