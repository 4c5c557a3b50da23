package raftnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/dbqpg/dbqpg/coordinator/registry"
)

// Node is one replica. It is safe for concurrent use.
type Node struct {
	id      string
	raft    *raft.Raft
	machine *machine
	filter  *rpcFilter
	ask     func(context.Context, Peer) (*probeReply, error)
	clock   *clock
	log     *slog.Logger
	closers []io.Closer
	ended   chan struct{} // closed when raft stops
	silence silence
	records *records
	peers   atomic.Int64  // that are to be voters before the first experiment is accepted; 0: however many there are
	barrier atomic.Uint64 // the term whose predecessors' commands are all applied here
	closing atomic.Bool
}

// parts are a node's storage and transport, which tests replace.
type parts struct {
	records   *records
	transport transport
	ask       func(context.Context, Peer) (*probeReply, error) // asks another node for its state
	closers   []io.Closer                                      // in closing order
}

// Open starts a node, which resumes from its directory. If that is empty the node first waits, until ctx is done, to
// form or enter a cluster.
func Open(ctx context.Context, c Config) (*Node, error) {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	b, err := newBootstrap(c)
	if err != nil {
		return nil, errors.Join(err, c.Listener.Close())
	}
	transport := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: b.stream, MaxPool: transportPool, Timeout: transportTimeout, Logger: raftLogger(c.Log),
	})
	p := parts{b.records, transport, b.stream.probe, []io.Closer{transport, b.records}}
	forms, err := b.run(ctx)
	if err == nil {
		var n *Node
		if n, err = start(c, p, forms); err == nil {
			b.report(n)
			return n, nil
		}
	}
	for _, closer := range p.closers {
		err = errors.Join(err, closer.Close())
	}
	return nil, err
}

// start starts raft; forms says whether the node is to form a cluster of itself.
func start(c Config, p parts, forms bool) (*Node, error) {
	n := &Node{
		id: c.ID, machine: newMachine(), clock: newClock(c.Now), log: c.Log, ask: p.ask, closers: p.closers,
		ended: make(chan struct{}), silence: newSilence(), records: p.records,
		filter: newRPCFilter(p.transport, p.records),
	}
	n.peers.Store(int64(len(c.Peers)))
	config, err := raftConfig(&c), error(nil)
	switch {
	case forms:
		err = form(&c, p)
	case c.Restore != nil:
		err = errors.New("the data directory already holds records: restore the backup to a new one")
	}
	if err == nil {
		err = p.records.join()
	}
	if err == nil {
		n.raft, err = raft.NewRaft(config, n.machine, p.records, p.records, p.records, n.filter)
	}
	if err != nil {
		return nil, fmt.Errorf("start raft: %w", err)
	}
	go n.filter.run(n.raft.AppliedIndex)
	n.watchEnd()
	comparing, cancel := context.WithCancel(context.Background())
	go n.compare(comparing, c.Timing.orDefault().SnapshotInterval)
	go func() {
		defer cancel()
		select {
		case <-n.machine.stop:
			n.raft.Shutdown()
		case <-n.ended:
		}
	}()
	n.raft.RegisterObserver(raft.NewObserver(nil, false, n.silence.observe))
	return n, nil
}

// form writes the records of a cluster of this node alone: a snapshot, of the backup if there is one.
func form(c *Config, p parts) error {
	state := c.Restore
	if state == nil {
		state = registry.New()
	}
	self := raft.Configuration{Servers: []raft.Server{{ID: raft.ServerID(c.ID), Address: p.transport.LocalAddr()}}}
	const index, term = 1, 1
	sink, err := p.records.Create(raft.SnapshotVersionMax, index, term, self, index, p.transport)
	if err != nil {
		return err
	}
	return errors.Join(p.records.SetUint64(keyTerm, term), snapshot{state}.Persist(sink))
}

func raftConfig(c *Config) *raft.Config {
	timing := c.Timing.orDefault()
	config := raft.DefaultConfig()
	config.LocalID = raft.ServerID(c.ID)
	config.Logger = raftLogger(c.Log)
	config.HeartbeatTimeout = timing.Heartbeat
	config.ElectionTimeout = timing.Heartbeat
	config.LeaderLeaseTimeout = timing.Heartbeat / 2
	config.CommitTimeout = min(config.CommitTimeout, timing.Heartbeat/10)
	config.SnapshotThreshold = timing.SnapshotEvery
	config.SnapshotInterval = timing.SnapshotInterval
	config.TrailingLogs = timing.Trailing
	config.NoLegacyTelemetry = true
	return config
}

