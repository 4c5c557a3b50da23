package raftnode

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/pause"
)

const (
	digestEvery = 256 // commands
	maxDigests  = 8   // that a node remembers
)

// digest is the SHA-256 of a state after a number of commands. Nodes with the same log have the same.
type digest struct {
	Index  uint64 `json:"index"`
	SHA256 string `json:"sha256"`
}

// note adds the digest of a state.
func (m *machine) note(s *registry.State) {
	sum := sha256.New()
	if err := s.Encode(sum); err != nil {
		panic(fmt.Sprintf("raftnode: a state cannot be encoded: %v", err))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.digests = append(m.digests, digest{s.Index, fmt.Sprintf("%x", sum.Sum(nil))})
	m.digests = m.digests[max(0, len(m.digests)-maxDigests):]
}

// compare stops the node, once in a while, if its state differs from that of most nodes, as after an error of its
// memory.
func (n *Node) compare(ctx context.Context, every time.Duration) {
	for pause.For(ctx, every) {
		others := map[digest]int{}
		voters := n.voters()
		for _, server := range n.members() {
			if string(server.ID) == n.id {
				continue
			}
			if h, err := n.ask(ctx, peer(server)); err == nil {
				for _, d := range h.Digests {
					others[d]++
				}
			}
		}
		n.machine.mu.Lock()
		for d, count := range others {
			differs := slices.ContainsFunc(n.machine.digests, func(own digest) bool {
				return own.Index == d.Index && own.SHA256 != d.SHA256
			})
			if 2*count > voters && differs {
				n.machine.halt(fmt.Errorf("this node's state differs from that of most nodes after command %d: remove its "+
					"data directory and start it again, to join them (docs/coordinator.md)", d.Index))
			}
		}
		n.machine.mu.Unlock()
	}
}
