package external

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

// open returns both ends of a pipe, ours with a deadline, and closes them with the test.
func open(t *testing.T, write bool, limit time.Duration) (*pipe, *os.File) {
	t.Helper()
	ours, theirs, err := newPipe(write)
	if err != nil {
		t.Fatal(err)
	}
	ours.deadline = time.Now().Add(limit)
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}

// What is larger than a pipe arrives as it is, and after it the end.
func TestPipe(t *testing.T) {
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	transfer := func(to io.WriteCloser, from io.Reader) {
		go func() {
			_, err := to.Write(data)
			if err := errors.Join(err, to.Close()); err != nil {
				t.Error(err)
			}
		}()
		if got, err := io.ReadAll(from); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes (%v), want those written", len(got), err)
		}
	}
	to, theirs := open(t, true, time.Minute)
	transfer(to, theirs)
	from, theirs := open(t, false, time.Minute)
	transfer(theirs, from)
}

func TestPipeDeadline(t *testing.T) {
	to, _ := open(t, true, 20*time.Millisecond)
	if _, err := to.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a write that nobody reads: %v", err)
	}
	from, _ := open(t, false, 20*time.Millisecond)
	if _, err := from.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a read of what nobody writes: %v", err)
	}
}
