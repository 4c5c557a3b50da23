package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/dbqpg/dbqpg/internal/epochs"
	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/internal/store"
)

const (
	// maxLog bounds the log of an epoch in the store, in bytes: the first half makes room.
	maxLog = 1 << 20
	// logTimeout is how long the end of a log may take to be stored.
	logTimeout = 3 * time.Second
)

// runLog is a worker's log of a run, for "coordinator logs".
type runLog struct {
	key string // in the store
	*observe.Tail
}

// newRunLog returns the log of an epoch, and a logger that writes to it as well as to log.
func newRunLog(home string, epoch uint64, log *slog.Logger) (*runLog, *slog.Logger) {
	l := &runLog{epochs.Log(home, epoch), observe.NewTail(maxLog)}
	return l, slog.New(slog.NewMultiHandler(log.Handler(), slog.NewTextHandler(l, nil)))
}

// file returns the log as it is now.
func (l *runLog) file() file { return file{l.key, l.Bytes()} }

// store stores the log, also of a worker that is being stopped.
func (l *runLog) store(ctx context.Context, in store.Store, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logTimeout)
	defer cancel()
	if f := l.file(); in.Put(ctx, f.key, f.data) != nil {
		log.Warn("the end of the run's log is not in the store")
	}
}
