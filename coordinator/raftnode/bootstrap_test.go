package raftnode

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// The first of the peers forms a cluster once all others have answered twice that they are empty.
func TestAllEmpty(t *testing.T) {
	empty := func(process string) *probeReply { return &probeReply{Process: process} }
	member := &probeReply{Process: "p3", Member: true}
	both := answers{"n2": empty("p2"), "n3": empty("p3")}
	for name, c := range map[string]struct {
		before, now answers
		want        bool
	}{
		"twice":                 {both, both, true},
		"once":                  {nil, both, false},
		"one is silent":         {both, answers{"n2": empty("p2")}, false},
		"one was silent":        {answers{"n3": empty("p3")}, both, false},
		"one was started again": {both, answers{"n2": empty("q2"), "n3": empty("p3")}, false},
		"one has records":       {both, answers{"n2": empty("p2"), "n3": member}, false},
		"one had records":       {answers{"n2": empty("p2"), "n3": member}, both, false},
		"nobody answers":        {},
	} {
		b := &bootstrap{Config: Config{ID: "n1", Peers: []Peer{{"n3", ""}, {"n1", ""}, {"n2", ""}}}}
		if got := b.allEmpty(c.before, c.now); got != c.want || b.first() != "n1" {
			t.Errorf("%s: all empty is %v, first is %s", name, got, b.first())
		}
		if text := b.explain(c.now); !strings.Contains(text, "empty") {
			t.Errorf("%s: %q", name, text)
		}
	}
	lost := answers{"n2": empty("p2"), "n3": {Process: "p3", Lost: true}}
	one := &bootstrap{Config: Config{ID: "n1", Peers: []Peer{{"n1", ""}, {"n2", ""}, {"n3", ""}}}}
	if text := one.explain(lost); one.allEmpty(lost, lost) || !strings.Contains(text, "those of n3 are gone") {
		t.Errorf("one has lost its records: %q", text)
	}
	one.lost = true
	if text := one.explain(both); one.allEmpty(both, both) || !strings.Contains(text, "those of n1 are gone") {
		t.Errorf("this one has lost its records: %q", text)
	}
	alone := &bootstrap{Config: Config{ID: "n1", Peers: []Peer{{"n1", ""}}}}
	if !alone.allEmpty(nil, answers{}) {
		t.Error("a lone node waits")
	}
}

// No experiment is accepted before all peers have joined: fewer nodes would not survive the loss of one.
func TestFirstExperiment(t *testing.T) {
	c := newCluster(t, 0, rand.New(rand.NewPCG(1, 1)))
	c.start("n1", []Peer{{"n1", "n1"}, {"n2", "n2"}, {"n3", "n3"}})
	ctx := deadline(t)
	submitted := func() (err error) {
		if failed := c.probe(ctx, func(n *Node) error {
			_, err = n.Propose(ctx, submit("a", 1))
			return nil
		}); failed != nil {
			t.Fatal(failed)
		}
		return err
	}
	for _, id := range []string{"n2", "n3"} {
		if err := submitted(); !errors.Is(err, ErrUnavailable) ||
			!strings.Contains(err.Error(), "a peer has not joined") {
			t.Errorf("before %s has joined: %v", id, err)
		}
		c.join(id)
		c.node(id).peers.Store(3) // any of them may come to lead
	}
	c.mustPropose(submit("a", 1))
}

// A node that has forgotten its votes votes in no term up to the one that it was let in at, and in the next one does.
func TestSpentVotes(t *testing.T) {
	_, wireless := raft.NewInmemTransportWithTimeout("n2", time.Second)
	store := newRecords("n2")
	if err := spendVotes(store, 7); err != nil {
		t.Fatal(err)
	}
	n, err := start(Config{ID: "n2", Log: slog.New(slog.DiscardHandler), Timing: timing},
		parts{store, wireless, silent, nil}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	_, candidate := raft.NewInmemTransportWithTimeout("n1", patience)
	candidate.Connect("n2", wireless)
	for term, want := range map[uint64]bool{6: false, 7: false} {
		if got := requestVote(t, candidate, term); got != want {
			t.Errorf("it votes in term %d: %v", term, got)
		}
	}
	if !requestVote(t, candidate, 8) {
		t.Error("it does not vote in the term after")
	}
	if err := spendVotes(store, 7); err != nil {
		t.Fatal(err)
	}
	if term, err := store.GetUint64(keyTerm); term != 8 || err != nil {
		t.Errorf("it goes back to term %d, %v", term, err)
	}
}

func requestVote(t *testing.T, candidate *raft.InmemTransport, term uint64) bool {
	t.Helper()
	request := &raft.RequestVoteRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("n1"), Addr: []byte("n1")},
		Term:      term,
	}
	var response raft.RequestVoteResponse
	if err := candidate.RequestVote("n2", "n2", request, &response); err != nil {
		t.Fatal(err)
	}
	return response.Granted
}
