package train

import (
	"context"
	"math"
	"time"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/proto"
)

// Evaluations are episodes apart from the training, which does not depend on them.
type Evaluations struct {
	// Every is the number of iterations between evaluations: of the policies of checkpoints 0, Every, 2 Every, ... and the last.
	// 0: there are none. config.AutoEvaluate: see [Run.evaluationSteps].
	Every int
	// Play plays episodes with a checkpoint's policy. It returns the row, nil if they could not be played, and the processor time.
	Play func(ctx context.Context, policy *proto.Policy, at runs.Counters, steps EvaluationSteps) (*runs.Evaluation, time.Duration, error)
	// Beside says that cores are free while a batch is sampled, so that an evaluation goes on meanwhile.
	Beside bool

	inProgress chan evaluation // nil: none is
}

// EvaluationSteps are the most steps that an evaluation may take with the mean action, and with sampled ones.
type EvaluationSteps struct{ Mean, Sampled int }

// unlimited is more than all episodes of an evaluation have.
const unlimited = math.MaxInt

// evaluationSteps returns the steps for an evaluation of the current policy, 0 if it is not evaluated.
//
// With config.AutoEvaluate all evaluations together take at most 5 % as many steps as training: whenever a hundred time limits have been
// trained, three with the mean action; at the end one with each kind of action for each hundred of the run.
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

// evaluated calls commit with the evaluation of the current policy, nil if none is due. With Beside both may go on until settle is
// called, while the next batch is sampled: a run that is killed before the commit repeats the iteration, and the evaluation with it.
func (r *Run) evaluated(ctx context.Context, commit func(*runs.Evaluation) error) error {
	steps := r.evaluationSteps()
	if steps.Mean == 0 {
		return commit(nil)
	}
	policy, at := r.Policy(batchOf(r.counters.Iteration)), r.counters
	done := make(chan evaluation, 1)
	r.Evaluations.inProgress = done
	go func() {
		row, busy, err := r.play(ctx, policy, at, steps)
		if err == nil {
			err = commit(row)
		}
		done <- evaluation{busy, err}
	}()
	if r.Evaluations.Beside && !r.reached() {
		return nil
	}
	_, err := r.settle()
	return err
}

// evaluation says how an evaluation, and the commit after it, ended.
type evaluation struct {
	busy time.Duration // processor time
	err  error
}

// settle waits until the evaluation in progress, if there is one, is committed. It returns its processor time.
func (r *Run) settle() (busy time.Duration, err error) {
	if r.Evaluations.inProgress == nil {
		return 0, nil
	}
	e := <-r.Evaluations.inProgress
	r.Evaluations.inProgress = nil
	return e.busy, e.err
}

func (r *Run) play(ctx context.Context, p *proto.Policy, at runs.Counters, steps EvaluationSteps) (_ *runs.Evaluation, _ time.Duration, err error) {
	ctx, end := observe.Span(ctx, "evaluate")
	defer end(&err)
	return r.Evaluations.Play(ctx, p, at, steps)
}
