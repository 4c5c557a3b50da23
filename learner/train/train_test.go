package train_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/config/configtest"
	"github.com/dbqpg/dbqpg/internal/natsserver"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/rollout"
	"github.com/dbqpg/dbqpg/internal/rollout/rollouttest"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/learner/train"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/tasks"
)

var quiet = slog.New(slog.DiscardHandler)

// serial is the collector's slow, dumb twin: one sampler that plays ticket after ticket until there are enough steps.
type serial struct {
	env  sim.Env
	seed uint64
}

func newSerial(t testing.TB, s *config.Settings) *serial {
	t.Helper()
	env, err := tasks.New(s.Env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	})
	return &serial{env, s.Seed}
}

func (c *serial) actor(p *proto.Policy) (*policy.Actor, error) {
	spec := c.env.Spec()
	shape := policy.Shape{Observation: spec.ObservationDim, Action: spec.ActionDim, Hidden: p.Hidden}
	return policy.NewActor(shape, p.Params, policy.Normalizer{Mean: p.Mean, Std: p.Std, Clip: p.Clip})
}

// segments plays one stream after another, so that all steps are played in the end.
func (c *serial) segments(actor *policy.Actor, p *proto.Policy, streams []collect.Stream, steps int) (*collect.Batch,
	error) {
	batch := &collect.Batch{Steps: steps}
	for i, stream := range streams {
		here := (steps + len(streams) - i - 1) / (len(streams) - i) // of those that are left
		steps -= here
		ticket, start := proto.Ticket{Batch: p.Batch, Index: uint64(i), Seed: c.seed},
			&proto.Start{Steps: uint64(here), State: stream.State}
		if start.State == nil {
			start.Counted = uint64(stream.Before.Steps)
		}
		g, err := rollout.NewPlayer(c.env).PlaySegment(actor, ticket, start, func() bool { return false })
		if err != nil {
			return nil, err
		}
		episodes, before := g.Episodes(stream.Before)
		after := collect.Stream{State: &g.State, Before: before}
		batch.Episodes, batch.Streams = append(batch.Episodes, episodes...), append(batch.Streams, after)
	}
	return batch, nil
}

func (c *serial) Collect(ctx context.Context, order collect.Order) (*collect.Batch, error) {
	p := order.Policy
	actor, err := c.actor(p)
	if err != nil {
		return nil, err
	}
	if order.Streams != nil {
		return c.segments(actor, p, order.Streams, order.Steps)
	}
	batch := new(collect.Batch)
	for batch.Steps < order.Steps {
		ticket := proto.Ticket{Batch: p.Batch, Index: uint64(len(batch.Episodes)), Seed: c.seed}
		e, err := rollouttest.Play(ctx, c.env, actor, ticket)
		if err != nil {
			return nil, err
		}
		batch.Episodes = append(batch.Episodes, e)
		batch.Steps += e.Steps()
	}
	return batch, nil
}

// journal keeps every state and row in memory, the wall clock's numbers set to 0.
type journal struct {
	states []*runs.State // after 0, 1, 2, ... iterations
	rows   []runs.Row    // of iterations 0, 1, ...
	// evaluations are those that are due.
	evaluations []runs.Evaluation
}

func (j *journal) Start(state *runs.State, evaluation *runs.Evaluation) error {
	if evaluation != nil {
		j.evaluations = append(j.evaluations, *evaluation)
	}
	kept := &runs.State{Counters: state.Counters, Arrays: maps.Clone(state.Arrays), Networks: state.Networks}
	for name, values := range kept.Arrays {
		kept.Arrays[name] = slices.Clone(values)
	}
	kept.Elapsed = 0
	j.states = append(j.states, kept)
	return nil
}

func (j *journal) Commit(state *runs.State, row runs.Row, evaluation *runs.Evaluation) error {
	state.Best = &runs.Best{Return: row.ReturnMean, Iteration: row.Iteration}
	row.SecondsSampling, row.SecondsUpdating, row.SecondsElapsed, row.SecondsProcessor = 0, 0, 0, 0
	j.rows = append(j.rows, row)
	return j.Start(state, evaluation)
}

