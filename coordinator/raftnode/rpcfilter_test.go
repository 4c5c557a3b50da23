package raftnode

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/dbqpg/dbqpg/coordinator/registry"
)

func TestAfter(t *testing.T) {
	request := func() *raft.AppendEntriesRequest {
		return &raft.AppendEntriesRequest{PrevLogEntry: 5, PrevLogTerm: 1,
			Entries: []*raft.Log{{Index: 6, Term: 1}, {Index: 7, Term: 2}, {Index: 8, Term: 3}}}
	}
	for applied, want := range map[uint64][3]uint64{ // the entry before, its term, and how many follow
		4: {5, 1, 3}, 5: {0, 0, 3}, 6: {0, 0, 2}, 7: {0, 0, 1}, 8: {0, 0, 0}, 9: {0, 0, 0},
	} {
		sent := request()
		got := after(sent, applied)
		if now := [3]uint64{got.PrevLogEntry, got.PrevLogTerm, uint64(len(got.Entries))}; now != want {
			t.Errorf("after %d: %v, want %v", applied, now, want)
		}
		if len(sent.Entries) != 3 || sent.PrevLogEntry != 5 {
			t.Error("the sender's own request is changed")
		}
	}
}

// servers returns a configuration of nodes whose addresses are their names.
func servers(ids ...string) (all raft.Configuration) {
	for _, id := range ids {
		all.Servers = append(all.Servers, raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(id)})
	}
	return all
}

// A candidate that is sent a snapshot by a leader, which is then lost, votes for the next one.
func TestSnapshotToCandidate(t *testing.T) {
	_, wireless := raft.NewInmemTransportWithTimeout("n2", time.Second)
	store := newRecords("n2")
	config := Config{ID: "n2", Log: slog.New(slog.DiscardHandler), Timing: timing}
	if err := raft.BootstrapCluster(raftConfig(&config), store, store, store, wireless,
		servers("n1", "n2", "n3")); err != nil {
		t.Fatal(err)
	}
	n, err := start(config, parts{store, wireless, silent, nil}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	await := func(what string, done func() bool) {
		t.Helper()
		for began := time.Now(); !done(); time.Sleep(time.Millisecond) { // raft tells of neither
			if time.Since(began) > patience {
				t.Fatal(what)
			}
		}
	}
	await("it does not stand for election", func() bool { return n.raft.State() == raft.Candidate })
	_, other := raft.NewInmemTransportWithTimeout("n1", patience)
	other.Connect("n2", wireless)
	var state bytes.Buffer
	if err := registry.New().Encode(&state); err != nil {
		t.Fatal(err)
	}
	term := n.Status().Term
	snapshot := &raft.InstallSnapshotRequest{
		RPCHeader:       raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("n3"), Addr: []byte("n3")},
		SnapshotVersion: raft.SnapshotVersionMax,
		Term:            term, LastLogIndex: 40, LastLogTerm: term, ConfigurationIndex: 1, Size: int64(state.Len()),
		Configuration: raft.EncodeConfiguration(servers("n1", "n2", "n3")),
	}
	var answer raft.InstallSnapshotResponse
	if err := other.InstallSnapshot("n2", "n2", snapshot, &answer, &state); err != nil || !answer.Success {
		t.Fatalf("%+v, %v", answer, err)
	}
	vote := &raft.RequestVoteRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax,
		ID: []byte("n1"), Addr: []byte("n1")}, Term: term + 1, LastLogIndex: 41, LastLogTerm: term}
	await("it votes for nobody", func() bool {
		var given raft.RequestVoteResponse
		if err := other.RequestVote("n2", "n2", vote, &given); err != nil {
			t.Fatal(err)
		}
		vote.Term = given.Term + 1
		return given.Granted
	})
}

// A snapshot that comes when its commands have long been applied is taken for installed and changes nothing; one from
// the future is looked at, and refused if it is none.
func TestOldSnapshot(t *testing.T) {
	c := newCluster(t, 1, rand.New(rand.NewPCG(1, 1)))
	c.mustPropose(submit("a", 1))
	n := c.node("n1")
	_, other := raft.NewInmemTransport("n2")
	defer other.Close()
	other.Connect("n1", c.wires["n1"])
	for index, want := range map[uint64]bool{1: true, 1 << 40: false} {
		q := &raft.InstallSnapshotRequest{
			RPCHeader:       raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax},
			SnapshotVersion: raft.SnapshotVersionMax,
			Term:            n.Status().Term, LastLogIndex: index, LastLogTerm: 1, ConfigurationIndex: 1, Size: 7,
			Configuration: raft.EncodeConfiguration(servers("n1")),
		}
		var a raft.InstallSnapshotResponse
		data := strings.NewReader("rubbish")
		err := other.InstallSnapshot("n1", "n1", q, &a, data)
		if (err == nil && a.Success) != want || data.Len() > 0 {
			t.Errorf("a snapshot up to %d: %+v, %v, %d bytes left; want success %v", index, a, err, data.Len(), want)
		}
	}
	n.View(func(s *registry.State) {
		if s.Experiment("a") == nil {
			t.Error("the state is lost")
		}
	})
}
