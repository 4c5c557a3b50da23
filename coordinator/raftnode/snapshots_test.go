package raftnode

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/dbqpg/dbqpg/coordinator/registry"
)

// A snapshot that comes when its commands have long been applied is taken for installed and changes nothing; one from the
// future is looked at, and refused if it is none.
func TestOldSnapshot(t *testing.T) {
	c := newCluster(t, 1, rand.New(rand.NewPCG(1, 1)))
	c.mustPropose(submit("a", 1))
	n := c.node("n1")
	_, other := raft.NewInmemTransport("n2")
	defer other.Close()
	other.Connect("n1", c.wires["n1"])
	for index, want := range map[uint64]bool{1: true, 1 << 40: false} {
		q := &raft.InstallSnapshotRequest{
			RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}, SnapshotVersion: raft.SnapshotVersionMax,
			Term: n.Status().Term, LastLogIndex: index, LastLogTerm: 1, ConfigurationIndex: 1, Size: 7,
			Configuration: raft.EncodeConfiguration(firstMembers([]Peer{{"n1", "n1"}})),
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
