package observe

import (
	"bytes"
	"sync"
)

// Tail keeps the end of a log, in memory. It is safe for concurrent use.
type Tail struct {
	max  int
	mu   sync.Mutex
	text []byte
}

// NewTail returns a tail that keeps whole lines: at most max bytes, and at least half of that once it has been full.
func NewTail(max int) *Tail { return &Tail{max: max} }

// Write takes whole lines. It implements [io.Writer].
func (t *Tail) Write(lines []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.text = append(t.text, lines...); len(t.text) > t.max {
		_, rest, _ := bytes.Cut(t.text[max(len(t.text)/2, len(t.text)-t.max):], []byte("\n"))
		t.text = bytes.Clone(rest)
	}
	return len(lines), nil
}

// Bytes returns a copy of the tail.
func (t *Tail) Bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.text)
}
