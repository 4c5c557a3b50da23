package raftnode

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/pause"
)

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

// Ended returns a channel that is closed once raft has stopped: by Close, or because this node learned that it was
// removed from the cluster.
func (n *Node) Ended() <-chan struct{} { return n.ended }

// Err returns why the node has stopped by itself, nil if it has not, or was removed.
func (n *Node) Err() (err error) {
	n.machine.view(func(*registry.State) { err = n.machine.stopped })
	return err
}

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

// Status returns this node's position in the log.
func (n *Node) Status() Status {
	r := n.raft
	return Status{Term: r.CurrentTerm(), Last: r.LastIndex(), Committed: r.CommitIndex(), Applied: r.AppliedIndex()}
}

// Members returns the cluster's nodes as known to this one.
func (n *Node) Members() []registry.Member {
	leader := n.Leader().ID
	var members []registry.Member
	for _, server := range n.members() {
		m := registry.Member{
			ID: string(server.ID), Address: string(server.Address), Leader: string(server.ID) == leader,
			Voter: server.Suffrage == raft.Voter, Silent: n.silence.of(server.ID),
		}
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

func peer(s raft.Server) Peer { return Peer{string(s.ID), string(s.Address)} }

// voters returns the number of nodes that count for majorities.
func (n *Node) voters() (count int) {
	for _, server := range n.members() {
		if server.Suffrage == raft.Voter {
			count++
		}
	}
	return count
}

// describe adds to a reply what the running node knows.
func (n *Node) describe(h *probeReply) {
	h.Applied = n.raft.AppliedIndex()
	for _, server := range n.members() {
		h.Addresses = append(h.Addresses, string(server.Address))
	}
	n.machine.view(func(s *registry.State) {
		for _, node := range s.Nodes {
			h.URLs = append(h.URLs, node.URL)
		}
		h.Digests = slices.Clone(n.machine.digests)
	})
}

// Join adds a node to the cluster, or moves one to another address, if it answers there as itself. A new one has no
// vote until it has applied all that was committed when it came: nodes that nobody reaches, or that lag, would take
// part in every majority. Only the leader can do so. Errors are those of Read, or wrap ErrUnsafe; after one Join may
// be repeated.
func (n *Node) Join(ctx context.Context, p Peer) error {
	if err := n.verify(ctx); err != nil {
		return err
	}
	h, err := n.ask(ctx, p)
	if err != nil {
		return fmt.Errorf("%w: %s must answer at %s, its --advertise-raft: %w", ErrUnsafe, p.ID, p.Address, err)
	}
	own := slices.IndexFunc(n.members(), func(m raft.Server) bool { return string(m.ID) == n.id })
	if own < 0 || len(h.Addresses) > 0 && !slices.Contains(h.Addresses, string(n.members()[own].Address)) {
		return fmt.Errorf("%w: %s is in another cluster, of %s: start it in an empty directory",
			ErrUnsafe, p.ID, strings.Join(h.Addresses, ", "))
	}
	if h.Version != registry.Version {
		return fmt.Errorf("%w: %s keeps records of version %d, the cluster of version %d: start the same program",
			ErrUnsafe, p.ID, h.Version, registry.Version)
	}
	if err := n.wait(ctx, n.raft.AddNonvoter(raft.ServerID(p.ID), raft.ServerAddress(p.Address), 0, 0)); err != nil {
		return err
	}
	for goal := n.raft.CommitIndex(); n.awaitApplied(ctx, p, goal) != nil; {
		if !pause.For(ctx, catchUpPause) {
			return fmt.Errorf("%s has not applied the log's first %d entries: %w", p.ID, goal, ctx.Err())
		}
	}
	promotion := n.raft.AddVoter(raft.ServerID(p.ID), raft.ServerAddress(p.Address), 0, 0)
	if err := n.wait(ctx, promotion); err != nil {
		return err
	}
	// Raft's nodes vote for no candidate that they do not know to be a voter: if the leader were lost now, the others
	// could not elect one.
	for _, server := range n.members() {
		_ = n.awaitApplied(ctx, peer(server), promotion.Index()) // a node that is down learns of it later
	}
	return nil
}

// catchUpPause is how long Join waits before it asks a node again how far it is.
const catchUpPause = 20 * time.Millisecond

// awaitApplied waits until a node has applied the log up to an index. The error says that it does not answer, or is
// ctx's.
func (n *Node) awaitApplied(ctx context.Context, p Peer, index uint64) error {
	for {
		h, err := n.ask(ctx, p)
		if err != nil || h.Applied >= index {
			return err
		}
		if !pause.For(ctx, catchUpPause) {
			return ctx.Err()
		}
	}
}

// Forget removes a node that has lost its directory from the cluster, so that it can join again, and returns a term:
// the node must never vote in that term or an earlier one (doc.go says why). If there is no such node, Forget makes
// sure that none is being added or removed. Only the leader can do so. Errors are those of Remove.
func (n *Node) Forget(ctx context.Context, p Peer) (term uint64, err error) {
	switch h, err := n.ask(ctx, p); {
	case err != nil:
		return 0, fmt.Errorf("%w: %s must answer at %s, its --advertise-raft: %w", ErrUnsafe, p.ID, p.Address, err)
	case h.Member:
		return 0, fmt.Errorf("%w: %s at %s has not lost its directory", ErrUnsafe, p.ID, p.Address)
	}
	if err := n.remove(ctx, p.ID); err != nil { // even if it is not a member: this commits after all earlier changes
		return 0, err
	}
	return n.raft.CurrentTerm(), nil
}

// Remove removes a node from the cluster, possibly this one, and its URL from the list. Only the leader can do so.
// Errors are those of Read, or wrap ErrUnsafe.
func (n *Node) Remove(ctx context.Context, id string) error {
	n.peers.Store(0)
	return n.remove(ctx, id)
}

func (n *Node) remove(ctx context.Context, id string) error {
	if err := n.surviveWithout(ctx, id); err != nil {
		return err
	}
	gone := &registry.Announce{Node: registry.Node{ID: id}}
	if _, err := n.Propose(ctx, registry.Command{Announce: gone}); err != nil {
		return err
	}
	err := n.wait(ctx, n.raft.RemoveServer(raft.ServerID(id), 0, 0))
	if id == n.id && n.removed() {
		return nil
	}
	return err
}

// removed reports whether raft has stopped because this node is removed from the cluster.
func (n *Node) removed() bool {
	select {
	case <-n.ended:
		return !n.closing.Load() && n.Err() == nil
	default:
		return false
	}
}

// surviveWithout returns an error if a majority of the voters does not answer once a node is removed.
func (n *Node) surviveWithout(ctx context.Context, id string) error {
	var silent []string
	var mu sync.Mutex
	var asking sync.WaitGroup
	voters := 0
	for _, server := range n.members() {
		if server.Suffrage != raft.Voter || string(server.ID) == id {
			continue
		}
		voters++
		asking.Go(func() {
			if _, err := n.ask(ctx, peer(server)); err != nil && string(server.ID) != n.id {
				mu.Lock()
				defer mu.Unlock()
				silent = append(silent, string(server.ID))
			}
		})
	}
	asking.Wait()
	slices.Sort(silent)
	switch {
	case voters == 0:
		return fmt.Errorf("%w: without %s no node is left", ErrUnsafe, id)
	case 2*len(silent) >= voters:
		return fmt.Errorf("%w: without %s, %d of %d nodes would have to agree, and %s would not answer: "+
			"bring a node back or add one first", ErrUnsafe, id, voters/2+1, voters, strings.Join(silent, ", "))
	}
	return nil
}
