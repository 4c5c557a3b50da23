package raftnode

import (
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
}

func newMachine() *machine { return &machine{state: registry.New(), changed: make(chan struct{})} }

// Apply executes a command from the log. A leader proposes only valid ones, but the log is a file:
// an invalid command is refused on every node alike.
func (m *machine) Apply(entry *raft.Log) any {
	command, err := registry.DecodeCommand(entry.Data)
	if err != nil {
		return registry.Response{Refusal: &registry.Refusal{Code: registry.Invalid, Message: err.Error()}}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.state.Changed
	response := m.state.Apply(command)
	if m.state.Changed != before {
		m.wake()
	}
	return response
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
	return snapshot{m.state.Clone()}, nil
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
