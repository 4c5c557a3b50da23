package raftnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	boltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

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
	disk    *diskLog
	peers   atomic.Int64  // that are to be voters before the first experiment is accepted; 0: however many there are
	barrier atomic.Uint64 // the term whose predecessors' commands are all applied here
	closing atomic.Bool
}

// parts are a node's storage and transport, which tests replace.
type parts struct {
	logs      raft.LogStore
	stable    raft.StableStore
	snapshots raft.SnapshotStore
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
	b := newBootstrap(c)
	p, err := openParts(&c, b)
	if err != nil {
		return nil, errors.Join(err, c.Listener.Close())
	}
	forms, err := b.run(ctx, p.stable)
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

// openParts checks the settings and opens the directory.
func openParts(c *Config, b *bootstrap) (parts, error) {
	if err := c.check(); err != nil {
		return parts{}, err
	}
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return parts{}, fmt.Errorf("create the data directory: %w", err)
	}
	path := filepath.Join(c.DataDir, "raft.db")
	store, err := boltdb.New(boltdb.Options{Path: path, BoltOptions: &bbolt.Options{Timeout: time.Second}})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return parts{}, fmt.Errorf("%s is in use: another node runs in that data directory", path)
	}
	if err != nil {
		return parts{}, fmt.Errorf("open the log %s: %w", path, err)
	}
	logger := raftLogger(c.Log)
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(c.DataDir, 2, logger)
	if err == nil {
		err = b.open(store, snapshots)
	}
	if err != nil {
		return parts{}, errors.Join(fmt.Errorf("open the records in %s: %w", c.DataDir, err), store.Close())
	}
	transport := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: b.stream, MaxPool: transportPool, Timeout: transportTimeout, Logger: logger,
	})
	return parts{store, store, snapshots, transport, b.stream.probe, []io.Closer{transport, store}}, nil
}

// newRaft starts raft, which panics when an entry of its log cannot be read.
func newRaft(directory string, config *raft.Config, n *Node, p parts) (r *raft.Raft, err error) {
	defer func() {
		if found := recover(); found != nil {
			err = fmt.Errorf("the records in %s are damaged (%v): with other nodes, have this one join them again "+
				"with an empty directory; else restore a backup to one (docs/coordinator.md)", directory, found)
		}
	}()
	return raft.NewRaft(config, n.machine, n.disk, p.stable, p.snapshots, n.filter)
}

// start starts raft; forms says whether the node is to form a cluster of itself.
func start(c Config, p parts, forms bool) (*Node, error) {
	n := &Node{
		id: c.ID, machine: newMachine(), clock: newClock(c.Now), log: c.Log, ask: p.ask, closers: p.closers,
		ended: make(chan struct{}), silence: newSilence(),
	}
	n.peers.Store(int64(len(c.Peers)))
	config := raftConfig(&c)
	switch {
	case forms:
		if err := form(&c, config, p); err != nil {
			return nil, fmt.Errorf("form the cluster: %w", err)
		}
	case c.Restore != nil:
		return nil, errors.New("the data directory already holds records: restore the backup to a new one")
	}
	n.filter = newRPCFilter(p.transport, p.logs)
	n.disk = &diskLog{LogStore: p.logs}
	var err error
	if n.raft, err = newRaft(c.DataDir, config, n, p); err != nil {
		return nil, fmt.Errorf("start raft: %w", err)
	}
	go n.filter.run(n.raft.AppliedIndex)
	n.watchEnd()
	go func() {
		select {
		case <-n.machine.stop:
			n.raft.Shutdown()
		case <-n.ended:
		}
	}()
	n.raft.RegisterObserver(raft.NewObserver(nil, false, n.silence.observe))
	return n, nil
}

// form writes the records of a cluster of this node alone. With a backup these are a snapshot of it in place of the
// log's only entry, so that nodes which join receive the snapshot.
func form(c *Config, config *raft.Config, p parts) error {
	self := raft.Configuration{Servers: []raft.Server{{ID: config.LocalID, Address: p.transport.LocalAddr()}}}
	err := raft.BootstrapCluster(config, p.logs, p.stable, p.snapshots, p.transport, self)
	if err != nil || c.Restore == nil {
		return err
	}
	const index, term = 1, 1
	sink, err := p.snapshots.Create(raft.SnapshotVersionMax, index, term, self, index, p.transport)
	if err != nil {
		return err
	}
	if err := (snapshot{c.Restore}).Persist(sink); err != nil {
		return err
	}
	return p.logs.DeleteRange(index, index)
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
