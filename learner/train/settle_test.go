package train_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/evaluate"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/learner/train"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/tasks"
)

// player evaluates policies with two episodes of the mean action.
func player(s *config.Settings) func(context.Context, *proto.Policy, runs.Counters, train.EvaluationSteps) (
	*runs.Evaluation, time.Duration, error) {
	return func(ctx context.Context, p *proto.Policy, at runs.Counters, _ train.EvaluationSteps) (*runs.Evaluation,
		time.Duration, error) {
		task, err := sim.Lookup(s.Env)
		if err != nil {
			return nil, 0, err
		}
		played, err := evaluate.Play(ctx, evaluate.Episodes{
			NewEnv:     func() (sim.Env, error) { return tasks.New(s.Env) },
			Shape:      policy.Shape{Observation: task.ObservationDim, Action: task.ActionDim, Hidden: p.Hidden},
			Params:     p.Params,
			Normalizer: policy.Normalizer{Mean: p.Mean, Std: p.Std, Clip: p.Clip},
			Seed:       1, Count: 2, Workers: 2,
		})
		if err != nil {
			return nil, 0, err
		}
		row := evaluate.Row(at, played, nil)
		return &row, time.Second, nil
	}
}

// sampling is a collector that says when it begins a batch, or fails instead.
type sampling struct {
	train.Collector
	begins func(batch uint64) error
}

func (c *sampling) Collect(ctx context.Context, order collect.Order) (*collect.Batch, error) {
	if err := c.begins(order.Policy.Batch); err != nil {
		return nil, err
	}
	return c.Collector.Collect(ctx, order)
}

// saving is a journal that says when it has saved an iteration, or fails instead.
type saving struct {
	*journal
	saved func(row runs.Row) error
}

func (j saving) Commit(state *runs.State, row runs.Row, evaluation *runs.Evaluation) error {
	if err := j.saved(row); err != nil {
		return err
	}
	return j.journal.Commit(state, row, evaluation)
}

// Every estimator of every preset learns the same while the next batch is sampled as before it.
func TestLearningBesideSampling(t *testing.T) {
	for _, preset := range []config.Preset{config.Paper, config.Best} {
		for _, estimator := range []config.Estimator{config.MonteCarlo, config.DBQPG, config.UAPG} {
			t.Run(fmt.Sprintf("%s-%s", preset, estimator), func(t *testing.T) {
				s, err := config.ForTask("Hopper-v5", preset.Algorithm(), estimator, preset)
				if err != nil {
					t.Fatal(err)
				}
				s.Seed, s.Length, s.RunDir, s.Batch = 7, config.Length{Iterations: 4}, "unused", 256
				if s.Segment > 0 {
					s.Segment = 16
				}
				run := func(begins func(batch uint64), learns func(iteration uint64), saved func()) *journal {
					j := new(journal)
					r := newRun(t, &s, &sampling{newSerial(t, &s),
						func(batch uint64) error { begins(batch); return nil }},
						saving{j, func(runs.Row) error { saved(); return nil }})
					train.HoldLearning(r.Learner, learns)
					r.Start(1)
					if err := r.Train(t.Context()); err != nil {
						t.Fatal(err)
					}
					return j
				}
				saved := make(chan bool, 1)
				want := run(func(batch uint64) {
					if batch > 1 {
						<-saved // the iteration before
					}
				}, func(uint64) {}, func() { saved <- true })
				begun := make(chan bool, 1)
				got := run(func(batch uint64) {
					if batch > 1 {
						begun <- true
					}
				}, func(iteration uint64) {
					if iteration+1 < s.Iterations { // nothing is sampled beside the last
						<-begun
					}
				}, func() {})
				requireEqual(t, "beside sampling", got, want)
			})
		}
	}
}

// An iteration that cannot be saved ends the run, whose error names that iteration rather than the one in progress.
func TestIterationThatIsNotSaved(t *testing.T) {
	s := settings(t, "Hopper-v2", config.NPG, config.MonteCarlo)
	s.Batch = 200
	for failing := range uint64(iterations) {
		full, j := errors.New("disk full"), new(journal)
		r := newRun(t, s, newSerial(t, s), saving{j, func(row runs.Row) error {
			if row.Iteration == failing {
				return full
			}
			return nil
		}})
		r.Start(1)
		err := r.Train(t.Context())
		if want := fmt.Sprintf("iteration %d: disk full", failing); !errors.Is(err, full) || err.Error() != want {
			t.Errorf("the error is %v, want %s", err, want)
		}
		if len(j.rows) != int(failing) {
			t.Errorf("%d rows, want %d", len(j.rows), failing)
		}
	}
}

