package raftnode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/dbqpg/dbqpg/coordinator/registry"
)

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// waitLeader waits until a node knows a leader.
func waitLeader(ctx context.Context, n *Node) error {
	changes := make(chan raft.Observation, 1)
	observer := raft.NewObserver(changes, false, func(o *raft.Observation) bool {
		_, leader := o.Data.(raft.LeaderObservation)
		return leader
	})
	n.raft.RegisterObserver(observer)
	defer n.raft.DeregisterObserver(observer)
	for n.Leader().ID == "" {
		select {
		case <-changes:
		case <-ctx.Done():
			return fmt.Errorf("no leader: %w", ctx.Err())
		}
	}
	return nil
}

// open opens a node that is alone, over TCP and on disk.
func open(t testing.TB, directory string) *Node {
	t.Helper()
	l := listen(t)
	n, err := Open(context.Background(), Config{
		ID: "n1", DataDir: directory, Listener: l, Peers: []Peer{{"n1", l.Addr().String()}},
		Log: slog.New(slog.DiscardHandler), Timing: timing,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := waitLeader(deadline(t), n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A node resumes from its directory, from the log and from a snapshot; two nodes cannot share a directory.
func TestRestart(t *testing.T) {
	directory := t.TempDir()
	ctx := deadline(t)
	for i, name := range []string{"a", "b", "c"} {
		n := open(t, directory)
		if r, err := n.Propose(ctx, submit(name, 2)); err != nil || r.Runs != 2 {
			t.Fatal(r, err)
		}
		if err := n.Read(ctx, func(s *registry.State) {
			if len(s.Runs) != 2*(i+1) {
				t.Errorf("%d runs after %d starts", len(s.Runs), i)
			}
		}); err != nil {
			t.Fatal(err)
		}
		l := listen(t)
		if _, err := Open(context.Background(), Config{ID: "n1", DataDir: directory, Listener: l}); err == nil ||
			!strings.Contains(err.Error(), "another node runs") {
			t.Errorf("a second node in the same directory: %v", err)
		}
		if i == 1 {
			if err := n.raft.Snapshot().Error(); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := n.Propose(ctx, submit("d", 1)); !errors.Is(err, ErrUnavailable) {
			t.Errorf("a closed node says %v", err)
		}
		if err := n.Read(ctx, func(*registry.State) {}); !errors.Is(err, ErrUnavailable) {
			t.Errorf("a closed node says %v", err)
		}
	}
}

func TestBadConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]Config{
		"a node's name has":      {ID: "a b", DataDir: t.TempDir()},
		"needs a data directory": {ID: "n1"},
		"not among the peers":    {ID: "n1", DataDir: t.TempDir(), Peers: []Peer{{"n2", "x:1"}}},
		"create the data":        {ID: "n1", DataDir: filepath.Join(file, "x")},
	} {
		c.Listener = listen(t)
		if _, err := Open(context.Background(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for text, good := range map[string]bool{
		"": true, "n1=h:1": true, "n1=h:1,n2=h:2,n3=h:3": true, "n1=h:1,n2=h:2": false, "n1": false, "n1=h": false,
		"=h:1": false, "n1=h:1,n1=h:2,n2=h:3": false,
	} {
		if _, err := ParsePeers(text); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A follower says who leads; a leader that is cut off stops to say that it does, and what it did not commit is gone.
func TestLeadership(t *testing.T) {
	c := newCluster(t, 3, rand.New(rand.NewPCG(1, 1)))
	ctx := deadline(t)
	c.mustPropose(submit("a", 1))
	old := c.leader()
	c.mustPropose(registry.Command{Announce: &registry.Announce{Node: registry.Node{ID: old.ID(), URL: "http://old"}}})
	for _, id := range c.running() {
		if id == old.ID() {
			continue
		}
		n := c.node(id)
		if err := waitLeader(ctx, n); err != nil {
			t.Fatal(err)
		}
		var elsewhere *NotLeaderError
		if _, err := n.Propose(ctx, submit("b", 1)); !errors.As(err, &elsewhere) || elsewhere.Leader.ID != old.ID() {
			t.Errorf("%s says %v", id, err)
		}
		if err := n.Read(ctx, func(*registry.State) {}); !errors.As(err, &elsewhere) {
			t.Errorf("%s can be read: %v", id, err)
		}
	}

	addresses := []raft.ServerAddress{"n1", "n2", "n3"}
	c.network.divide(addresses, []raft.ServerAddress{raft.ServerAddress(old.ID())}, false)
	if _, err := old.Propose(ctx, submit("lost", 1)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a leader that is cut off says %v", err)
	}
	if err := old.Read(ctx, func(*registry.State) {}); err == nil {
		t.Error("a leader that is cut off can be read")
	}
	c.mustPropose(submit("c", 1))
	c.network.divide(addresses, nil, false)
	c.requireAgreement()
	old.View(func(s *registry.State) {
		if s.Experiment("lost") != nil || s.Experiment("c") == nil {
			t.Errorf("%s holds %+v", old.ID(), s.Experiments)
		}
	})
}

// A leader that is taken out while many ask it something ends: no question holds it up.
func TestLeaderLeavesWhileAsked(t *testing.T) {
	for range 20 {
		c := newCluster(t, 3, rand.New(rand.NewPCG(1, 1)))
		c.mustPropose(submit("a", 1))
		leader := c.leader()
		var asking sync.WaitGroup
		ctx := deadline(t)
		for range 16 {
			asking.Go(func() {
				for leader.Read(ctx, func(*registry.State) {}) == nil {
				}
			})
		}
		out := func(n *Node) error { return n.Remove(ctx, leader.ID()) }
		if err := c.probe(ctx, out); err != nil { // on a busy machine it may have lost the lead
			t.Fatal(err)
		}
		asking.Wait()
		if err := ctx.Err(); err != nil {
			t.Fatal("a question is never answered: ", err)
		}
		c.stop(leader.ID())
	}
}

// A node that was away for longer than the log reaches back gets a snapshot; a lost one is replaced by another, and
// nothing is lost with it.
func TestReplaceNode(t *testing.T) {
	c := newCluster(t, 3, rand.New(rand.NewPCG(1, 1)))
	ctx := deadline(t)
	c.stop("n3")
	for range 80 {
		c.mustPropose(announcement)
	}
	if err := c.leader().raft.Snapshot().Error(); err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		t.Fatal(err)
	}
	c.start("n3", nil)
	c.requireAgreement()
	if c.network.count.installed == 0 {
		t.Error("no snapshot was installed")
	}

	c.stop("n2")
	c.start("n4", nil)
	for _, change := range []func(*Node) error{
		func(n *Node) error { return n.Join(ctx, Peer{"n4", "n4"}) },
		func(n *Node) error { return n.Remove(ctx, "n2") },
	} {
		if err := c.probe(ctx, change); err != nil {
			t.Fatal(err)
		}
	}
	c.stop("n3") // so n1 and n4 are the majority
	c.mustPropose(submit("more", 3))
	members := c.leader().Members()
	if len(members) != 3 {
		t.Errorf("members %+v", members)
	}
	c.start("n3", nil)
	c.node("n3").View(func(*registry.State) {})
	if r, err := c.propose(ctx, submit("more", 3)); err != nil || r.Refusal == nil ||
		r.Refusal.Code != registry.Exists {
		t.Errorf("%+v, %v", r, err)
	}
}

// announcement is a command that changes no run.
var announcement = registry.Command{Announce: &registry.Announce{Node: registry.Node{ID: "n9", URL: "http://n9"}}}

// A watcher is woken by the change of a run, and not by another command.
func TestChanged(t *testing.T) {
	n := open(t, t.TempDir())
	defer n.Close()
	ctx := deadline(t)
	index := func() (changed uint64) {
		n.View(func(s *registry.State) { changed = s.Changed })
		return changed
	}
	before := index()
	wait := n.Changed(before)
	if _, err := n.Propose(ctx, announcement); err != nil {
		t.Fatal(err)
	}
	select {
	case <-wait:
		t.Error("an announcement wakes watchers of runs")
	default:
	}
	if _, err := n.Propose(ctx, submit("a", 1)); err != nil {
		t.Fatal(err)
	}
	<-wait
	<-n.Changed(before)
	if index() == before {
		t.Error("nothing has changed")
	}
}

func BenchmarkPropose(b *testing.B) {
	for _, parallel := range []int{1, 16} {
		b.Run(map[int]string{1: "one client", 16: "many clients"}[parallel], func(b *testing.B) {
			n := open(b, b.TempDir())
			defer n.Close()
			command := announcement
			b.SetParallelism(parallel)
			b.ResetTimer()
			if parallel == 1 {
				for range b.N {
					if _, err := n.Propose(context.Background(), command); err != nil {
						b.Fatal(err)
					}
				}
				return
			}
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := n.Propose(context.Background(), command); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
