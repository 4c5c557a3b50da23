package web

import (
	"context"
	"slices"

	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/internal/store"
)

// Own is the source of the one run that this process trains.
type Own struct {
	*Directory
	name string
	log  *observe.Tail
}

// NewOwn returns the source of the run of that name in a directory, which need not exist yet.
func NewOwn(name, directory string) *Own {
	return &Own{NewDirectory(store.Local(directory)), name, observe.NewTail(2 * logSize)}
}

// Runs implements [Source]. The run is running, since its process is.
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
func (o *Own) Tail(*Run) []byte { return o.log.Bytes() }

// Write implements [io.Writer]: it receives the lines of the process's log.
func (o *Own) Write(line []byte) (int, error) { return o.log.Write(line) }
