package evaluate

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/rollout"
	"github.com/dbqpg/dbqpg/internal/rollout/rollouttest"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/simtest"
)

// toyEpisodes are those of a policy for the toy task.
func toyEpisodes(action Action, count, workers int) Episodes {
	p := rollouttest.Policy(7)
	return Episodes{
		NewEnv: func() (sim.Env, error) { return new(bounded), nil },
		Shape: policy.Shape{Observation: simtest.Spec.ObservationDim, Action: simtest.Spec.ActionDim,
			Hidden: p.Hidden},
		Params: p.Params, Normalizer: policy.Normalizer{Mean: p.Mean, Std: p.Std, Clip: p.Clip},
		Action: action, Seed: 3, Count: count, Workers: workers,
	}
}

// bounded is the toy with bounds, which the policy's actions exceed.
type bounded struct{ simtest.Toy }

func (b *bounded) Spec() sim.Spec {
	spec := b.Toy.Spec()
	spec.Low, spec.High = []float64{-0.125, -0.125}, []float64{0.25, 0.25}
	return spec
}

func play(t *testing.T, e Episodes) []Episode {
	t.Helper()
	episodes, err := Play(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return episodes
}

// slowPlay is Play as one would write it down first.
func slowPlay(t *testing.T, e Episodes) (episodes []Episode) {
	t.Helper()
	actor, err := policy.NewActor(e.Shape, e.Params, e.Normalizer)
	if err != nil {
		t.Fatal(err)
	}
	for i := range e.Count {
		env, rng, engine := &simtest.Toy{}, streams.New(e.Seed, streams.Evaluation, uint64(i)), make([]float64, 3)
		if err := env.Reset(rng, engine); err != nil {
			t.Fatal(err)
		}
		var episode Episode
		for episode.Length < simtest.Spec.TimeLimit && !episode.Terminated {
			seen := []float32{float32(engine[0]), float32(engine[1]), float32(engine[2])}
			action := slices.Clone(actor.Outputs(seen))
			if e.Action == Sampled {
				for j := range action {
					action[j] += math.Exp(e.Params[len(e.Params)-2+j]) * rng.NormFloat64()
				}
			}
			for j, x := range action {
				action[j] = float64(float32(x))
				if e.Action == Mean {
					action[j] = math.Max(-0.125, math.Min(action[j], 0.25))
				}
			}
			reward, terminated, err := env.Step(action, engine)
			if err != nil {
				t.Fatal(err)
			}
			episode.Return, episode.Length, episode.Terminated = episode.Return+reward, episode.Length+1, terminated
		}
		episodes = append(episodes, episode)
	}
	return episodes
}

func TestPlay(t *testing.T) {
	for _, action := range []Action{Mean, Sampled} {
		want := slowPlay(t, toyEpisodes(action, 40, 1))
		for _, workers := range []int{1, 2, 7, 50} {
			if got := play(t, toyEpisodes(action, 40, workers)); !slices.Equal(got, want) {
				t.Errorf("action %d, %d workers: %v, want %v", action, workers, got, want)
			}
		}
		if got := play(t, toyEpisodes(action, 5, 2)); !slices.Equal(got, want[:5]) {
			t.Errorf("the first 5 episodes depend on how many there are: %v, want %v", got, want[:5])
		}
		other := toyEpisodes(action, 40, 2)
		if other.Seed++; slices.Equal(play(t, other), want) {
			t.Error("another seed has the same episodes")
		}
	}
}

// With a bound on the steps, as many episodes are played as cannot exceed it, for any number of workers.
func TestMaxSteps(t *testing.T) {
	limit := simtest.Spec.TimeLimit
	all := slowPlay(t, toyEpisodes(Mean, 40, 1))
	for most := limit; most < 45*limit; most += limit/2 + 1 {
		taken, want := 0, 0
		for want < len(all) && taken+limit <= most {
			taken, want = taken+all[want].Length, want+1
		}
		for _, workers := range []int{1, 3, 50} {
			e := toyEpisodes(Mean, 40, workers)
			e.MaxSteps, e.TimeLimit = most, limit
			if got := play(t, e); !slices.Equal(got, all[:want]) {
				t.Errorf("at most %d steps, %d workers: %d episodes, want %d", most, workers, len(got), want)
			}
		}
	}
}

// The processor time of the episodes is part of the process's.
func TestBusy(t *testing.T) {
	var busy atomic.Int64
	e := toyEpisodes(Mean, 20_000, 2)
	e.Busy = &busy
	before := device.ProcessorTime()
	play(t, e)
	// of the clock's steps
	if took, all := time.Duration(busy.Load()), device.ProcessorTime()-before; took < all/10 ||
		took > all+50*time.Millisecond {
		t.Errorf("episodes took %v of the process's %v", took, all)
	}
}

// witness is an environment that notes the first number of each episode's stream.
type witness struct {
	simtest.Toy
	first map[uint64]bool
}

func (w *witness) Reset(rng *rand.Rand, observation []float64) error {
	w.first[rng.Uint64()] = true
	return w.Toy.Reset(rng, observation)
}

// No episode of an evaluation is one of training, whatever the seeds, batches and indices of both.
func TestStreamsAreNotTrainings(t *testing.T) {
	actor, err := policy.NewActor(toyEpisodes(Mean, 1, 1).Shape, toyEpisodes(Mean, 1, 1).Params,
		toyEpisodes(Mean, 1, 1).Normalizer)
	if err != nil {
		t.Fatal(err)
	}
	trained := &witness{first: map[uint64]bool{}}
	player := rollout.NewPlayer(trained)
	for seed := range uint64(12) {
		for batch := range uint64(12) {
			for index := range uint64(12) {
				if _, err := player.Play(actor, proto.Ticket{Seed: seed, Batch: batch, Index: index},
					func() bool { return false }); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	evaluated := &witness{first: map[uint64]bool{}}
	for seed := range uint64(12) {
		e := toyEpisodes(Sampled, 100, 1)
		e.Seed, e.NewEnv = seed, func() (sim.Env, error) { return evaluated, nil }
		play(t, e)
	}
	if len(trained.first) != 12*12*12 || len(evaluated.first) != 12*100 {
		t.Fatalf("%d episodes of training and %d of evaluations", len(trained.first), len(evaluated.first))
	}
	for first := range evaluated.first {
		if trained.first[first] {
			t.Errorf("an episode of training begins with %#x too", first)
		}
	}
}

// An environment that is lost is replaced, and its episode played again. One that makes the same error each time is an
// error.
func TestErrors(t *testing.T) {
	want := slowPlay(t, toyEpisodes(Sampled, 20, 1))
	lost := errors.New("the environment was lost")
	failing := func(times int) Episodes {
		e := toyEpisodes(Sampled, 20, 1)
		made, failed := 0, 0
		e.NewEnv = func() (sim.Env, error) {
			if made++; made == 2 {
				return nil, lost
			}
			return &simtest.Toy{BeforeStep: func(steps int) error {
				if steps == 7 && failed < times {
					failed++
					return lost
				}
				return nil
			}}, nil
		}
		return e
	}
	if got := play(t, failing(1)); !slices.Equal(got, want) {
		t.Errorf("after an environment that was lost, and one that could not be made: %v, want %v", got, want)
	}
	if _, err := Play(t.Context(), failing(1000)); !errors.Is(err, lost) || !strings.Contains(err.Error(), "episode ") {
		t.Errorf("error %v", err)
	}
	other := toyEpisodes(Mean, 2, 1)
	other.NewEnv = func() (sim.Env, error) { return larger{}, nil }
	if _, err := Play(t.Context(), other); err == nil ||
		!strings.Contains(err.Error(), "takes 3 observations and gives 2 actions, but Large has 4 and 2") {
		t.Errorf("error %v", err)
	}
	other.Params = other.Params[1:]
	if _, err := Play(t.Context(), other); err == nil {
		t.Error("a policy that lacks a parameter is played")
	}
	ctx, cancel := context.WithCancel(t.Context())
	e := toyEpisodes(Mean, 1_000_000, 2)
	e.NewEnv = func() (sim.Env, error) {
		return &simtest.Toy{BeforeStep: func(int) error { cancel(); return nil }}, nil
	}
	if _, err := Play(ctx, e); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// larger is an environment of another size.
type larger struct{ simtest.Toy }

func (larger) Spec() sim.Spec { return sim.Spec{Name: "Large", ObservationDim: 4, ActionDim: 2} }

func (larger) Reset(*rand.Rand, []float64) error { return nil }

func (larger) Step([]float64, []float64) (float64, bool, error) { return 0, true, nil }

func (larger) Close() error { return nil }

func TestSummarize(t *testing.T) {
	got := Summarize([]Episode{{100, 5, true}, {3, 9, false}, {-50, 2, true}, {5, 1, true}})
	deviation := math.Sqrt((85.5*85.5 + 11.5*11.5 + 64.5*64.5 + 9.5*9.5) / 3)
	want := Summary{Mean: 14.5, StandardError: deviation / 2, IQM: 4, Min: -50, Max: 100, LengthMean: 4.25,
		LengthMin: 1, LengthMax: 9}
	if math.Abs(got.StandardError-want.StandardError) > 1e-12 {
		t.Errorf("standard error %v, want %v", got.StandardError, want.StandardError)
	}
	if got.StandardError = want.StandardError; got != want {
		t.Errorf("summary %+v, want %+v", got, want)
	}
}
