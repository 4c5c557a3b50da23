package rollout

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/sim"
)

// executor plays episodes one at a time. It has a thread, an environment for each task, and the policy that was used
// last.
type executor struct {
	envs    map[string]sim.Env // by task, of which there are few
	players map[string]*Player
	player  *Player       // of the last task
	version *proto.Policy // the policy that actor evaluates
	actor   *policy.Actor
	remote  bool // whether the last task's environment is a sim.Remote
}

func newExecutor() *executor {
	return &executor{envs: make(map[string]sim.Env), players: make(map[string]*Player)}
}

// run plays for one ready slot after the other, until there are no more. A slot is nearly always ready when another's
// episode ends, so the thread never sleeps, and stays on its core. Goroutines that change threads with each episode
// wake up on one core again and again, while another stands idle but for some messages: that took a tenth of the
// steps.
func (e *executor) run(ctx context.Context, ready <-chan *slot) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for slot := range ready {
		slot.outcome <- slot.playOn(ctx, e)
	}
	return e.close()
}

// prepare makes the environment and the actor for a policy unless they exist.
func (e *executor) prepare(p *proto.Policy, newEnv func(task string) (sim.Env, error)) error {
	if e.version == p {
		return nil
	}
	env, err := e.env(p.Task, newEnv)
	if err != nil {
		return fmt.Errorf("task %s of run %s: %w", p.Task, p.Run, err)
	}
	spec := env.Spec()
	shape := policy.ShapeOf(spec, p.Hidden)
	actor, err := policy.NewActor(shape, p.Params, policy.Normalizer{Mean: p.Mean, Std: p.Std, Clip: p.Clip})
	if err != nil {
		return fmt.Errorf("the policy of run %s, batch %d: %w", p.Run, p.Batch, err)
	}
	e.player, e.version, e.actor = e.players[p.Task], p, actor
	_, e.remote = env.(sim.Remote)
	return nil
}

// env returns the environment of a task.
func (e *executor) env(task string, newEnv func(task string) (sim.Env, error)) (sim.Env, error) {
	env, found := e.envs[task]
	if !found {
		var err error
		if env, err = newEnv(task); err != nil {
			return nil, err
		}
		e.envs[task], e.players[task] = env, NewPlayer(env)
	}
	return env, nil
}

// A result is a *proto.Episode or a *proto.Segment.
type result interface {
	proto.Message
	Steps() int
	PlayedOn(engine string)
}

// play plays a ticket: on the executor's own thread if the environment is the engine's; executors that wait for another
// process share threads, at half the cost (BenchmarkGymnasium).
func (e *executor) play(ticket proto.Ticket, start *proto.Start, stop func() bool) (result, error) {
	if e.remote {
		runtime.UnlockOSThread()
		defer runtime.LockOSThread()
	}
	if start != nil {
		return e.player.PlaySegment(e.actor, ticket, start, stop)
	}
	return e.player.Play(e.actor, ticket, stop)
}

// close frees the environments.
func (e *executor) close() error {
	var errs []error
	for _, env := range e.envs {
		if err := env.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close an environment: %w", err))
		}
	}
	return errors.Join(errs...)
}
