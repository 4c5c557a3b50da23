package rollout

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/sim"
)

// ErrStopped reports an episode that was stopped before its end.
var ErrStopped = errors.New("the episode was stopped")

// Player plays episodes one after another, without allocating once its buffers have grown.
type Player struct {
	env     sim.Env
	source  *rand.ChaCha8
	rng     *rand.Rand
	engine  []float64 // the observation as the engine computes it
	seen    []float32 // the same as the policy sees it
	action  []float32 // the action as the policy samples it
	control []float64 // the same as the engine takes it
	episode proto.Episode
	segment proto.Segment
}

// NewPlayer returns a player for env, which nothing else may use from then on. It does not close env.
func NewPlayer(env sim.Env) *Player {
	spec := env.Spec()
	source := rand.NewChaCha8([32]byte{})
	return &Player{
		env:     env,
		source:  source,
		rng:     rand.New(source),
		engine:  make([]float64, spec.ObservationDim),
		seen:    make([]float32, spec.ObservationDim),
		action:  make([]float32, spec.ActionDim),
		control: make([]float64, spec.ActionDim),
	}
}

// Play plays one ticket until the task terminates or reaches a time limit. The episode belongs to the player and is
// valid until the next call. Before each step Play calls stop; if that returns true, the error is ErrStopped and
// StepsPlayed says how far the episode got.
func (p *Player) Play(actor *policy.Actor, ticket proto.Ticket, stop func() bool) (*proto.Episode, error) {
	p.begin(streams.Key(ticket.Seed, streams.Episode, ticket.Batch, ticket.Index))
	p.episode.Ticket = ticket
	return p.play(actor.Act, stop)
}

// PlaySegment plays a segment: start.Steps steps of the ticket's stream, from start.State on. It is otherwise as Play.
func (p *Player) PlaySegment(
	actor *policy.Actor, ticket proto.Ticket, start *proto.Start, stop func() bool,
) (*proto.Segment, error) {
	saver, ok := p.env.(sim.Saver)
	if !ok {
		return nil, fmt.Errorf("%s cannot be played in segments: the state of its environment cannot be saved",
			p.env.Spec().Name)
	}
	p.begin(streams.Key(ticket.Seed, streams.Segments, ticket.Batch, ticket.Index)) // unless the stream has begun
	e, g := &p.episode, &p.segment
	*g = proto.Segment{Ticket: ticket, Ends: g.Ends[:0], Finals: g.Finals[:0], State: g.State}
	step, err := p.resume(saver, start)
	for limit := uint64(p.env.Spec().TimeLimit); err == nil && len(e.Rewards) < int(start.Steps); {
		if stop() {
			return nil, ErrStopped
		}
		if err := p.step(actor.Act); err != nil {
			return nil, fmt.Errorf("step %d of a segment: %w", len(e.Rewards), err)
		}
		step++
		how := proto.GoesOn
		switch {
		case e.Terminated:
			how = proto.Terminated
		case step == limit:
			how = proto.TimeLimit
		}
		g.Ends = append(g.Ends, how)
		if how != proto.GoesOn {
			p.see()
			g.Finals = append(g.Finals, p.seen...)
			step, err = 0, p.reset()
		}
	}
	if err != nil {
		return nil, err
	}
	g.Observations, g.Actions, g.Rewards = e.Observations, e.Actions, e.Rewards
	return g, p.save(saver, step)
}

