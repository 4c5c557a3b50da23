package raftnode

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// Who connects and says nothing is cut off; who has said something may be silent.
func TestSilentStranger(t *testing.T) {
	defer func(before time.Duration) { firstTimeout = before }(firstTimeout)
	firstTimeout = 100 * time.Millisecond
	n := open(t, t.TempDir())
	defer n.Close()
	address := string(n.members()[0].Address)
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	speaker, silent := dial(), dial()
	if _, err := speaker.Write([]byte{0}); err != nil { // the beginning of a request for entries to be appended
		t.Fatal(err)
	}
	if _, err := silent.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a silent stranger: %v", err)
	}
	if err := speaker.SetReadDeadline(time.Now().Add(3 * firstTimeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := speaker.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("who has begun to speak: %v", err)
	}
}
