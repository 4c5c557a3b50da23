package raftnode

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/registry"
)

// A program of the next version does not join.
func TestOtherVersion(t *testing.T) {
	c := newCluster(t, 1, rand.New(rand.NewPCG(1, 0)))
	c.other = "n2"
	c.start("n2", nil)
	var err error
	if failed := c.probe(deadline(t), func(n *Node) error {
		err = n.Join(deadline(t), Peer{"n2", "n2"})
		return nil
	}); failed != nil {
		t.Fatal(failed)
	}
	if !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(),
		fmt.Sprint("n2 keeps records of version ", registry.Version+1)) {
		t.Errorf("it joins: %v", err)
	}
}

// An entry of the next version stops the node, also after a restart, and changes nothing.
func TestEntryOfOtherVersion(t *testing.T) {
	c := newCluster(t, 1, rand.New(rand.NewPCG(1, 0)))
	c.mustPropose(submit("a", 1))
	n := c.leader()
	before := ""
	n.View(func(s *registry.State) { before = encode(t, s) })
	for range 2 {
		_ = n.raft.Apply(fmt.Appendf(nil, `{"version":%d,"dance":{}}`, registry.Version+1), time.Second).Error()
		select {
		case <-n.Ended():
		case <-deadline(t).Done():
			t.Fatal("it goes on")
		}
		if err := n.Err(); err == nil || !strings.Contains(err.Error(), fmt.Sprint("version ", registry.Version+1)) {
			t.Errorf("it has ended because of %v", err)
		}
		n.View(func(s *registry.State) {
			if now := encode(t, s); now != before {
				t.Errorf("it was\n%s\nand is\n%s", before, now)
			}
		})
		c.stop("n1")
		c.start("n1", []Peer{{"n1", "n1"}})
		n = c.node("n1")
	}
	if _, err := n.Propose(context.Background(), submit("b", 1)); err == nil {
		t.Error("it goes on")
	}
}
