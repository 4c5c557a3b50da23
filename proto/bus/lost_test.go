package bus_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dbqpg/dbqpg/internal/natsserver"
	"github.com/dbqpg/dbqpg/proto/bus"
)

// mute stands between clients and a server. Once muted, it passes on nothing that the server says.
type mute struct {
	net.Listener
	muted atomic.Bool
	heard chan []byte // what clients say while it is muted
	end   chan struct{}
}

func newMute(t *testing.T, server *natsserver.Server) *mute {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &mute{Listener: listener, heard: make(chan []byte, 100), end: make(chan struct{})}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", strings.TrimPrefix(server.URL(), "nats://"))
			if err != nil {
				client.Close()
				return
			}
			go m.pass(upstream, client, func(b []byte) {
				if m.muted.Load() {
					m.heard <- bytes.Clone(b)
				}
				upstream.Write(b)
			})
			go m.pass(client, upstream, func(b []byte) {
				if !m.muted.Load() {
					client.Write(b)
				}
			})
			go func() { <-m.end; client.Close(); upstream.Close() }()
		}
	}()
	return m
}

func (m *mute) pass(to io.Closer, from net.Conn, each func([]byte)) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		each(buffer[:n])
	}
}

// A question to the store ends with the connection that its answer would come by, not when its time is up.
func TestStoreLosesServer(t *testing.T) {
	m := newMute(t, startServer(t, natsserver.Config{}))
	c, err := bus.Connect(deadline(t), "nats://"+m.Addr().String(), quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	store, err := c.Store("test")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(deadline(t), "key", nil, 0); err != nil {
		t.Fatal(err)
	}
	m.muted.Store(true)
	ctx := deadline(t)
	got := make(chan error)
	go func() {
		_, _, err := store.Get(ctx, "key")
		got <- err
	}()
	for !bytes.Contains(<-m.heard, []byte("$JS.API")) {
	}
	m.Close()
	close(m.end)
	if err := <-got; !errors.Is(err, bus.ErrDisconnected) || ctx.Err() != nil {
		t.Errorf("a value whose server was lost: %v", err)
	}
}
