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
	"github.com/dbqpg/dbqpg/internal/store"
)

const (
	// maxWaiting is how many iterations wait to be committed before training waits too.
	maxWaiting = 16
	// commitWait is how long training waits for a commit before it goes on without.
	commitWait = time.Second
	// retryInterval is the pause before what has failed is tried again.
	retryInterval = 500 * time.Millisecond
)

// errStore marks errors of the store of checkpoints, which are not the run's fault.
var errStore = errors.New("the store of checkpoints")

// file is what the store is to have under a key.
type file struct {
	key  string
	data []byte
}

// link is an iteration that is to be committed.
type link struct {
	commit registry.Commit
	files  []file        // for the store, in this order: the checkpoint is the last
	done   chan struct{} // closed once it is committed
}

// chain commits a run's iterations in their order, beside the training.
type chain struct {
	lease *lease
	store store.Store
	log   *slog.Logger

	last    string // SHA-256 of the checkpoint added last, "" before the first
	links   chan *link
	waiting atomic.Int64
	closing sync.Once

	garbage []string // keys of this epoch's checkpoints that are not the last committed one
	cleaned bool     // earlier epochs' files are removed
	keep    func(iteration uint64) bool
}

func newChain(l *lease, s store.Store, last string, keep func(iteration uint64) bool) *chain {
	return &chain{lease: l, store: s, log: l.log, last: last, links: make(chan *link, maxWaiting), keep: keep}
}

// add has an iteration committed, and waits for that unless the coordinator is away. commit lacks its hold and the
// hash before. The error is ctx's cause.
func (c *chain) add(ctx context.Context, commit registry.Commit, files []file) error {
	commit.Hold, commit.Previous = c.lease.Hold, c.last
	c.last = commit.Checkpoint.SHA256
	l := &link{commit, files, make(chan struct{})}
	behind := c.waiting.Add(1) > 1
	select {
	case c.links <- l:
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

// close says that nothing more will be added.
func (c *chain) close() { c.closing.Do(func() { close(c.links) }) }

// run commits until the chain is closed and nothing waits, or ctx is done, or a commit fails for good: then it calls lose
// with the error.
func (c *chain) run(ctx context.Context, lose context.CancelCauseFunc) {
	for {
		select {
		case <-ctx.Done():
			return
		case l, more := <-c.links:
			if !more {
				return
			}
			if err := c.settle(ctx, l); err != nil {
				lose(err)
				return
			}
			c.waiting.Add(-1)
			close(l.done)
		}
	}
}

// settle commits a link, for as long as it takes, but no longer than training goes on without.
func (c *chain) settle(ctx context.Context, l *link) error {
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
		select {
		case <-ctx.Done():
		case <-time.After(retryInterval):
		}
	}
}

// try writes a link's files and commits it.
func (c *chain) try(ctx context.Context, l *link) error {
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

// collectGarbage removes what nobody needs once a link is committed: checkpoints before it, and all of earlier epochs. Of
// later ones it knows nothing, and touches nothing. What it fails to remove stays.
func (c *chain) collectGarbage(ctx context.Context, l *link) {
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
			c.log.Warn("a file that is no longer needed stays", "error", err)
		}
	}
}

// earlier lists the run's files of earlier epochs.
func (c *chain) earlier(ctx context.Context) ([]string, error) {
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

// directoryOf is the part of the store that an epoch of a run writes to.
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
