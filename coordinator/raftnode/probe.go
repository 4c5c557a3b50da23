package raftnode

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"time"
)

// probeByte is the first byte of a connection on which another node asks what this one holds. Raft's own messages begin with
// small numbers.
const probeByte = '?'

const (
	probeTimeout  = 2 * time.Second
	maxProbeReply = 64 << 10 // bytes of an answer
)

// probeReply is what a node says of itself, before it takes part in raft too.
type probeReply struct {
	Node      string            `json:"node"`
	Directory string            `json:"directory"`          // which no other has, and not the same one after its loss
	Member    bool              `json:"member"`             // it takes part in a cluster, or did
	Founders  map[string]string `json:"founders,omitempty"` // the directories, by node, that the cluster began with
	URLs      []string          `json:"urls,omitempty"`     // of the cluster's nodes
}

// probedConn is a connection from another node that answers a probe and hands everything else to raft.
type probedConn struct {
	net.Conn
	answer func() probeReply
	begun  bool
}

// Read implements [net.Conn]. After a probe the connection is at its end.
func (c *probedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n == 0 || c.begun {
		return n, err
	}
	c.begun = true
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

// probe asks another node what it holds.
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
		return nil, fmt.Errorf("what %s answers: %w", p.Address, err)
	}
	if h.Node != p.ID || h.Directory == "" {
		return nil, fmt.Errorf("at %s is %q and not %s", p.Address, h.Node, p.ID)
	}
	return &h, nil
}
