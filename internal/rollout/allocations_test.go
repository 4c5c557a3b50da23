//go:build !race

// The race detector's own allocations would count.

package rollout_test

import (
	"testing"

	"github.com/dbqpg/dbqpg/internal/rollout"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/sim/simtest"
)

func TestPlayerAllocatesNothing(t *testing.T) {
	actor, player := toyActor(t), rollout.NewPlayer(&simtest.Toy{})
	index := uint64(0)
	play := func() {
		if _, err := player.Play(actor, toyTicket(index%20), func() bool { return false }); err != nil {
			t.Fatal(err)
		}
		index++
	}
	for range 20 {
		play()
	}
	if n := testing.AllocsPerRun(100, play); n > 0 {
		t.Errorf("%v allocations an episode", n)
	}
}

func TestSegmentAllocatesNothing(t *testing.T) {
	actor, player := toyActor(t), rollout.NewPlayer(&simtest.Toy{})
	start := &proto.Start{Steps: 100}
	play := func() {
		if _, err := player.PlaySegment(actor, toyTicket(1), start, never); err != nil {
			t.Fatal(err)
		}
	}
	play()
	if n := testing.AllocsPerRun(100, play); n > 0 {
		t.Errorf("%v allocations a segment", n)
	}
}