// Evaluations go on while the next batch is sampled, if cores are free, and everything is the same as if they did not.
func TestEvaluationsBesideSampling(t *testing.T) {
	s := settings(t, "Hopper-v2", config.NPG, config.MonteCarlo)
	s.Batch, s.Iterations = 200, 5
	for _, every := range []int{1, 2} {
		want := new(journal)
		r := newRun(t, s, newSerial(t, s), want)
		r.Evaluations = train.Evaluations{Every: every, Play: player(s)}
		r.Start(1)
		if err := r.Train(t.Context()); err != nil {
			t.Fatal(err)
		}
		if evaluated := map[int]int{1: 6, 2: 4}[every]; len(want.evaluations) != evaluated {
			t.Fatalf("%d evaluations, want %d", len(want.evaluations), evaluated)
		}

		got, begun := new(journal), make(chan uint64, 10)
		r = newRun(t, s, &sampling{newSerial(t, s), func(batch uint64) error { begun <- batch; return nil }}, got)
		r.Evaluations = train.Evaluations{Every: every}
		r.Evaluations.Play = func(ctx context.Context, p *proto.Policy, at runs.Counters, steps train.EvaluationSteps) (
			*runs.Evaluation, time.Duration, error) {
			for at.Iteration < s.Iterations { // the last is beside nothing
				if batch := <-begun; batch == p.Batch {
					break
				}
			}
			return player(s)(ctx, p, at, steps)
		}
		r.Start(1)
		if err := r.Train(t.Context()); err != nil {
			t.Fatal(err)
		}
		requireEqual(t, "beside sampling", got, want)
		if g, w := fmt.Sprint(got.evaluations), fmt.Sprint(want.evaluations); g != w { // as texts, for NaN
			t.Errorf("evaluations\n%s, want\n%s", g, w)
		}
	}
}

// A run that ends while an evaluation goes on repeats its iteration, and the evaluation, when it is resumed; one whose
// evaluation was through has kept both.
func TestEvaluationsOfStoppedRuns(t *testing.T) {
	s := settings(t, "Hopper-v2", config.NPG, config.MonteCarlo)
	s.Batch = 200
	type playing = func(context.Context, *proto.Policy, runs.Counters, train.EvaluationSteps) (
		*runs.Evaluation, time.Duration, error)
	want := new(journal)
	resumed := func(j *journal, state *runs.State, c train.Collector, play playing) error {
		r := newRun(t, s, c, j)
		r.Evaluations = train.Evaluations{Every: 1, Play: play}
		r.Start(1)
		if state != nil {
			if err := r.Resume(state, 1); err != nil {
				t.Fatal(err)
			}
		}
		return r.Train(t.Context())
	}
	if err := resumed(want, nil, newSerial(t, s), player(s)); err != nil {
		t.Fatal(err)
	}
	stopped := errors.New("stopped")
	for batch := range uint64(iterations + 1) {
		for _, through := range []bool{false, true} {
			got := new(journal)
			stop := &sampling{newSerial(t, s), func(next uint64) error {
				if next == batch {
					return stopped
				}
				return nil
			}}
			play := func(ctx context.Context, p *proto.Policy, at runs.Counters, steps train.EvaluationSteps) (
				*runs.Evaluation, time.Duration, error) {
				if p.Batch == batch && !through {
					return nil, 0, context.Canceled
				}
				return player(s)(ctx, p, at, steps)
			}
			if err := resumed(got, nil, stop, play); !errors.Is(err, stopped) {
				t.Fatalf("batch %d: %v", batch, err)
			}
			kept := int(batch)
			if kept > 0 && !through {
				kept--
			}
			if len(got.states) != kept || len(got.evaluations) != kept || len(got.rows) != max(kept-1, 0) {
				t.Errorf("stopped in batch %d, its evaluation through: %v: %d states, %d evaluations, %d rows", batch,
					through, len(got.states), len(got.evaluations), len(got.rows))
			}
			var state *runs.State
			if kept > 0 {
				state = got.states[kept-1]
			}
			if err := resumed(got, state, newSerial(t, s), player(s)); err != nil {
				t.Fatal(err)
			}
			requireEqual(t, "resumed", got, want)
			if !slices.EqualFunc(got.evaluations, want.evaluations,
				func(a, b runs.Evaluation) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
				t.Errorf("evaluations\n%v, want\n%v", got.evaluations, want.evaluations)
			}
		}
	}
}
