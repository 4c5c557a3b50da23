package raftnode

import (
	"context"
	"fmt"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/dbqpg/dbqpg/coordinator/registry"
)

// Member is a node of the cluster.
type Member struct {
	ID      string `json:"id"`
	Address string `json:"address"`       // of its raft listener
	URL     string `json:"url,omitempty"` // where it takes requests, once announced
	Leader  bool   `json:"leader"`
}

// Status is a node's position in the log.
type Status struct {
	Term      uint64
	Last      uint64 // index of the last log entry
	Committed uint64 // index of the last entry known to be committed
	Applied   uint64 // index of the last applied entry
}

// Leader returns the leader that this node knows, or the zero value.
func (n *Node) Leader() registry.Node {
	_, id := n.raft.LeaderWithID()
	leader := registry.Node{ID: string(id)}
	n.machine.view(func(s *registry.State) { leader.URL = s.URL(leader.ID) })
	return leader
}

// Ended returns a channel that is closed once raft has stopped: by Close, or because this node learned that it was removed
// from the cluster.
func (n *Node) Ended() <-chan struct{} { return n.ended }

// watchEnd closes ended when raft stops.
func (n *Node) watchEnd() {
	var once sync.Once
	observer := raft.NewObserver(nil, false, func(o *raft.Observation) bool {
		if state, ok := o.Data.(raft.RaftState); ok && state == raft.Shutdown {
			once.Do(func() { close(n.ended) })
		}
		return false
	})
	n.raft.RegisterObserver(observer)
}

// WaitLeader waits until this node knows a leader.
func (n *Node) WaitLeader(ctx context.Context) error {
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

// Status returns this node's position in the log.
func (n *Node) Status() Status {
	return Status{Term: n.raft.CurrentTerm(), Last: n.raft.LastIndex(), Committed: n.raft.CommitIndex(), Applied: n.raft.AppliedIndex()}
}

// Members returns the cluster's nodes as known to this one.
func (n *Node) Members() []Member {
	leader := n.Leader().ID
	var members []Member
	for _, server := range n.members() {
		m := Member{ID: string(server.ID), Address: string(server.Address), Leader: string(server.ID) == leader}
		n.machine.view(func(s *registry.State) { m.URL = s.URL(m.ID) })
		members = append(members, m)
	}
	return members
}

func (n *Node) members() []raft.Server {
	future := n.raft.GetConfiguration()
	if future.Error() != nil {
		return nil // it fails only at shutdown
	}
	return future.Configuration().Servers
}

// Join adds a node to the cluster, or moves one to another address. Only the leader can do so. Errors are those of Read.
func (n *Node) Join(ctx context.Context, p Peer) error {
	return n.wait(ctx, n.raft.AddVoter(raft.ServerID(p.ID), raft.ServerAddress(p.Address), 0, 0))
}

// urls returns the nodes' URLs, as far as known.
func (n *Node) urls() (urls []string) {
	n.machine.view(func(s *registry.State) {
		for _, node := range s.Nodes {
			urls = append(urls, node.URL)
		}
	})
	return urls
}

// Forget removes a node that has lost its directory from the cluster, so that it can join again, and returns a term: the
// node must never vote in that term or an earlier one (doc.go says why). If there is no such node, Forget makes sure that
// none is being added or removed. Only the leader can do so. Errors are those of Read.
func (n *Node) Forget(ctx context.Context, id string) (term uint64, err error) {
	if err := n.Remove(ctx, id); err != nil { // even if it is not a member: this commits after all earlier changes
		return 0, err
	}
	return n.raft.CurrentTerm(), nil
}

// Remove removes a node from the cluster, possibly this one. Only the leader can do so. Errors are those of Read.
func (n *Node) Remove(ctx context.Context, id string) error {
	return n.wait(ctx, n.raft.RemoveServer(raft.ServerID(id), 0, 0))
}
