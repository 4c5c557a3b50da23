package raftnode

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/coordinator/registry"
)

// A node whose state has become another one stops, and the others go on.
func TestForkedState(t *testing.T) {
	c := newCluster(t, 3, rand.New(rand.NewPCG(1, 0)))
	c.mustPropose(submit("a", 1))
	c.requireAgreement()
	forked := c.node("n2")
	propose := func() {
		for range digestEvery {
			forked.machine.mu.Lock() // again and again: a leader's snapshot, sent to a node that lags, mends its state
			forked.machine.state.Runs[0].Seed = 1 << 7
			forked.machine.mu.Unlock()
			c.mustPropose(registry.Command{Steer: &registry.Steer{Name: "a", Action: registry.Prioritize}})
		}
	}
	propose()
	select {
	case <-forked.Ended():
	case <-deadline(t).Done():
		t.Fatal("it goes on")
	}
	if err := forked.Err(); err == nil || !strings.Contains(err.Error(), "differs from that of most nodes") {
		t.Errorf("it has ended because of %v", err)
	}
	c.stop("n2")
	propose()
	for _, id := range []string{"n1", "n3"} {
		if err := c.node(id).Err(); err != nil {
			t.Error(fmt.Errorf("%s: %w", id, err))
		}
	}
}
