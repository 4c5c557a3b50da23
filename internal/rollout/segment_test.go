package rollout_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/rollout"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/simtest"
	"github.com/dbqpg/dbqpg/sim/tasks"
)

func never() bool { return false }

// On every task, a stream whose segments two players play in turns, over the wire, is to the last bit the one that a
// third plays without a cut: observations, actions, rewards, ends, and the state that follows. An episode ends by its
// time limit on the way.
func TestSegmentsAreTheUncutStream(t *testing.T) {
	seed := rand.Uint64()
	for _, spec := range sim.Tasks() {
		t.Run(spec.Name, func(t *testing.T) {
			t.Logf("seed %d", seed)
			rng := streams.New(seed)
			shape := policy.Shape{Observation: spec.ObservationDim, Action: spec.ActionDim, Hidden: []int{8}}
			normalizer := policy.Identity(spec.ObservationDim, 5)
			actor, err := policy.NewActor(shape, shape.Init(rng, nil), normalizer)
			if err != nil {
				t.Fatal(err)
			}
			var players [3]*rollout.Player
			for i := range players {
				env, err := tasks.New(spec.Name)
				if err != nil {
					t.Fatal(err)
				}
				defer env.Close()
				players[i] = rollout.NewPlayer(env)
			}
			ticket := proto.Ticket{Run: "r", Index: 3, Seed: seed}
			start := proto.Start{Steps: 50, Counted: uint64(spec.TimeLimit) - 20}
			want, err := players[2].PlaySegment(actor, ticket, &start, never)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(want.Ends, proto.TimeLimit) && !slices.Contains(want.Ends, proto.Terminated) {
				t.Error("no episode ended")
			}
			got := new(proto.Segment)
			for left, turn := start.Steps, 0; left > 0; turn++ {
				start.Steps = min(left, 1+rng.Uint64N(20))
				left -= start.Steps
				part, err := players[turn%2].PlaySegment(actor, ticket, &start, never)
				if err != nil {
					t.Fatal(err)
				}
				data, err := proto.Marshal(nil, part)
				if err != nil {
					t.Fatal(err)
				}
				sent := new(proto.Segment)
				if err := proto.Unmarshal(data, sent); err != nil {
					t.Fatal(err)
				}
				got.Observations, got.Actions, got.Rewards = append(got.Observations, sent.Observations...),
					append(got.Actions, sent.Actions...), append(got.Rewards, sent.Rewards...)
				got.Ends, got.Finals, got.State = append(got.Ends, sent.Ends...), append(got.Finals, sent.Finals...),
					sent.State
				start = proto.Start{State: &sent.State}
			}
			if got.Ticket = want.Ticket; !reflect.DeepEqual(got, want) {
				t.Errorf("cut:\n%v\nuncut:\n%v", got, want)
			}
		})
	}
}

func TestSegmentStops(t *testing.T) {
	player := rollout.NewPlayer(&simtest.Toy{})
	asked := 0
	g, err := player.PlaySegment(toyActor(t), toyTicket(0), &proto.Start{Steps: 100},
		func() bool { asked++; return asked > 70 })
	if g != nil || !errors.Is(err, rollout.ErrStopped) || player.StepsPlayed() != 70 {
		t.Errorf("%v, %v after %d steps; want ErrStopped after 70", g, err, player.StepsPlayed())
	}
}

// Where a player cannot go on from is an error that says why.
func TestWrongStarts(t *testing.T) {
	player := rollout.NewPlayer(&simtest.Toy{})
	g, err := player.PlaySegment(toyActor(t), toyTicket(0), &proto.Start{Steps: 3}, never)
	if err != nil {
		t.Fatal(err)
	}
	valid := g.State
	for what, spoil := range map[string]func(s *proto.State){
		"another task":            func(s *proto.State) { s.Task = "Hopper-v5" },
		"another observation":     func(s *proto.State) { s.Observation = s.Observation[1:] },
		"beyond the time limit":   func(s *proto.State) { s.Step = 50 },
		"no random numbers":       func(s *proto.State) { s.Random = nil },
		"a state of another size": func(s *proto.State) { s.Physics = s.Physics[1:] },
	} {
		s := valid
		spoil(&s)
		if _, err := rollout.NewPlayer(&simtest.Toy{}).PlaySegment(toyActor(t), toyTicket(0),
			&proto.Start{Steps: 3, State: &s}, never); err == nil {
			t.Errorf("%s is accepted", what)
		}
	}
	if _, err := player.PlaySegment(toyActor(t), toyTicket(0), &proto.Start{Steps: 3, Counted: 50},
		never); !errors.Is(err, proto.ErrInvalid) {
		t.Errorf("a beginning beyond the time limit: %v", err)
	}
}
