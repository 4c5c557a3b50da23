package worker

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/dbqpg/dbqpg/internal/epochs"
	"github.com/dbqpg/dbqpg/internal/store"
)

const (
	// maxLog bounds the log of an epoch in the store, in bytes: the first half makes room.
	maxLog = 1 << 20
	// logTimeout is how long the end of a log may take to be stored.
	logTimeout = 3 * time.Second
)

// runLog is what a worker logs of a run, for "coordinator logs".
type runLog struct {
	key  string // in the store
	mu   sync.Mutex
	text []byte
}

// newRunLog returns the log of an epoch, and a logger that writes to it as well as to log.
func newRunLog(home string, epoch uint64, log *slog.Logger) (*runLog, *slog.Logger) {
	l := &runLog{key: epochs.Log(home, epoch)}
	return l, slog.New(slog.NewMultiHandler(log.Handler(), slog.NewTextHandler(l, nil)))
}

// Write implements [io.Writer].
func (l *runLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text = append(l.text, line...); len(l.text) > maxLog {
		l.text = bytes.Clone(l.text[len(l.text)/2:])
	}
	return len(line), nil
}

// file returns the log as it is now.
func (l *runLog) file() file {
	l.mu.Lock()
	defer l.mu.Unlock()
	return file{l.key, bytes.Clone(l.text)}
}

// store stores the log, also of a worker that is being stopped.
func (l *runLog) store(ctx context.Context, in store.Store, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logTimeout)
	defer cancel()
	if f := l.file(); in.Put(ctx, f.key, f.data) != nil {
		log.Warn("the end of the run's log is not in the store")
	}
}
