// Package evaluate measures a policy's return. It implements `learner evaluate`, and the evaluations during training
// (--evaluate-every).
//
// Episode i of an evaluation has the random stream of (seed, i) under a purpose of its own (package streams), so that
// no evaluation plays an episode of training, for any seed. Its initial state is the same for every policy, with the
// mean action and with sampled ones: differences between policies are not differences of luck at the start. An
// evaluation is a function of policy, task, seed and number of episodes, the same bits on any number of cores of an
// engine class (package tasks).
package evaluate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/rollout"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/sim"
)

// DefaultSeed is the default seed of evaluations, the same for all runs.
const DefaultSeed = 1

// attempts is how often an episode is begun before its error counts. The engine makes the same error each time, but an
// environment in another process may have been killed.
const attempts = 3

// Action is the kind of action that the policy takes.
type Action int

// The actions.
const (
	// Mean is the mean of the policy's distribution, within the task's bounds, as in exported policies.
	Mean Action = iota
	// Sampled is drawn from the distribution, as in training: without bounds.
	Sampled
)

// Episodes describes an evaluation.
type Episodes struct {
	NewEnv     func() (sim.Env, error)
	Shape      policy.Shape
	Params     []float64
	Normalizer policy.Normalizer
	Action     Action
	Seed       uint64
	Count      int // at most
	Workers    int // episodes played at the same time, each in its own environment
	// MaxSteps, if not 0, is at least TimeLimit: no episode is begun that could, with those before it, have more steps.
	MaxSteps, TimeLimit int
	// Busy, if not nil, counts the processor time that they take in this process, in nanoseconds.
	Busy *atomic.Int64
}

// Episode is how one ended.
type Episode struct {
	Return     float64 // undiscounted
	Length     int     // steps
	Terminated bool    // by the task's own rules, and not by the time limit
}

// Both is Play with the mean action and with sampled ones; it ignores e.Action.
func Both(ctx context.Context, e Episodes) (mean, sampled []Episode, err error) {
	e.Action = Mean
	if mean, err = Play(ctx, e); err != nil {
		return nil, nil, err
	}
	e.Action = Sampled
	sampled, err = Play(ctx, e)
	return mean, sampled, err
}

// Play plays the episodes, all or as many as fit into MaxSteps, and returns them in order. The error is an
// environment's, or ctx's.
func Play(ctx context.Context, e Episodes) ([]Episode, error) {
	results, turns := make([]Episode, e.Count), newTurns(&e)
	group, ctx := errgroup.WithContext(ctx)
	for range min(e.Workers, e.Count) {
		group.Go(func() error {
			if e.Busy != nil {
				runtime.LockOSThread() // whose time is taken
				defer runtime.UnlockOSThread()
				before := device.ThreadTime()
				defer func() { e.Busy.Add(int64(device.ThreadTime() - before)) }()
			}
			w, err := newWorker(&e)
			if err != nil {
				return err
			}
			defer w.close()
			for {
				i, more := turns.next()
				if !more {
					return nil
				}
				results[i], err = w.play(ctx, uint64(i))
				if turns.end(results[i].Length, err); err != nil {
					return err
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return results[:turns.begun], nil
}

// worker plays one episode after the other.
type worker struct {
	*Episodes
	actor  *policy.Actor
	env    sim.Env // nil after an error
	spec   sim.Spec
	player *rollout.Player
}

func newWorker(e *Episodes) (*worker, error) {
	actor, err := policy.NewActor(e.Shape, e.Params, e.Normalizer)
	if err != nil {
		return nil, err
	}
	return &worker{Episodes: e, actor: actor}, nil
}

// Act writes the action of a policy for an observation of a task.
func (a Action) Act(actor *policy.Actor, spec *sim.Spec, observation []float32, rng *rand.Rand, action []float32) {
	if a == Sampled {
		actor.Act(observation, rng, action)
		return
	}
	actor.ActMode(observation, rng, action)
	for i := range spec.Low {
		action[i] = min(max(action[i], float32(spec.Low[i])), float32(spec.High[i]))
	}
}

func (w *worker) act(observation []float32, rng *rand.Rand, action []float32) {
	w.Action.Act(w.actor, &w.spec, observation, rng, action)
}

// play plays an episode, after an error again in a new environment.
func (w *worker) play(ctx context.Context, index uint64) (Episode, error) {
	for attempt := 1; ; attempt++ {
		e, err := w.try(ctx, index)
		if err == nil {
			return e, nil
		}
		w.close()
		if ctx.Err() != nil {
			return Episode{}, ctx.Err()
		}
		if attempt == attempts {
			return Episode{}, fmt.Errorf("episode %d: %w", index, err)
		}
	}
}

func (w *worker) try(ctx context.Context, index uint64) (Episode, error) {
	if w.env == nil {
		env, err := w.NewEnv()
		if err != nil {
			return Episode{}, err
		}
		w.env, w.spec, w.player = env, env.Spec(), rollout.NewPlayer(env)
		if spec := w.spec; spec.ObservationDim != w.Shape.Observation || spec.ActionDim != w.Shape.Action {
			return Episode{}, fmt.Errorf("the policy takes %d observations and gives %d actions, but %s has %d and %d",
				w.Shape.Observation, w.Shape.Action, spec.Name, spec.ObservationDim, spec.ActionDim)
		}
	}
	e, err := w.player.Evaluate(w.act, w.Seed, index, func() bool { return ctx.Err() != nil })
	if err != nil {
		return Episode{}, err
	}
	return Episode{Return: e.Return(), Length: e.Steps(), Terminated: e.Terminated}, nil
}

// close frees the environment.
func (w *worker) close() {
	if w.env != nil {
		_ = w.env.Close() // the episodes are played
		w.env = nil
	}
}
