package raftnode

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// A connection that sends nothing is closed; one that has sent something may fall silent.
func TestSilentStranger(t *testing.T) {
	s := newStream(&Config{Listener: listen(t)}, func() probeReply { return probeReply{} })
	s.firstTimeout = 100 * time.Millisecond
	var connections sync.WaitGroup
	connections.Go(func() {
		for conn, err := s.Accept(); err == nil; conn, err = s.Accept() {
			connections.Go(func() { // as raft does
				defer conn.Close()
				_, _ = io.Copy(io.Discard, conn)
			})
		}
	})
	defer connections.Wait()
	defer s.Close()
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	speaker, silent := dial(), dial()
	defer speaker.Close()
	defer silent.Close()
	if _, err := speaker.Write([]byte{0}); err != nil { // the beginning of a request for entries to be appended
		t.Fatal(err)
	}
	if _, err := silent.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a silent stranger: %v", err)
	}
	if err := speaker.SetReadDeadline(time.Now().Add(3 * s.firstTimeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := speaker.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("who has begun to speak: %v", err)
	}
}
