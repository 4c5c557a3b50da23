package train

import (
	"context"
	"fmt"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/proto"
)

// Evaluations are episodes apart from the training, which does not depend on them.
type Evaluations struct {
	// Every is the number of iterations between evaluations: of the policies of checkpoints 0, Every, 2 Every, ... and
	// the last. 0: there are none. config.AutoEvaluate: see [Run.evaluationSteps].
	Every int
	// Play plays episodes with a checkpoint's policy. It returns the row, nil if they could not be played, and the
	// processor time.
	Play func(ctx context.Context, policy *proto.Policy, at runs.Counters, steps EvaluationSteps) (*runs.Evaluation,
		time.Duration, error)
}

// EvaluationSteps are the most steps that an evaluation may take with the mean action, and with sampled ones.
type EvaluationSteps struct{ Mean, Sampled int }

// unlimited is more than all episodes of an evaluation have.
const unlimited = math.MaxInt

// evaluationSteps returns the steps for an evaluation of the current policy, 0 if it is not evaluated.
//
// With config.AutoEvaluate all evaluations together take at most 5 % as many steps as training: whenever a hundred time
// limits have been trained, three with the mean action; at the end one with each kind of action for each hundred of the
// run.
func (r *Run) evaluationSteps() EvaluationSteps {
	const unit, between = 100, 3
	every, next := r.Evaluations.Every, r.counters.Iteration
	automatic := every == config.AutoEvaluate
	if automatic {
		every = (unit*r.TimeLimit + r.BatchSteps - 1) / r.BatchSteps
	}
	switch {
	case r.Evaluations.Play == nil || every == 0 || !r.reached() && next%uint64(every) != 0:
		return EvaluationSteps{}
	case !automatic:
		return EvaluationSteps{unlimited, unlimited}
	case r.reached():
		each := max(int(r.counters.Steps)/unit, r.TimeLimit)
		return EvaluationSteps{each, each}
	case next == 0: // nothing has been trained
		return EvaluationSteps{}
	}
	return EvaluationSteps{Mean: between * r.TimeLimit}
}

// finish completes an iteration, or the run's start: it waits for the update's deferred parts, evaluates the policy if
// that is due, and calls save with the state and the evaluation, nil for none. This goes on while the next batch is
// sampled, which needs the policy alone, until settle is called. A run that is killed before save returns repeats the
// iteration.
func (r *Run) finish(ctx context.Context, rest func() error, save func(*runs.State, *runs.Evaluation) error) {
	r.counters.Elapsed = r.sinceStart()
	policy, at, steps := r.Policy(batchOf(r.counters.Iteration)), r.counters, r.evaluationSteps()
	f := new(finishing)
	r.finishing = f
	work := func() (err error) {
		if err = rest(); err != nil {
			return err
		}
		state := r.state(at)
		var evaluation *runs.Evaluation
		if steps.Mean > 0 {
			ctx, end := observe.Span(ctx, "evaluate")
			evaluation, f.evaluating, err = r.Evaluations.Play(ctx, policy, at, steps)
			if end(&err); err != nil {
				return err
			}
		}
		end := r.Observe.Commit(ctx)
		err = save(state, evaluation)
		end(&err)
		f.saved = state
		return err
	}
	f.Go(func() error {
		err := work()
		if err != nil && at.Iteration > 0 { // by the time it is known, the next iteration has begun
			err = fmt.Errorf("iteration %d: %w", at.Iteration-1, err)
		}
		return err
	})
}

// finishing is an iteration that is being finished, and the results.
type finishing struct {
	errgroup.Group
	saved      *runs.State
	evaluating time.Duration // processor time of the evaluation
}

// settle waits until the iteration that is being finished, if there is one, has been saved. It returns the processor
// time of its evaluation.
func (r *Run) settle() (evaluating time.Duration, err error) {
	f := r.finishing
	if r.finishing = nil; f == nil {
		return 0, nil
	}
	if err := f.Wait(); err != nil {
		return f.evaluating, err
	}
	r.saved, r.counters.Best = f.saved, f.saved.Best
	return f.evaluating, nil
}
