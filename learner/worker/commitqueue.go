package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
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
	events []file        // TensorBoard's, once it is committed
	stored bool          // is enough: it is not committed
	done   chan struct{} // closed once it is committed
}

// commitQueue commits a run's iterations in order, concurrently with the training.
type commitQueue struct {
	lease *lease
	store store.Store
	log   *slog.Logger

	last     string               // SHA-256 of the checkpoint added last, "" before the first
	known    *registry.Checkpoint // that the coordinator has from before, nil for none
	pending  chan *pendingCommit
	patience time.Duration // of training, for a commit
	closing  sync.Once

	most    int    // commits whose checkpoints stay
	kept    []link // they: the last ones
	cleaned bool   // earlier epochs' files are removed
	keep    func(iteration uint64) bool
	sent    map[string]int // bytes of event files that the store has, by key
}

// newCommitQueue returns the queue of a run whose commits so far end with chain. The store keeps the newest
// checkpoints, most of them, and the iterations to keep.
func newCommitQueue(l *lease, s store.Store, chain []link, most int, keep func(iteration uint64) bool) *commitQueue {
	c := &commitQueue{
		lease: l, store: s, log: l.log, pending: make(chan *pendingCommit, maxWaiting), patience: commitWait,
		most: most, keep: keep, sent: map[string]int{},
	}
	if len(chain) > 0 {
		c.last = chain[len(chain)-1].SHA256
		c.kept = slices.Clone(chain[max(0, len(chain)-most):])
	}
	return c
}

// add queues an iteration and waits a while for its commit. If the store or the coordinator takes longer, training
// continues; should this worker die, the next one repeats the iterations without a commit. commit lacks its hold and
// the previous hash. The error is ctx's cause.
func (c *commitQueue) add(ctx context.Context, commit registry.Commit, files, events []file) error {
	commit.Hold, commit.Previous = c.lease.Hold, c.last
	c.last = commit.Checkpoint.SHA256
	repeated := c.known != nil && commit.Checkpoint.Iteration <= c.known.Iteration
	if repeated { // its checkpoint was lost, and the coordinator has its commit
		c.last = c.known.SHA256
	}
	l := &pendingCommit{commit, files, events, repeated, make(chan struct{})}
	select {
	case c.pending <- l:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	timer := time.NewTimer(c.patience)
	defer timer.Stop()
	select {
	case <-l.done:
		return nil
	case <-timer.C:
		c.log.Info("training goes on before its commit", "iteration", commit.Checkpoint.Iteration)
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// close marks the end of the queue.
func (c *commitQueue) close() { c.closing.Do(func() { close(c.pending) }) }

// run commits until the queue is closed and empty, ctx is done, or a commit fails permanently; then it calls lose with
// the error.
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
			close(l.done)
		}
	}
}

// commit executes a pending commit, retrying as long as training may continue without it.
func (c *commitQueue) commit(ctx context.Context, l *pendingCommit) error {
	for begun, warned := time.Now(), false; ; {
		err := c.try(ctx, l)
		var lost *lostError
		switch {
		case err == nil:
			if !l.stored {
				c.committed(ctx, l)
			}
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Since(begun) >= c.lease.grace(), errors.As(err, &lost):
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
		if err := c.put(ctx, l.files[0]); err != nil {
			return fmt.Errorf("%w: %w", errStore, err)
		}
		l.files = l.files[1:]
	}
	failpoint.Hit("stored")
	if l.stored {
		return nil
	}
	if err := c.lease.commit(ctx, l.commit); err != nil {
		return err
	}
	failpoint.Hit("committed")
	return nil
}

// put writes a file, which must not take longer than a worker may train without commits.
func (c *commitQueue) put(ctx context.Context, f file) error {
	ctx, cancel := context.WithTimeout(ctx, c.lease.grace())
	defer cancel()
	return c.store.Put(ctx, f.key, f.data)
}

// committed follows a commit: it writes TensorBoard's events, marks the store, and removes this epoch's older
// checkpoints and earlier epochs' files, except the checkpoints to keep. It touches neither later epochs nor the files
// from before a reset. Errors are logged.
func (c *commitQueue) committed(ctx context.Context, l *pendingCommit) {
	ctx, cancel := context.WithTimeout(ctx, c.lease.grace())
	defer cancel()
	var errs []error
	for _, f := range l.events {
		err := c.store.Append(ctx, f.key, f.data, c.sent[f.key])
		if errs = append(errs, err); err == nil {
			c.sent[f.key] = len(f.data)
		}
	}
	var old []string
	if c.kept = append(c.kept, link{l.commit.Checkpoint, l.commit.Steps}); len(c.kept) > c.most {
		oldest := c.kept[0]
		c.kept = c.kept[1:]
		epoch, own := epochOf(c.lease.home, oldest.Location)
		if own && (epoch < c.lease.Epoch || !c.keep(oldest.Iteration)) {
			old = append(old, oldest.Location)
		}
	}
	if !c.cleaned {
		if _, err := c.store.Get(ctx, markerName); notThere(err) {
			errs = append(errs, c.store.Put(ctx, markerName, []byte(markerText)))
		}
		earlier, err := c.earlier(ctx)
		errs = append(errs, err)
		old, c.cleaned = append(old, earlier...), true
	}
	for _, key := range old {
		errs = append(errs, c.store.Remove(ctx, key))
	}
	if err := errors.Join(errs...); err != nil && ctx.Err() == nil {
		c.log.Warn("the store is not in order", "error", err)
	}
}

// earlier lists the run's files of earlier epochs, without the kept checkpoints.
func (c *commitQueue) earlier(ctx context.Context) (earlier []string, err error) {
	keys, err := store.List(ctx, c.store, c.lease.home)
	for _, key := range keys {
		kept := slices.ContainsFunc(c.kept, func(l link) bool { return l.Location == key })
		if epoch, ok := epochOf(c.lease.home, key); ok && epoch < c.lease.Epoch && !kept {
			earlier = append(earlier, key)
		}
	}
	return earlier, err
}
