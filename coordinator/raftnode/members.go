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
	URL     string `json:"url,omitempty"` // that it takes requests at, once it has announced that
	Leader  bool   `json:"leader"`
}

// Status is where this node stands.
type Status struct {
	Term      uint64
	Last      uint64 // entry in the log
	Committed uint64 // entries, as far as it knows
	Applied   uint64 // entries
}

// Leader returns the leading node as this one knows it, zero if it knows none.
func (n *Node) Leader() registry.Node {
	_, id := n.raft.LeaderWithID()
	leader := registry.Node{ID: string(id)}
	n.machine.view(func(s *registry.State) { leader.URL = s.URL(leader.ID) })
	return leader
}

// Leads returns a channel that tells when this node begins (true) and ceases to lead. It has one reader.
func (n *Node) Leads() <-chan bool { return n.raft.LeaderCh() }

// Ended returns a channel that is closed once raft has ended: by Close, or because this node was taken out of the cluster and
// has heard of it.
func (n *Node) Ended() <-chan struct{} { return n.ended }

// watchEnd closes ended when raft ends.
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

// Status returns where this node stands.
func (n *Node) Status() Status {
	return Status{Term: n.raft.CurrentTerm(), Last: n.raft.LastIndex(), Committed: n.raft.CommitIndex(), Applied: n.raft.AppliedIndex()}
}

// Members returns the nodes of the cluster as this node knows them.
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
		return nil // it never fails but at the end
	}
	return future.Configuration().Servers
}

// Join adds a node to the cluster, or moves one to another address. Only the leader can. Errors are those of Read.
func (n *Node) Join(ctx context.Context, p Peer) error {
	return n.wait(ctx, n.raft.AddVoter(raft.ServerID(p.ID), raft.ServerAddress(p.Address), 0, 0))
}

// urls are where the nodes take requests, as far as this one knows.
func (n *Node) urls() (urls []string) {
	n.machine.view(func(s *registry.State) {
		for _, node := range s.Nodes {
			urls = append(urls, node.URL)
		}
	})
	return urls
}

// Forget takes a node that has lost its directory out of the cluster, so that it can join again, and returns a term: it
// must never vote in that or an earlier one (doc.go says why). Where there is no such node,
// it makes sure that none is on its way in or out. Only the leader can. Errors are those of Read.
func (n *Node) Forget(ctx context.Context, id string) (term uint64, err error) {
	if err := n.Remove(ctx, id); err != nil { // of one that is not there, too: it is committed after all changes before
		return 0, err
	}
	return n.raft.CurrentTerm(), nil
}

// Remove takes a node out of the cluster, this one too. Only the leader can. Errors are those of Read.
func (n *Node) Remove(ctx context.Context, id string) error {
	return n.wait(ctx, n.raft.RemoveServer(raft.ServerID(id), 0, 0))
}