// ID returns the node's name.
func (n *Node) ID() string { return n.id }

// Propose executes a command once a majority of the nodes have it on disk. A refusal is in the
// response. Errors are those of [Node.Read]; it is then unknown whether the command was executed,
// unless the error is a *NotLeaderError. The same request may be sent again.
func (n *Node) Propose(ctx context.Context, c registry.Command) (registry.Response, error) {
	var refusal *registry.Refusal
	c.Term = n.raft.CurrentTerm()
	first := false
	n.machine.view(func(s *registry.State) { c.Time, first = n.Time(s), s.Changed == 0 && c.Submit != nil })
	if first && n.voters() < int(n.peers.Load()) {
		return registry.Response{}, fmt.Errorf("%w (a peer has not joined yet; if it is not to, start without --peers)",
			ErrUnavailable)
	}
	if err := c.Check(); errors.As(err, &refusal) {
		return registry.Response{Refusal: refusal}, nil
	}
	data, err := registry.EncodeCommand(c)
	if errors.As(err, &refusal) {
		return registry.Response{Refusal: refusal}, nil
	} else if err != nil {
		return registry.Response{}, err
	}
	future := n.raft.Apply(data, enqueueTimeout)
	if err := n.wait(ctx, future); err != nil {
		return registry.Response{}, err
	}
	return future.Response().(registry.Response), nil
}

// enqueueTimeout bounds how long a command waits to enter the leader's queue.
const enqueueTimeout = 5 * time.Second

// Read calls f with the state, which includes every command answered before the call. f must neither retain nor
// change it. The error is a *NotLeaderError, ctx's error, or wraps ErrUnavailable.
func (n *Node) Read(ctx context.Context, f func(*registry.State)) error {
	for {
		term := n.raft.CurrentTerm()
		if n.barrier.Load() != term {
			if err := n.wait(ctx, n.raft.Barrier(enqueueTimeout)); err != nil {
				return err
			}
			n.barrier.Store(term)
		}
		if err := n.verify(ctx); err != nil {
			return err
		}
		if n.raft.CurrentTerm() == term { // else it lost the lead and regained it meanwhile
			n.machine.view(f)
			return nil
		}
	}
}

// verify asks a majority whether this node leads.
func (n *Node) verify(ctx context.Context) error { return n.wait(ctx, n.raft.VerifyLeader()) }

// View calls f with this node's state, which may lag.
func (n *Node) View(f func(*registry.State)) { n.machine.view(f) }

// Changed returns a channel that is closed once a run has changed since the given index of the state.
func (n *Node) Changed(after uint64) <-chan struct{} {
	n.machine.mu.RLock()
	defer n.machine.mu.RUnlock()
	if n.machine.state.Changed > after {
		done := make(chan struct{})
		close(done)
		return done
	}
	return n.machine.changed
}

// wait waits for a future or ctx, and translates raft's errors. A future never ends if raft stops by itself at the
// moment in which it is asked.
func (n *Node) wait(ctx context.Context, future raft.Future) error {
	done := make(chan error, 1)
	go func() { done <- future.Error() }()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-done:
		return n.translate(err)
	case <-n.ended:
		return n.translate(raft.ErrRaftShutdown)
	}
}

// Close stops the node. A leader first hands over to another node, if there is one.
func (n *Node) Close() error {
	if n.raft.State() == raft.Leader && len(n.members()) > 1 {
		if err := n.raft.LeadershipTransfer().Error(); err != nil {
			n.log.Info("could not transfer leadership", "error", err)
		}
	}
	errs := []error{n.shutdown()}
	for _, closer := range n.closers {
		errs = append(errs, closer.Close())
	}
	return errors.Join(errs...)
}

// shutdown stops raft.
func (n *Node) shutdown() error {
	n.closing.Store(true)
	err := n.raft.Shutdown().Error()
	n.filter.close()
	return err
}