// methods are what the tests of the loop train: batches below and above the limit of the exact decomposition, episodes
// that the time limit ends and such as the task ends, with and without a critic, whose value function and whose
// kernel take a step or converge.
var methods = []struct {
	env       string
	algorithm config.Algorithm
	estimator config.Estimator
	batch     int
	segment   int // 0: whole episodes
	learning  config.Learning
}{
	{"Swimmer-v2", config.NPG, config.UAPG, 3000, 0, config.Step},
	{"Hopper-v2", config.TRPO, config.DBQPG, 600, 0, config.Step},
	{"HalfCheetah-v2", config.Vanilla, config.MonteCarlo, 1500, 0, config.Step},
	{"HalfCheetah-v2", config.TRPO, config.MonteCarlo, 1500, 0, config.Converge},
	{"Hopper-v5", config.TRPO, config.UAPG, 240, 15, config.Step},
	{"Hopper-v5", config.TRPO, config.UAPG, 240, 15, config.Converge},
}

const iterations = 3

// forEachMethod runs a test with the settings of each method.
func forEachMethod(t *testing.T, test func(*testing.T, *config.Settings)) {
	for _, m := range methods {
		t.Run(fmt.Sprintf("%s-%s-%s-%s", m.env, m.algorithm, m.estimator, m.learning), func(t *testing.T) {
			s := settings(t, m.env, m.algorithm, m.estimator)
			if s.Batch = m.batch; m.segment > 0 {
				s.Segment, s.Targets = m.segment, config.GAE
			}
			if s.ValueLearning = m.learning; m.learning == config.Converge {
				s.KernelLearning = m.learning
				s.Targets, s.Bootstrap = config.GAE, true
			}
			test(t, s)
		})
	}
}

func settings(t testing.TB, env string, algorithm config.Algorithm, estimator config.Estimator) *config.Settings {
	t.Helper()
	s, err := configtest.Authors(env, algorithm, estimator)
	if err != nil {
		t.Fatal(err)
	}
	s.Seed, s.Iterations, s.RunDir = 7, iterations, "unused"
	return &s
}

func newRun(t testing.TB, s *config.Settings, c train.Collector, j train.Journal) *train.Run {
	t.Helper()
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	task, err := sim.Lookup(s.Env)
	if err != nil {
		t.Fatal(err)
	}
	return &train.Run{
		Learner: train.New(cpu.New(0), s, task),
		Task:    s.Env, Seed: s.Seed, Length: s.Length, BatchSteps: s.Batch, Segment: s.Segment,
		TimeLimit: task.TimeLimit, Clip: s.Clip,
		Low: task.Low, High: task.High,
		Collector: c, Journal: j,
	}
}

// trainSerially returns the undisturbed run that others are compared with.
func trainSerially(t testing.TB, s *config.Settings) *journal {
	t.Helper()
	j := new(journal)
	r := newRun(t, s, newSerial(t, s), j)
	r.Start(1)
	if err := r.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	return j
}

// requireEqual fails unless the states and rows are the same bits.
func requireEqual(t testing.TB, what string, got, want *journal) {
	t.Helper()
	if len(got.states) != len(want.states) || len(got.rows) != len(want.rows) {
		t.Fatalf("%s: %d states and %d rows, want %d and %d", what, len(got.states), len(got.rows), len(want.states),
			len(want.rows))
	}
	for i, state := range want.states {
		if got.states[i].Epoch = state.Epoch; !reflect.DeepEqual(got.states[i].Counters, state.Counters) {
			t.Errorf("%s: counters %+v, want %+v", what, got.states[i].Counters, state.Counters)
		}
		for _, name := range slices.Sorted(maps.Keys(state.Arrays)) {
			requireBits(t, fmt.Sprintf("%s: %s after %d iterations", what, name, state.Iteration),
				got.states[i].Arrays[name], state.Arrays[name])
		}
	}
	for i := range want.rows {
		if g, w := fmt.Sprint(got.rows[i]), fmt.Sprint(want.rows[i]); g != w { // as texts, for NaN
			t.Errorf("%s: row\n%s, want\n%s", what, g, w)
		}
	}
}

