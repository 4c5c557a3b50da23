package rollout_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/rollout"
	"github.com/dbqpg/dbqpg/internal/rollout/rollouttest"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/sim/simtest"
)

func toyActor(t testing.TB) *policy.Actor {
	t.Helper()
	p := rollouttest.Policy(7)
	shape := policy.Shape{Observation: simtest.Spec.ObservationDim, Action: simtest.Spec.ActionDim, Hidden: p.Hidden}
	a, err := policy.NewActor(shape, p.Params, policy.Normalizer{Mean: p.Mean, Std: p.Std, Clip: p.Clip})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func toyTicket(index uint64) proto.Ticket {
	return proto.Ticket{Run: "toy", Batch: 7, Index: index, Seed: 3}
}

// slowPlay is the straightforward twin of Play.
func slowPlay(t *testing.T, actor *policy.Actor, ticket proto.Ticket) *proto.Episode {
	env := &simtest.Toy{}
	rng := streams.New(ticket.Seed, streams.Episode, ticket.Batch, ticket.Index)
	e := &proto.Episode{Ticket: ticket}
	engine := make([]float64, 3)
	if err := env.Reset(rng, engine); err != nil {
		t.Fatal(err)
	}
	round := func() []float32 { return []float32{float32(engine[0]), float32(engine[1]), float32(engine[2])} }
	for len(e.Rewards) < 50 && !e.Terminated {
		seen, action := round(), make([]float32, 2)
		actor.Act(seen, rng, action)
		reward, terminated, err := env.Step([]float64{float64(action[0]), float64(action[1])}, engine)
		if err != nil {
			t.Fatal(err)
		}
		e.Observations = append(e.Observations, seen...)
		e.Actions = append(e.Actions, action...)
		e.Rewards = append(e.Rewards, reward)
		e.Terminated = terminated
	}
	e.FinalObservation = round()
	return e
}

// A player that plays many tickets in any order plays each as if it were its first.
func TestPlayer(t *testing.T) {
	actor := toyActor(t)
	player := rollout.NewPlayer(&simtest.Toy{})
	terminated, limited := 0, 0
	for _, index := range []uint64{5, 0, 3, 1, 1 << 60, 2, 0, 4, 5, 6, 7, 8, 9, 10} {
		got, err := player.Play(actor, toyTicket(index), func() bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		if want := slowPlay(t, actor, toyTicket(index)); !reflect.DeepEqual(got, want) {
			t.Errorf("ticket %d: got %+v, want %+v", index, got, want)
		}
		if _, err := proto.Marshal(nil, got); err != nil {
			t.Errorf("ticket %d: %v", index, err)
		}
		if got.Terminated {
			terminated++
		} else {
			limited++
		}
	}
	if terminated == 0 || limited == 0 {
		t.Errorf("%d episodes were terminated and %d ended by the limit: the test wants both", terminated, limited)
	}
}

func TestPlayerStops(t *testing.T) {
	player := rollout.NewPlayer(&simtest.Toy{})
	asked := 0
	e, err := player.Play(toyActor(t), toyTicket(longTicket(t)), func() bool { asked++; return asked > 4 })
	if e != nil || !errors.Is(err, rollout.ErrStopped) || player.StepsPlayed() != 4 {
		t.Errorf("%v, %v after %d steps; want ErrStopped after 4", e, err, player.StepsPlayed())
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := rollouttest.Play(ctx, &simtest.Toy{}, toyActor(t), toyTicket(0)); !errors.Is(err,
		rollout.ErrStopped) || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// longTicket returns the index of a ticket whose episode has ten steps or more.
func longTicket(t *testing.T) uint64 {
	actor := toyActor(t)
	for index := range uint64(100) {
		if slowPlay(t, actor, toyTicket(index)).Steps() >= 10 {
			return index
		}
	}
	t.Fatal("all episodes are short")
	return 0
}

func TestPlayerReportsFailures(t *testing.T) {
	broken := errors.New("broken")
	env := &simtest.Toy{BeforeStep: func(steps int) error {
		if steps == 2 {
			return broken
		}
		return nil
	}}
	if _, err := rollout.NewPlayer(env).Play(toyActor(t), toyTicket(longTicket(t)),
		func() bool { return false }); !errors.Is(err, broken) {
		t.Errorf("a failing step: %v", err)
	}
}

// The loop around the policy and the engine: the toy's step costs a few nanoseconds, so what Act costs alone is to
// be subtracted.
func BenchmarkPlayerStep(b *testing.B) {
	actor, player := toyActor(b), rollout.NewPlayer(&simtest.Toy{})
	steps := 0
	for b.Loop() {
		e, err := player.Play(actor, toyTicket(1), func() bool { return false })
		if err != nil {
			b.Fatal(err)
		}
		steps += e.Steps()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(steps), "ns/step")
}

func BenchmarkAct(b *testing.B) {
	actor, rng := toyActor(b), streams.New(1)
	observation, action := make([]float32, 3), make([]float32, 2)
	for b.Loop() {
		actor.Act(observation, rng, action)
	}
}
