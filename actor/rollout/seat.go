package rollout

import (
	"context"
	"fmt"
	"runtime"

	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/sim"
)

// seat is where episodes are played, one at a time: a thread, an environment, and the policy that was needed there last.
type seat struct {
	env     sim.Env // nil before the first episode
	player  *Player
	version *proto.Policy // the policy that actor evaluates
	actor   *policy.Actor
}

// run gives the slots their turns, until there are no more. A slot is nearly always waiting for its turn when another's
// ends, so the thread never sleeps, and stays on its core. Goroutines that change threads with each episode wake up on
// one core again and again, while another stands idle but for some messages: that took a tenth of the steps.
func (s *seat) run(ctx context.Context, turns <-chan *slot) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for slot := range turns {
		slot.outcome <- slot.turn(ctx, s)
	}
	return s.close()
}

// prepare makes the environment and the actor for a policy, unless they are there.
func (s *seat) prepare(p *proto.Policy, newEnv func(task string) (sim.Env, error)) error {
	if s.version == p {
		return nil
	}
	if s.env == nil || s.env.Spec().Name != p.Task {
		if err := s.close(); err != nil {
			return err
		}
		env, err := newEnv(p.Task)
		if err != nil {
			return fmt.Errorf("task %s of run %s: %w", p.Task, p.Run, err)
		}
		s.env, s.player = env, NewPlayer(env)
	}
	spec := s.env.Spec()
	shape := policy.Shape{Observation: spec.ObservationDim, Action: spec.ActionDim, Hidden: p.Hidden}
	actor, err := policy.NewActor(shape, p.Params, policy.Normalizer{Mean: p.Mean, Std: p.Std, Clip: p.Clip})
	if err != nil {
		return fmt.Errorf("the policy of run %s, iteration %d: %w", p.Run, p.Iteration, err)
	}
	s.version, s.actor = p, actor
	return nil
}

func (s *seat) close() error {
	if s.env == nil {
		return nil
	}
	env := s.env
	s.env, s.player = nil, nil
	if err := env.Close(); err != nil {
		return fmt.Errorf("close an environment: %w", err)
	}
	return nil
}
