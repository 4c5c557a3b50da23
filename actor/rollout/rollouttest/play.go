package rollouttest

import (
	"context"
	"errors"
	"fmt"

	"github.com/dbqpg/dbqpg/actor/rollout"
	"github.com/dbqpg/dbqpg/internal/policy"
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
