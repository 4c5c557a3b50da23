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

// Play plays one ticket until the task terminates or reaches its time limit. The episode belongs to the player and is
// valid until the next call. Before each step Play calls stop; if that returns true, the error is ErrStopped and
// StepsPlayed says how far the episode got.
func (p *Player) Play(actor *policy.Actor, ticket proto.Ticket, stop func() bool) (*proto.Episode, error) {
	p.begin(streams.Key(ticket.Seed, streams.Episode, ticket.Iteration, ticket.Index))
	p.episode.Ticket = ticket
	return p.play(actor.Act, stop)
}

// Evaluate is Play for an evaluation's episode of that index, which has no ticket and a random stream that no ticket
// has. act, a method of a [policy.Actor], takes the actions: Act or ActMean.
func (p *Player) Evaluate(act Act, seed, index uint64, stop func() bool) (*proto.Episode, error) {
	p.begin(streams.Key(seed, streams.Evaluation, index))
	return p.play(act, stop)
}

// Act writes the action for an observation.
type Act func(observation []float32, rng *rand.Rand, action []float32)

// play plays an episode from the beginning of its random stream.
func (p *Player) play(act Act, stop func() bool) (*proto.Episode, error) {
	if err := p.env.Reset(p.rng, p.engine); err != nil {
		return nil, fmt.Errorf("reset: %w", err)
	}
	e := &p.episode
	for limit := p.env.Spec().TimeLimit; len(e.Rewards) < limit && !e.Terminated; {
		if stop() {
			return nil, ErrStopped
		}
		if err := p.step(act); err != nil {
			return nil, fmt.Errorf("step %d: %w", len(e.Rewards), err)
		}
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
