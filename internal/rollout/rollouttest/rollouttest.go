// Package rollouttest plays single tickets, and provides a policy for the toy of package simtest.
package rollouttest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/rollout"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/sim"
)

// Play plays one ticket. The episode is a function of the ticket, the actor's policy and the task.
func Play(ctx context.Context, env sim.Env, actor *policy.Actor, ticket proto.Ticket) (*proto.Episode, error) {
	e, err := rollout.NewPlayer(env).Play(actor, ticket, func() bool { return ctx.Err() != nil })
	if errors.Is(err, rollout.ErrStopped) {
		err = fmt.Errorf("%w: %w", err, ctx.Err())
	}
	return e, err
}

// Policy returns a policy for the toy with one hidden layer of four; Run, Epoch and Task are left to the learner.
func Policy(iteration uint64) *proto.Policy {
	rng := rand.New(rand.NewPCG(iteration, 0))
	p := &proto.Policy{
		Batch: iteration, Hidden: []int{4}, Params: make([]float64, 4*3+4+2*4+2+2),
		Mean: []float64{0, 0.1, -0.1}, Std: []float64{1, 2, 0.5}, Clip: 5,
	}
	for i := range p.Params {
		p.Params[i] = 0.3 * rng.NormFloat64()
	}
	return p
}
