// Package train is the training loop: batches of episodes in, policies out, and a
// checkpoint after each.
//
// An iteration plays the policy, turns the batch into one policy step
// ([Learner.Update], the paper's Algorithm 1), and merges the batch into the
// observation normaliser, which is frozen meanwhile. Iterations are numbered from 0, and
// iteration t plays the policy of checkpoint t, that after t steps: the row of iteration t
// tells how good that policy is. One batch before them only initialises the normaliser;
// its steps count too. All randomness comes from streams derived from the run's seed and
// the iteration, so the state between two iterations is a few arrays and counters,
// and a run resumed from it is bit-identical to one that never stopped.
package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/stats"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/learner/state"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/sim"
)

// Collector collects batches: collect.Collector.
type Collector interface {
	Collect(ctx context.Context, order collect.Order) (*collect.Batch, error)
}

// Journal records a run's iterations durably: runs.Run.
type Journal interface {
	// Start saves the initial state of a run and its evaluation, nil for none, and sets state.Best.
	Start(state *runs.State, evaluation *runs.Evaluation) error
	// Commit saves an iteration's row, the state after it and that state's evaluation, nil for none, and sets
	// state.Best.
	Commit(state *runs.State, row runs.Row, evaluation *runs.Evaluation) error
}

// Run is one training run. Set its fields, then call Start or Resume, then Train.
type Run struct {
	*Learner
	Task       string // its name
	Seed       uint64
	Length     config.Length
	BatchSteps int       // minimum number of steps in a batch
	Segment    int       // steps of a segment; 0: batches of whole episodes
	TimeLimit  int       // the task's
	Clip       float64   // bound on normalised observations
	Low, High  []float64 // bounds of actions, which checkpoints have for playing the policy

	Collector   Collector
	Journal     Journal
	Evaluations Evaluations
	// Replay, if not nil, plays a batch again without actors: collect.Collector.Replay.
	Replay func(ctx context.Context, batch *collect.Batch) (*collect.Batch, error)
	// Report, if not nil, is told of each iteration once it is committed, and of the best policy so far.
	Report func(row runs.Row, batch *collect.Batch, best *runs.Best)
	// Observe, if not nil, is told of each iteration as it proceeds.
	Observe *observe.Run

	counters  runs.Counters
	saved     *runs.State // before the iteration in progress
	moments   policy.Moments
	streams   []collect.Stream // where the streams stand; nil: at their beginnings
	warm      bool             // the state is another run's, and not saved yet
	resumedAt time.Time        // when this process started or resumed the run
	elapsed   time.Duration
	finishing *finishing // nil: no iteration is
}

// NewRun returns the run that valid settings describe. The caller must set its collector and journal.
func NewRun(b compute.Backend, s *config.Settings, task sim.Spec) *Run {
	return &Run{
		Learner: New(b, s, task), Task: task.Name, Seed: s.Seed, Length: s.Length, BatchSteps: s.Batch,
		Segment: s.Segment, TimeLimit: task.TimeLimit, Clip: s.Clip,
		Low: task.Low, High: task.High, Evaluations: Evaluations{Every: s.EvaluateEvery},
	}
}

// Train runs until the run is complete, ctx is done or an error occurs, such as a
// [*compute.Failure] of the device. The last checkpoint is then the state after the last
// iteration that was committed.
func (r *Run) Train(ctx context.Context) error {
	r.resumedAt, r.elapsed = time.Now(), r.counters.Elapsed
	switch {
	case r.warm:
		r.start(ctx)
	case r.moments.Count == 0:
		if err := r.initialize(ctx); err != nil {
			return err
		}
	}
	r.warm = false
	for !r.reached() {
		if err := r.iterate(ctx, r.counters.Iteration); err != nil {
			return err
		}
	}
	_, err := r.settle()
	return err
}

// reached reports whether the run is complete.
func (r *Run) reached() bool { return r.Length.Reached(r.counters.Iteration, r.counters.Steps) }

// initialize plays one batch for the normaliser only: with its initial mean 0 and standard
// deviation 1, the first policy step would be taken on badly scaled observations.
func (r *Run) initialize(ctx context.Context) (err error) {
	ctx, end := r.Observe.Iteration(ctx, 0, 0)
	defer end(&err)
	batch, err := r.collect(ctx, 0)
	if err != nil {
		return err
	}
	r.streams = batch.Streams
	r.count(batch)
	r.normalize(batch.Episodes)
	r.start(ctx)
	return nil
}

// start saves the initial state.
func (r *Run) start(ctx context.Context) { r.finish(ctx, func() error { return nil }, r.Journal.Start) }

// iterate runs one iteration: it samples a batch, while the iteration before is finished, and learns from it.
func (r *Run) iterate(ctx context.Context, number uint64) (err error) {
	ctx, end := r.Observe.Iteration(ctx, number, batchOf(number))
	defer end(&err)
	busy := device.ProcessorTime()
	batch, err := r.collect(ctx, batchOf(number))
	evaluating, unfinished := r.settle()
	switch {
	case err == nil && unfinished != nil:
		return unfinished // which names its own iteration
	case err == nil:
		err = r.learn(ctx, number, batch, busy+evaluating)
		if failed := new(compute.Failure); err != nil && !errors.As(err, &failed) && r.Replay != nil {
			err = r.learnAgain(ctx, number, batch, busy+evaluating, err)
		}
	}
	if err != nil {
		return fmt.Errorf("iteration %d: %w", number, err)
	}
	return nil
}

