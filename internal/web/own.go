package web

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/dbqpg/dbqpg/internal/store"
)

// Own is the source of the one run that this process trains.
type Own struct {
	*Directory
	name string
	log  tail
}

// NewOwn returns the source of the run of that name in a directory, which need not exist yet.
func NewOwn(name, directory string) *Own {
	return &Own{Directory: NewDirectory(store.Local(directory)), name: name}
}

// Runs implements [Source]. The run is running, for its process is.
func (o *Own) Runs(ctx context.Context) ([]Run, error) {
	runs, err := o.Directory.Runs(ctx)
	if len(runs) != 1 { // none yet
		return nil, err
	}
	runs = slices.Clone(runs)
	if runs[0].Name = o.name; runs[0].State == Stopped {
		runs[0].State, runs[0].ETA = Running, runs[0].Remaining()
	}
	return runs, err
}

// Tail implements [Logger].
func (o *Own) Tail(*Run) []byte { return o.log.end() }

// Write takes the lines of the process's log: it implements [io.Writer].
func (o *Own) Write(line []byte) (int, error) { return o.log.Write(line) }

// tail keeps the end of a log.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write implements [io.Writer].
func (t *tail) Write(line []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.text = append(t.text, line...); len(t.text) > 2*logSize { // half makes room, from the beginning of a line
		_, rest, _ := bytes.Cut(t.text[len(t.text)-logSize:], []byte("\n"))
		t.text = bytes.Clone(rest)
	}
	return len(line), nil
}

func (t *tail) end() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.text)
}
