package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/session"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/tasks"
)

// sampler plays batches the way training does, over a NATS server in this process.
type sampler struct {
	task      sim.Spec
	actors    int
	params    []float64
	moments   policy.Moments
	collector *collect.Collector
	iteration uint64
}

const seed = 1

// withSampler calls body with a sampler and that many local actors.
func withSampler(ctx context.Context, task sim.Spec, actors int,
	body func(ctx context.Context, s *sampler) error) error {
	shape := policy.ShapeOf(task, policy.DefaultHidden())
	return session.Sample(ctx, session.Sampling{Task: task, Seed: seed, Actors: actors},
		func(ctx context.Context, collector *collect.Collector) error {
			return body(ctx, &sampler{
				task: task, actors: actors, collector: collector,
				params:  shape.Init(streams.New(seed, streams.Policy), nil),
				moments: policy.NewMoments(task.ObservationDim),
			})
		})
}

// collect plays a batch of at least that many steps with the initial policy, the
// observations normalised as in the batch before.
func (s *sampler) collect(ctx context.Context, steps int) (*collect.Batch, error) {
	batch, err := s.collector.Collect(ctx, collect.Order{Policy: s.policy(), Steps: steps})
	if err != nil {
		return nil, err
	}
	s.iteration++
	for _, e := range batch.Episodes {
		s.moments.Add(e.Observations)
	}
	return batch, nil
}

// policy returns the initial policy for the next batch.
func (s *sampler) policy() *proto.Policy {
	n := s.moments.Normalizer(5)
	return &proto.Policy{Batch: s.iteration, Hidden: policy.DefaultHidden(), Params: s.params, Mean: n.Mean, Std: n.Std,
		Clip: n.Clip}
}

// bare returns how long the engine alone takes for a batch's episodes: mj_step in C from
// the same states under the same actions, on as many threads.
func (s *sampler) bare(ctx context.Context, batch *collect.Batch) (time.Duration, error) {
	envs := make([]sim.Env, s.actors)
	for i := range envs {
		env, err := tasks.New(s.task.Name)
		if err != nil {
			return 0, err
		}
		defer env.Close()
		envs[i] = env
	}
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	start := time.Now()
	for _, env := range envs {
		group.Go(func() error {
			for i := next.Add(1) - 1; i < int64(len(batch.Episodes)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if err := replay(env, batch.Episodes[i]); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	err := group.Wait()
	return time.Since(start), err
}

// replay plays an episode's actions in the engine alone.
func replay(env sim.Env, e *proto.Episode) error {
	engine, ok := env.(interface {
		Loop(controls []float64) error
	})
	if !ok {
		return fmt.Errorf("bench: %s cannot run the bare engine", env.Spec().Name)
	}
	rng := streams.New(e.Ticket.Seed, streams.Episode, e.Ticket.Batch, e.Ticket.Index)
	if err := env.Reset(rng, make([]float64, env.Spec().ObservationDim)); err != nil {
		return err
	}
	controls := make([]float64, len(e.Actions))
	for i, v := range e.Actions {
		controls[i] = float64(v)
	}
	return engine.Loop(controls)
}