// learn takes the policy step from an iteration's batch. busy is the processor time that the iteration does not count.
func (r *Run) learn(ctx context.Context, number uint64, batch *collect.Batch, busy time.Duration) (err error) {
	defer compute.Catch(&err)
	row, collected := runs.NewRow(), time.Now()
	row.Iteration = number
	r.streams = batch.Streams
	r.describe(&row, batch)
	episodes := prefix(batch.Episodes, r.gradientSteps(batch))
	rest, err := r.step(ctx, &row, episodes, batch.Episodes[len(episodes):])
	if err != nil {
		return err
	}
	r.normalize(episodes)
	row.SecondsSampling, row.SecondsUpdating = batch.Stats.Elapsed.Seconds(), time.Since(collected).Seconds()
	row.SecondsElapsed, row.SecondsProcessor = r.sinceStart().Seconds(), (device.ProcessorTime() - busy).Seconds()
	r.counters.Iteration = number + 1
	r.finish(ctx, rest, func(state *runs.State, evaluation *runs.Evaluation) error {
		if err := r.Journal.Commit(state, row, evaluation); err != nil {
			return err
		}
		if r.Report != nil {
			r.Report(row, batch, state.Best)
		}
		return nil
	})
	return nil
}

// learnAgain makes an update that failed numerically again, from the learner's own replay of the batch: an actor may have
// sent finite nonsense. If the replay is the same batch, the failure is the run's.
func (r *Run) learnAgain(
	ctx context.Context, number uint64, batch *collect.Batch, busy time.Duration, failed error,
) error {
	own, err := r.Replay(ctx, batch)
	if err != nil || own == nil {
		return errors.Join(failed, err)
	}
	if err := state.Restore(r.saved.Arrays, r.visit); err != nil {
		return errors.Join(failed, err)
	}
	r.counters = r.saved.Counters
	return r.learn(ctx, number, own, busy)
}

// batchOf returns the number of an iteration's batch, which its tickets and its random streams
// have: batch 0 only initialises the normaliser.
func batchOf(iteration uint64) uint64 { return iteration + 1 }

// collect plays the current policy.
func (r *Run) collect(ctx context.Context, number uint64) (_ *collect.Batch, err error) {
	ctx, end := observe.Span(ctx, "collect")
	defer end(&err)
	order := collect.Order{Policy: r.Policy(number), Steps: r.BatchSteps, Streams: r.streams}
	switch {
	case r.Segment > 0:
		order.Steps = r.segmentSteps()
		if order.Streams == nil {
			order.Streams = collect.NewStreams(r.numStreams(), r.TimeLimit)
		}
	case number > 0: // further samples are for the Fisher matrix
		order.Steps = int(math.Ceil(r.FisherSamples * float64(order.Steps)))
	}
	return r.Collector.Collect(ctx, order)
}

// Normalizer returns the observation normaliser of the next iteration.
func (r *Run) Normalizer() policy.Normalizer { return r.moments.Normalizer(r.Clip) }

// Policy returns the message that asks for a batch of the current policy, under the batch's number.
func (r *Run) Policy(batch uint64) *proto.Policy {
	n := r.Normalizer()
	return &proto.Policy{
		Batch:  batch,
		Hidden: r.Shape.Hidden,
		Params: r.Params,
		Mean:   n.Mean,
		Std:    n.Std,
		Clip:   n.Clip,
	}
}

// step takes the policy step, and returns the rest of the update. The episodes further are for the Fisher matrix alone.
func (r *Run) step(ctx context.Context, row *runs.Row, episodes, further []*proto.Episode) (
	rest func() error, err error,
) {
	ctx, end := observe.Span(ctx, "update")
	defer end(&err)
	scope := compute.NewScope(r.Backend)
	x := NewSamples(scope, episodes, further, r.Normalizer())
	u := r.update(x, scope, NewRandom(r.Seed, batchOf(row.Iteration)), row, r.Observe.Stages(ctx))
	if err := u.run(); err != nil {
		scope.Release()
		return nil, err
	}
	return func() error {
		defer scope.Release()
		return u.finish()
	}, nil
}

// normalize merges the episodes' observations into the normaliser, in ticket order.
func (r *Run) normalize(episodes []*proto.Episode) {
	for _, e := range episodes {
		r.moments.Add(e.Observations)
	}
}

// count adds a batch to the run's numbers of steps and episodes.
func (r *Run) count(batch *collect.Batch) {
	r.counters.Steps += uint64(batch.Steps)
	for _, e := range batch.Episodes {
		if !e.GoesOn {
			r.counters.Episodes++
		}
	}
}

// describe fills in the columns of the batch itself.
func (r *Run) describe(row *runs.Row, batch *collect.Batch) {
	r.count(batch)
	row.Steps, row.Episodes = r.counters.Steps, r.counters.Episodes
	var returns []float64
	length := 0
	for _, e := range batch.Episodes {
		if !e.GoesOn && !e.Before.Partial {
			returns, length = append(returns, e.Return()), length+e.Before.Steps+e.Steps()
		}
	}
	if len(returns) == 0 {
		return // no episode of the streams has ended
	}
	row.ReturnMin, row.ReturnMax = slices.Min(returns), slices.Max(returns)
	row.ReturnMean, row.ReturnStd = stats.MeanStdDev(returns)
	row.LengthMean = float64(length) / float64(len(returns))
}

// sinceStart returns the run's wall-clock time over all its starts.
func (r *Run) sinceStart() time.Duration { return r.elapsed + time.Since(r.resumedAt) }
