package raftnode

import (
	"context"
	"net"
	"time"

	"github.com/hashicorp/raft"
)

const (
	transportTimeout = 5 * time.Second // of a request to another node
	transportPool    = 3               // connections kept to each
)

// stream connects the nodes: a listener, which itself answers what is not a raft message, and a dialer.
type stream struct {
	net.Listener
	answer       func() probeReply
	firstTimeout time.Duration
	advertise    net.Addr
	dial         func(ctx context.Context, address string) (net.Conn, error)
}

// address is an address as given, which may contain a host name that others resolve.
type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }

func newStream(c *Config, answer func() probeReply) *stream {
	s := &stream{
		Listener: c.Listener, answer: answer, firstTimeout: firstTimeout, advertise: c.Listener.Addr(), dial: c.Dial,
	}
	if c.Advertise != "" {
		s.advertise = address(c.Advertise)
	}
	if s.dial == nil {
		s.dial = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	return s
}

// Accept implements [net.Listener].
func (s *stream) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &probedConn{Conn: conn, answer: s.answer, firstTimeout: s.firstTimeout}, nil
}

// Addr returns the advertised address.
func (s *stream) Addr() net.Addr { return s.advertise }

// Dial connects to another node.
func (s *stream) Dial(target raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return s.dial(ctx, string(target))
}
