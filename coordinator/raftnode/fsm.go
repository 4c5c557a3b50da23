package raftnode

import (
	"io"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/dbqpg/dbqpg/coordinator/registry"
)

// machine is the registry as raft sees it.
type machine struct {
	mu      sync.RWMutex
	state   *registry.State
	changed chan struct{} // closed, and replaced, when a run changes
}

func newMachine() *machine { return &machine{state: registry.New(), changed: make(chan struct{})} }

// Apply carries out a command of the log. A leader proposes no other than valid ones, but the log
// is a file: what is no command is refused on every node alike.
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

// view calls f with the state as this node has it.
func (m *machine) view(f func(*registry.State)) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	f(m.state)
}

// Snapshot is called between two Applys, Persist beside further ones.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return snapshot{m.state.Clone()}, nil
}

// Restore replaces the state by a snapshot's.
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
		_ = sink.Cancel() // the first error is the one to tell
		return err
	}
	return sink.Close()
}

func (s snapshot) Release() {}