// resume sets the environment and the random stream to a state, or begins the stream, and returns how many steps the
// episode has had.
func (p *Player) resume(env sim.Saver, start *proto.Start) (step uint64, err error) {
	spec, state := env.Spec(), start.State
	if state == nil {
		if start.Counted >= uint64(spec.TimeLimit) {
			return 0, fmt.Errorf("%w: an episode that begins after %d steps of %s, whose time limit is %d",
				proto.ErrInvalid, start.Counted, spec.Name, spec.TimeLimit)
		}
		return start.Counted, p.reset()
	}
	if state.Task != spec.Name || len(state.Observation) != spec.ObservationDim ||
		state.Step >= uint64(spec.TimeLimit) {
		return 0, fmt.Errorf(
			"%w: a state of %s after %d steps, with %d observations, for %s with %d and a time limit of %d steps",
			proto.ErrInvalid, state.Task, state.Step, len(state.Observation),
			spec.Name, spec.ObservationDim, spec.TimeLimit)
	}
	if err := p.source.UnmarshalBinary(state.Random); err != nil {
		return 0, fmt.Errorf("resume: random numbers: %w", err)
	}
	if err := env.LoadState(state.Physics); err != nil {
		return 0, fmt.Errorf("resume: %w", err)
	}
	for i, x := range state.Observation {
		p.engine[i] = float64(x)
	}
	return state.Step, nil
}

// save records where the stream stands.
func (p *Player) save(env sim.Saver, step uint64) (err error) {
	s := &p.segment.State
	s.Task, s.Step = env.Spec().Name, step
	p.see()
	s.Observation = append(s.Observation[:0], p.seen...)
	s.Physics = env.SaveState(s.Physics[:0])
	s.Random, err = p.source.AppendBinary(s.Random[:0])
	return err
}

// reset starts an episode.
func (p *Player) reset() error {
	if err := p.env.Reset(p.rng, p.engine); err != nil {
		return fmt.Errorf("reset: %w", err)
	}
	return nil
}

// Evaluate is Play for an evaluation's episode of that index, which has no ticket and a random stream that no ticket
// has. act, a method of a [policy.Actor], takes the actions: Act or ActMode.
func (p *Player) Evaluate(act Act, seed, index uint64, stop func() bool) (*proto.Episode, error) {
	p.begin(streams.Key(seed, streams.Evaluation, index))
	return p.play(act, stop)
}

// Act writes the action for an observation.
type Act func(observation []float32, rng *rand.Rand, action []float32)

// play plays an episode from the beginning of its random stream.
func (p *Player) play(act Act, stop func() bool) (*proto.Episode, error) {
	if err := p.reset(); err != nil {
		return nil, err
	}
	e := &p.episode
	remote, _ := p.env.(sim.Remote)
	for limit, ended := p.env.Spec().TimeLimit, false; !ended; {
		if stop() {
			return nil, ErrStopped
		}
		if err := p.step(act); err != nil {
			return nil, fmt.Errorf("step %d: %w", len(e.Rewards), err)
		}
		ended = e.Terminated || len(e.Rewards) == limit || remote != nil && remote.Truncated()
	}
	p.see()
	e.FinalObservation = append(e.FinalObservation, p.seen...)
	return e, nil
}

// StepsPlayed returns how many steps of the last ticket were played.
func (p *Player) StepsPlayed() int { return len(p.episode.Rewards) }

// begin clears the episode and starts its random stream.
func (p *Player) begin(key [32]byte) {
	e := &p.episode
	*e = proto.Episode{
		Observations:     e.Observations[:0],
		FinalObservation: e.FinalObservation[:0],
		Actions:          e.Actions[:0],
		Rewards:          e.Rewards[:0],
	}
	p.source.Seed(key)
}

// step takes one action. The policy acts on the observation as rounded to float32, and the engine on the action as
// rounded: the values that are recorded.
func (p *Player) step(act Act) error {
	e := &p.episode
	p.see()
	e.Observations = append(e.Observations, p.seen...)
	act(p.seen, p.rng, p.action)
	e.Actions = append(e.Actions, p.action...)
	for i, x := range p.action {
		p.control[i] = float64(x)
	}
	reward, terminated, err := p.env.Step(p.control, p.engine)
	if err != nil {
		return err
	}
	e.Rewards = append(e.Rewards, reward)
	e.Terminated = terminated
	return nil
}

// see rounds the engine's observation.
func (p *Player) see() {
	for i, x := range p.engine {
		p.seen[i] = float32(x)
	}
}
