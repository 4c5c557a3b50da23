package raftnode

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// What a node with an empty directory d2 does after two rounds of answers.
func TestDecide(t *testing.T) {
	empty := func(directory string) *probeReply { return &probeReply{Directory: directory} }
	member := &probeReply{Directory: "d1", Member: true, URLs: []string{"http://n1"}}
	founder := func(mine string) *probeReply {
		return &probeReply{Directory: "d1", Member: true, Founders: map[string]string{"n1": "d1", "n2": mine, "n3": "d3"}, URLs: []string{"http://n1"}}
	}
	both := answers{"n1": empty("d1"), "n3": empty("d3")}
	for name, c := range map[string]struct {
		before, now answers
		used        bool // raft has been at work in the directory
		want        decision
	}{
		"all empty, twice":                         {before: both, now: both, want: form},
		"all empty, once":                          {now: both, want: wait},
		"one silent":                               {before: both, now: answers{"n1": empty("d1")}, want: wait},
		"one was silent":                           {before: answers{"n3": empty("d3")}, now: both, want: wait},
		"one has lost its directory in between":    {before: both, now: answers{"n1": empty("e1"), "n3": empty("d3")}, want: wait},
		"one has begun in between":                 {before: both, now: answers{"n1": founder("d2"), "n3": empty("d3")}, want: form},
		"one has begun, and counts on this":        {now: answers{"n1": founder("d2")}, want: form},
		"one has begun, and counts on a lost one":  {before: both, now: answers{"n1": founder("c2"), "n3": empty("d3")}, want: join},
		"one is in a cluster":                      {now: answers{"n1": member, "n3": empty("d3")}, want: join},
		"one is in a cluster and knows of no URLs": {now: answers{"n1": {Directory: "d1", Member: true}, "n3": empty("d3")}, want: wait},
		"all empty, but this may have voted":       {before: both, now: both, used: true, want: wait},
		"counted on, but this may have voted":      {now: answers{"n1": founder("d2")}, used: true, want: join},
		"nobody answers":                           {want: wait},
	} {
		e := &bootstrap{self: "n2", others: []Peer{{"n1", ""}, {"n3", ""}}, identity: identity{Directory: "d2"}, fresh: !c.used}
		got, founders := e.decide(c.before, c.now)
		if got != c.want {
			t.Errorf("%s: decision %d, want %d", name, got, c.want)
		}
		if want := map[string]string{"n1": "d1", "n2": "d2", "n3": "d3"}; got == form && !maps.Equal(founders, want) {
			t.Errorf("%s: founders %v, want %v", name, founders, want)
		}
		if text := e.explain(got, c.now); !strings.Contains(text, "empty") {
			t.Errorf("%s: %q", name, text)
		}
	}
}

// A node that has forgotten its votes votes in no term up to the one that it was let in at, and in the next one does.
func TestSpentVotes(t *testing.T) {
	_, wireless := raft.NewInmemTransportWithTimeout("n2", time.Second)
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(t.TempDir(), 1, raftLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	store := raft.NewInmemStore()
	if err := spendVotes(store, 7); err != nil {
		t.Fatal(err)
	}
	n, err := start(Config{ID: "n2", Log: slog.New(slog.DiscardHandler), Timing: timing}, parts{store, store, snapshots, wireless, nil, nil})
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
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("n1"), Addr: []byte("n1")}, Term: term,
	}
	var response raft.RequestVoteResponse
	if err := candidate.RequestVote("n2", "n2", request, &response); err != nil {
		t.Fatal(err)
	}
	return response.Granted
}

// A directory has one name for as long as it is there.
func TestOrigin(t *testing.T) {
	directory := t.TempDir()
	first, err := readIdentity(directory)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := readIdentity(directory); err != nil || second.Directory != first.Directory {
		t.Error(second, err)
	}
	if other, err := readIdentity(t.TempDir()); err != nil || other.Directory == first.Directory {
		t.Error(other, err)
	}
	for _, text := range []string{"", "{", "{}"} {
		if err := os.WriteFile(filepath.Join(directory, identityFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readIdentity(directory); err == nil || !strings.Contains(err.Error(), "is damaged") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
