package raftnode

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"time"
)

// probeByte is the first byte of a connection on which another node asks for this one's state. Raft's own messages
// begin with small numbers.
const probeByte = '?'

const (
	probeTimeout  = 2 * time.Second
	firstTimeout  = 10 * time.Second // for a new connection to authenticate itself and send its first byte
	maxProbeReply = 64 << 10         // bytes of a reply
)

// probeReply is what a node reports about itself, even before it takes part in raft.
type probeReply struct {
	Version   int      `json:"version"` // of its records
	Node      string   `json:"node"`
	Process   string   `json:"process"`             // random
	Member    bool     `json:"member"`              // raft runs: the directory is not empty, or is being filled
	Lost      bool     `json:"lost,omitempty"`      // it had records, which are gone
	URLs      []string `json:"urls,omitempty"`      // of the cluster's nodes
	Applied   uint64   `json:"applied,omitempty"`   // index of the last log entry that it has applied
	Addresses []string `json:"addresses,omitempty"` // of its cluster's nodes
	Digests   []digest `json:"digests,omitempty"`   // of its state
}

// probedConn is a connection from another node that answers a probe and hands everything else to raft.
type probedConn struct {
	net.Conn
	answer       func() probeReply
	firstTimeout time.Duration
	begun        bool
}

// Read implements [net.Conn]. After a probe it returns io.EOF.
func (c *probedConn) Read(p []byte) (int, error) {
	if !c.begun {
		if err := c.SetDeadline(time.Now().Add(c.firstTimeout)); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Read(p)
	if n == 0 || c.begun {
		return n, err
	}
	c.begun = true
	if err := c.SetDeadline(time.Time{}); err != nil {
		return 0, err
	}
	if p[0] != probeByte {
		return n, err
	}
	if err := c.SetWriteDeadline(time.Now().Add(probeTimeout)); err != nil {
		return 0, err
	}
	if err := json.NewEncoder(c.Conn).Encode(c.answer()); err != nil {
		return 0, err
	}
	return 0, io.EOF
}

// probe asks another node about its state.
func (s *stream) probe(ctx context.Context, p Peer) (*probeReply, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	conn, err := s.dial(ctx, p.Address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(probeTimeout)); err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte{probeByte}); err != nil {
		return nil, err
	}
	var h probeReply
	if err := json.NewDecoder(io.LimitReader(conn, maxProbeReply)).Decode(&h); err != nil {
		return nil, fmt.Errorf("the reply of %s: %w", p.Address, err)
	}
	if h.Node != p.ID {
		return nil, fmt.Errorf("the node at %s is %q, not %s", p.Address, h.Node, p.ID)
	}
	return &h, nil
}