func requireBits(t testing.TB, what string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i := range want {
		if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// A batch that two actors play over NATS is the one that a single sampler plays, so training is the same bits.
func TestActorsTrainLikeOneSampler(t *testing.T) {
	forEachMethod(t, func(t *testing.T, s *config.Settings) {
		got := new(journal)
		trainOverNATS(t, s, got)
		requireEqual(t, "over NATS", got, trainSerially(t, s))
	})
}

// trainOverNATS trains with a server and two local actors.
func trainOverNATS(t *testing.T, s *config.Settings, j *journal) {
	t.Helper()
	server, err := natsserver.Start(natsserver.Config{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	conn, err := server.Connect(bus.ConnConfig{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	task, err := sim.Lookup(s.Env)
	if err != nil {
		t.Fatal(err)
	}
	env, err := tasks.New(s.Env)
	if err != nil {
		t.Fatal(err)
	}
	defer env.Close()
	collector, err := collect.New(t.Context(), conn,
		collect.Config{Run: s.Name(), Epoch: 1, Seed: s.Seed, Task: task, NewEnv: tasks.New, Exact: true, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer collector.Close()
	ctx, done := context.WithCancel(t.Context())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return rollout.Run(ctx, rollout.Config{Conn: conn, Run: s.Name(), Slots: 2, NewEnv: tasks.New,
			Engine: tasks.Engine(), Log: quiet})
	})
	r := newRun(t, s, collector, j)
	r.Start(1)
	group.Go(func() error {
		defer done()
		return r.Train(ctx)
	})
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// A run resumed from any of its states ends as if it had never stopped.
func TestResume(t *testing.T) {
	forEachMethod(t, func(t *testing.T, s *config.Settings) {
		want := trainSerially(t, s)
		for i, state := range want.states {
			got := &journal{states: slices.Clone(want.states[:i+1]), rows: slices.Clone(want.rows[:i])}
			r := newRun(t, s, newSerial(t, s), got)
			if err := r.Resume(state, uint64(i+2)); err != nil {
				t.Fatal(err)
			}
			if err := r.Train(t.Context()); err != nil {
				t.Fatal(err)
			}
			requireEqual(t, fmt.Sprintf("resumed after %d iterations", i), got, want)
		}
	})
}

// sizes are a collector's batches, as steps and episodes.
type sizes struct {
	train.Collector
	steps, episodes []int
}

func (c *sizes) Collect(ctx context.Context, order collect.Order) (*collect.Batch, error) {
	batch, err := c.Collector.Collect(ctx, order)
	if err == nil {
		c.steps, c.episodes = append(c.steps, batch.Steps), append(c.episodes, len(batch.Episodes))
	}
	return batch, err
}

// Every step that was played counts, those of the batch that only initialises the normaliser too, and rows are numbered
// as the checkpoints whose policies played their batches.
func TestCounts(t *testing.T) {
	s := settings(t, "Hopper-v2", config.NPG, config.MonteCarlo)
	s.Batch = 200
	j, c := new(journal), &sizes{Collector: newSerial(t, s)}
	r := newRun(t, s, c, j)
	r.Start(1)
	if err := r.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(c.steps) != iterations+1 || len(j.states) != iterations+1 || len(j.rows) != iterations {
		t.Fatalf("%d batches, %d states and %d rows", len(c.steps), len(j.states), len(j.rows))
	}
	steps, episodes := uint64(0), uint64(0)
	for i, state := range j.states {
		steps, episodes = steps+uint64(c.steps[i]), episodes+uint64(c.episodes[i])
		if state.Iteration != uint64(i) || state.Steps != steps || state.Episodes != episodes {
			t.Errorf("state %d is %+v, want %d steps in %d episodes", i, state.Counters, steps, episodes)
		}
		if i == 0 {
			continue
		}
		if row := j.rows[i-1]; row.Iteration != uint64(i-1) || row.Steps != steps || row.Episodes != episodes {
			t.Errorf("row %d is of iteration %d, %d steps and %d episodes, want %d and %d", i-1, row.Iteration,
				row.Steps, row.Episodes, steps, episodes)
		}
	}
}

// A state that lacks an array, or has one of another length, is an error that names it.
func TestResumeFromIncompleteState(t *testing.T) {
	s := settings(t, "Hopper-v2", config.NPG, config.UAPG)
	s.Batch, s.Iterations, s.Targets, s.ValueLearning = 200, 1, config.GAE, config.Converge
	state := trainSerially(t, s).states[1]
	for _, name := range slices.Sorted(maps.Keys(state.Arrays)) {
		values := state.Arrays[name]
		for _, damaged := range [][]float64{nil, values[1:], append(slices.Clone(values), 0)} {
			arrays := maps.Clone(state.Arrays)
			if arrays[name] = damaged; damaged == nil {
				delete(arrays, name)
			}
			err := newRun(t, s, nil, nil).Resume(&runs.State{Counters: state.Counters, Arrays: arrays}, 2)
			if last := name[strings.LastIndexByte(name, '.')+1:]; err == nil || !strings.Contains(err.Error(), last) {
				t.Errorf("%s with %d of %d numbers: %v", name, len(damaged), len(values), err)
			}
		}
	}
}
