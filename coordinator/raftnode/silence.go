package raftnode

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// silence is since when the leader cannot reach other nodes. It is empty on a node that does not lead.
type silence struct {
	mu    sync.Mutex
	since map[raft.ServerID]time.Time
}

func newSilence() silence { return silence{since: map[raft.ServerID]time.Time{}} }

// observe takes raft's word for who answers heartbeats.
func (s *silence) observe(o *raft.Observation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch news := o.Data.(type) {
	case raft.FailedHeartbeatObservation:
		s.since[news.PeerID] = news.LastContact
	case raft.ResumedHeartbeatObservation:
		delete(s.since, news.PeerID)
	case raft.PeerObservation: // it joins or leaves
		delete(s.since, news.Peer.ID)
	case raft.RaftState:
		clear(s.since)
	}
	return false
}

// of returns since when a node is silent, zero if it is not.
func (s *silence) of(id raft.ServerID) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since[id]
}
