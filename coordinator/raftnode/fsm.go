package raftnode

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/dbqpg/dbqpg/coordinator/registry"
)

// machine is the registry as raft's state machine.
type machine struct {
	mu      sync.RWMutex
	state   *registry.State
	changed chan struct{} // closed and replaced when a run changes
	stopped error         // why no more entries are applied; nil: they are
	stop    chan struct{} // closed when stopped is set
	digests []digest      // the last ones
}

func newMachine() *machine {
	return &machine{state: registry.New(), changed: make(chan struct{}), stop: make(chan struct{})}
}

// Apply executes a command from the log. A leader proposes only valid ones, but the log is a file:
// an invalid command is refused on every node alike. One of another version stops the node, which would come to another
// state than others.
func (m *machine) Apply(entry *raft.Log) any {
	command, err := registry.DecodeCommand(entry.Data)
	m.mu.Lock()
	defer m.mu.Unlock()
	var other registry.VersionError
	if errors.As(err, &other) {
		m.halt(fmt.Errorf("entry %d of the log: %w", entry.Index, err))
	}
	if err = cmp.Or(m.stopped, err); err != nil {
		return registry.Response{Refusal: &registry.Refusal{Code: registry.Invalid, Message: err.Error()}}
	}
	before := m.state.Changed
	response := m.state.Apply(command)
	if m.state.Changed != before {
		m.wake()
	}
	if m.state.Index%digestEvery == 0 {
		go m.note(m.state.Clone())
	}
	return response
}

// halt stops the node. The caller holds mu.
func (m *machine) halt(err error) {
	if m.stopped == nil {
		m.stopped = err
		close(m.stop)
	}
}

func (m *machine) wake() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// view calls f with this node's state.
func (m *machine) view(f func(*registry.State)) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	f(m.state)
}

// Snapshot is called between two Applys, Persist concurrently with further ones.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return snapshot{m.state.Clone()}, m.stopped
}

// Restore replaces the state with a snapshot's.
func (m *machine) Restore(r io.ReadCloser) error {
	defer r.Close()
	state, err := registry.Decode(r)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = state
	m.wake()
	return nil
}

type snapshot struct{ state *registry.State }

func (s snapshot) Persist(sink raft.SnapshotSink) error {
	if err := s.state.Encode(sink); err != nil {
		_ = sink.Cancel() // report the first error
		return err
	}
	return sink.Close()
}

func (s snapshot) Release() {}
