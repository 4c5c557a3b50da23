package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/failpoint"
	"github.com/dbqpg/dbqpg/internal/pause"
	"github.com/dbqpg/dbqpg/internal/store"
)

const (
	// maxWaiting is how many iterations may wait to be committed before training waits, too.
	maxWaiting = 16
	// commitWait is how long training waits for a commit before it continues.
	commitWait = time.Second
	// retryInterval is the pause before a retry.
	retryInterval = 500 * time.Millisecond
)

// errStore marks errors of the store of checkpoints, which are not the run's fault.
var errStore = errors.New("the store of checkpoints")

// file is the contents to put under a key of the store.
type file struct {
	key  string
	data []byte
}

// pendingCommit is an iteration to be committed.
type pendingCommit struct {
	commit registry.Commit
	files  []file        // for the store, in this order, the checkpoint last
	done   chan struct{} // closed once it is committed
}

// commitQueue commits a run's iterations in order, concurrently with the training.
type commitQueue struct {
	lease *lease
	store store.Store
	log   *slog.Logger

	last    string // SHA-256 of the checkpoint added last, "" before the first
	pending chan *pendingCommit
	waiting atomic.Int64
	closing sync.Once

	garbage []string // keys of this epoch's checkpoints that are not the last committed one
	cleaned bool     // earlier epochs' files are removed
	keep    func(iteration uint64) bool
}

func newCommitQueue(l *lease, s store.Store, last string, keep func(iteration uint64) bool) *commitQueue {
	return &commitQueue{lease: l, store: s, log: l.log, last: last, pending: make(chan *pendingCommit, maxWaiting), keep: keep}
}

// add queues an iteration to be committed, and waits for the commit unless the coordinator is unavailable. commit lacks its
// hold and the previous hash. The error is ctx's cause.
func (c *commitQueue) add(ctx context.Context, commit registry.Commit, files []file) error {
	commit.Hold, commit.Previous = c.lease.Hold, c.last
	c.last = commit.Checkpoint.SHA256
	l := &pendingCommit{commit, files, make(chan struct{})}
	behind := c.waiting.Add(1) > 1
	select {
	case c.pending <- l:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if behind {
		return nil
	}
	timer := time.NewTimer(commitWait)
	defer timer.Stop()
	select {
	case <-l.done:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// close marks the end of the queue.
func (c *commitQueue) close() { c.closing.Do(func() { close(c.pending) }) }

// run commits until the queue is closed and empty, ctx is done, or a commit fails permanently; then it calls lose with the
// error.
func (c *commitQueue) run(ctx context.Context, lose context.CancelCauseFunc) {
	for {
		select {
		case <-ctx.Done():
			return
		case l, more := <-c.pending:
			if !more {
				return
			}
			if err := c.commit(ctx, l); err != nil {
				lose(err)
				return
			}
			c.waiting.Add(-1)
			close(l.done)
		}
	}
}

// commit executes a pending commit, retrying as long as training may continue without it.
func (c *commitQueue) commit(ctx context.Context, l *pendingCommit) error {
	for begun, warned := time.Now(), false; ; {
		err := c.try(ctx, l)
		var refusal *registry.Refusal
		switch {
		case err == nil:
			c.collectGarbage(ctx, l)
			return nil
		case errors.As(err, &refusal):
			return &lostError{refusal}
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Since(begun) >= c.lease.grace():
			return err
		case !warned:
			c.log.Warn("an iteration is not committed yet", "committing", l.commit.Checkpoint.Iteration, "error", err)
			warned = true
		}
		pause.For(ctx, retryInterval)
	}
}

// try makes one attempt to write a pending commit's files and commit it.
func (c *commitQueue) try(ctx context.Context, l *pendingCommit) error {
	for len(l.files) > 0 {
		if len(l.files) == 1 {
			failpoint.Hit("storing")
		}
		f := l.files[0]
		if err := c.store.Put(ctx, f.key, f.data); err != nil {
			return fmt.Errorf("%w: %w", errStore, err)
		}
		l.files = l.files[1:]
	}
	failpoint.Hit("stored")
	ctx, cancel := context.WithTimeout(ctx, c.lease.grace())
	defer cancel()
	if _, err := c.lease.coordinator.Commit(ctx, l.commit); err != nil {
		var refusal *registry.Refusal
		if errors.As(err, &refusal) {
			return err
		}
		return silent(c.lease.grace(), err)
	}
	failpoint.Hit("committed")
	return nil
}

// collectGarbage removes what is no longer needed after a commit: earlier checkpoints, and everything of earlier epochs. It
// does not touch later epochs. What it fails to remove stays.
func (c *commitQueue) collectGarbage(ctx context.Context, l *pendingCommit) {
	old := c.garbage
	c.garbage = nil
	if !c.keep(l.commit.Checkpoint.Iteration) {
		c.garbage = []string{l.commit.Checkpoint.Location}
	}
	if !c.cleaned {
		earlier, err := c.earlier(ctx)
		if err != nil {
			c.log.Warn("cannot look for files of earlier epochs", "error", err)
		}
		old, c.cleaned = append(old, earlier...), true
	}
	for _, key := range old {
		if err := c.store.Remove(ctx, key); err != nil && ctx.Err() == nil {
			c.log.Warn("cannot remove a file that is no longer needed", "error", err)
		}
	}
}

// earlier lists the run's files of earlier epochs.
func (c *commitQueue) earlier(ctx context.Context) ([]string, error) {
	keys, err := c.store.List(ctx, c.lease.Run)
	if err != nil {
		return nil, err
	}
	var earlier []string
	for _, key := range keys {
		if epoch, ok := epochOf(c.lease.Run, key); ok && epoch < c.lease.Epoch {
			earlier = append(earlier, key)
		}
	}
	return earlier, nil
}

// directoryOf returns the directory of the store that an epoch of a run writes to.
func directoryOf(h registry.Hold) string {
	return path.Join(h.Run, "epoch-"+strconv.FormatUint(h.Epoch, 10))
}

// epochOf returns the epoch of a run that a key belongs to.
func epochOf(run, key string) (epoch uint64, ok bool) {
	rest, ok := strings.CutPrefix(key, run+"/epoch-")
	if !ok {
		return 0, false
	}
	number, _, ok := strings.Cut(rest, "/")
	epoch, err := strconv.ParseUint(number, 10, 64)
	return epoch, ok && err == nil
}
