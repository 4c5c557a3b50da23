package raftnode

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/registry"
)

// While one node is of an earlier program, no command has a version, which it could not read; once all know it, one does.
// Afterwards no earlier one joins.
func TestUpgrade(t *testing.T) {
	c := newCluster(t, 3, rand.New(rand.NewPCG(1, 0)))
	c.earlier = []string{"n1", "n2", "n3", "n4"}
	version := func(name string) (version int) {
		t.Helper()
		c.mustPropose(submit(name, 1))
		if err := c.probe(deadline(t), func(n *Node) error {
			n.versions.Lock()
			n.asked = time.Time{} // as after a second
			n.versions.Unlock()
			return n.Read(deadline(t), func(s *registry.State) { version = s.Version })
		}); err != nil {
			t.Fatal(err)
		}
		return version
	}
	if v := version("a"); v != 0 {
		t.Errorf("version %d among earlier programs", v)
	}
	pause := registry.Command{Pause: &registry.Pause{Name: "a"}}
	if r, err := c.propose(deadline(t), pause); err != nil || !errors.Is(r.Refusal, &registry.Refusal{Code: registry.Busy}) {
		t.Errorf("a command that earlier programs do not know: %+v, %v", r, err)
	}
	c.mu.Lock()
	c.earlier = []string{"n4"}
	c.mu.Unlock()
	for name := "b"; version(name) != registry.Version; name += "b" { // another leader may have asked just now
		if len(name) > 20 {
			t.Fatal("the rules stay those of earlier programs")
		}
	}
	c.mustPropose(pause)
	c.requireAgreement()
	c.start("n4", nil)
	var err error
	if failed := c.probe(deadline(t), func(n *Node) error {
		if err = n.Join(deadline(t), Peer{"n4", "n4"}); errors.Is(err, ErrUnsafe) {
			return nil
		}
		return err
	}); failed != nil {
		t.Fatal(failed)
	}
	if !errors.Is(err, ErrUnsafe) || !strings.Contains(err.Error(), "n4 is an earlier program") {
		t.Errorf("an earlier program joins: %v", err)
	}
}

// An entry by rules that the program does not know stops the node, also after a restart, and changes nothing.
func TestNewerEntry(t *testing.T) {
	c := newCluster(t, 1, rand.New(rand.NewPCG(1, 0)))
	c.mustPropose(submit("a", 1))
	n := c.leader()
	before := ""
	n.View(func(s *registry.State) { before = encode(t, s) })
	for range 2 {
		_ = n.raft.Apply([]byte(`{"version":99,"dance":{}}`), time.Second).Error()
		select {
		case <-n.Ended():
		case <-deadline(t).Done():
			t.Fatal("it goes on")
		}
		if err := n.Err(); err == nil || !strings.Contains(err.Error(), "version 99") {
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
