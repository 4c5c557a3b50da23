package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/coordinator/sweep"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/failpoint"
	"github.com/dbqpg/dbqpg/internal/pause"
	"github.com/dbqpg/dbqpg/internal/scratch"
	"github.com/dbqpg/dbqpg/internal/store"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/learner/session"
	"github.com/dbqpg/dbqpg/learner/train"
	"github.com/dbqpg/dbqpg/proto/bus"
)

const (
	// pollInterval is how long an idle worker waits for news of a run before it asks again.
	pollInterval = time.Second
	// answerTimeout is how long the coordinator may take to answer before that is logged; warnInterval is how often.
	answerTimeout, warnInterval = 5 * time.Second, 30 * time.Second
	// releaseTimeout is how long a stopped worker tries to release its run, and to say that it leaves.
	releaseTimeout = 3 * time.Second
	// findTerms is for how many lease terms a worker looks for a run's checkpoint.
	findTerms = 3
)

// worker is a running worker.
type worker struct {
	session.Config                // of the training on this machine, to which a run's settings are added
	settings       *config.Worker // valid
	name           string         // unique
	coordinator    *client.Client
	store          store.Store // shared by all workers

	bus     *session.Bus
	scratch *scratch.Directory     // of its run's directory
	current atomic.Pointer[string] // the name of its run; nil: none
	news    chan struct{}          // holds an element when current or actors has changed
	actors  atomic.Int64           // number of actors that played its last batch
}

// serve trains one run of a coordinator after another until ctx is done, which is not an error, or until this worker is
// at fault rather than a run: a full disk, an unreachable store. It then releases its current run. c lacks a run's
// settings.
func serve(ctx context.Context, settings *config.Worker, c session.Config) error {
	coordinator, err := client.Open(client.Config{URLs: settings.Coordinators(), Log: c.Log}, settings.Credentials)
	if err != nil {
		return err
	}
	defer coordinator.Close()
	checkpoints, err := store.Open(ctx, settings.Checkpoints)
	if err != nil {
		return fmt.Errorf("--checkpoints: %w", err)
	}
	bus, err := session.OpenBus(ctx, &settings.Machine, c.Log, c.Metrics)
	if err != nil {
		return err
	}
	defer bus.Close()
	temporary, err := scratch.New("worker")
	if err != nil {
		return err
	}
	defer temporary.Close()
	w := &worker{
		Config: c, settings: settings, name: cmp.Or(settings.Name, defaultName()),
		coordinator: coordinator, store: checkpoints, bus: bus, scratch: temporary, news: make(chan struct{}, 1),
	}
	var beating sync.WaitGroup
	ctx, stop := context.WithCancel(ctx)
	defer beating.Wait()
	defer stop()
	beating.Go(func() { w.beat(ctx) })
	c.Log.Info("waiting for runs", "worker", w.name, "checkpoints", checkpoints.String())
	for {
		run, err := w.take(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("take a run: %w", err)
		}
		failpoint.Hit("taken")
		w.works(&run.Name)
		err = w.work(ctx, run)
		w.works(nil)
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// take waits for the coordinator and the next run, and returns the run.
func (w *worker) take(ctx context.Context) (*registry.Run, error) {
	warnings := &bus.Rarely{Interval: warnInterval}
	for {
		run, err := w.tryTake(ctx)
		if errors.Is(err, client.NothingNow) {
			err = w.wait(ctx)
		}
		switch {
		case run != nil || ctx.Err() != nil:
			return run, ctx.Err()
		case errors.Is(err, client.Drained):
			if warnings.Now() {
				w.Log.Info("no runs for this worker", "because", err)
			}
			pause.For(ctx, pollInterval)
		case errors.Is(err, context.DeadlineExceeded):
			if warnings.Now() {
				w.Log.Warn("the coordinator does not answer; trying again", "error", err)
			}
		case err != nil:
			return nil, err
		}
	}
}

// tryTake asks for a run. If the answer is late, the next attempt receives it.
func (w *worker) tryTake(ctx context.Context) (*registry.Run, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	take := registry.Take{Learner: w.name, TTL: w.settings.LeaseTerm.Seconds(), NATS: w.bus.URL()}
	return w.coordinator.Take(ctx, take)
}

// wait returns when there may be a run to take, and at intervals, since the node asked may be cut off from the others.
func (w *worker) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout+pollInterval)
	defer cancel()
	_, err := w.coordinator.Runs(ctx, client.Query{Free: true, Wait: pollInterval})
	return err
}

// work trains a run and reports to the coordinator how it ended. An error is this worker's, not the run's.
func (w *worker) work(ctx context.Context, run *registry.Run) error {
	text, whole := newRunLog(run.Home(), run.Epoch, w.Log)
	log := whole.With("run", run.Name, "epoch", run.Epoch)
	defer text.store(ctx, w.store, w.Log)
	from := run.Iteration()
	if run.Checkpoint == nil && run.Start != nil { // it was reset
		from = run.Start.Iteration
	}
	log.Info("taken", "from iteration", from)
	l := &lease{
		Hold: registry.Hold{Run: run.Name, Epoch: run.Epoch}, home: run.Home(), text: text,
		coordinator: w.coordinator, term: w.settings.LeaseTerm, log: log,
	}
	holding, lose := context.WithCancelCause(ctx)
	var keeping sync.WaitGroup
	defer keeping.Wait()
	defer lose(nil)
	keeping.Go(func() { l.keep(holding, lose) })
	err := w.train(holding, lose, l, run, whole)
	if cause := context.Cause(holding); cause != nil && ctx.Err() == nil {
		err = cause
	}
	return w.conclude(ctx, holding, l, err)
}

// resume fetches the checkpoint of a run into its directory, and makes the commits that the coordinator missed. It
// returns the run's commits so far. A shared file system may lag, so resume tries again before it goes on from the
// checkpoint before a missing or damaged one. Without any, it returns a [lossError], or this worker's error if the store
// lacks its marker too.
func (w *worker) resume(ctx context.Context, l *lease, run *registry.Run, settings *config.Settings) ([]link, error) {
	patient, cancel := context.WithTimeout(ctx, findTerms*l.term)
	defer cancel()
	r, err := find(patient, w.store, run, false)
	if err != nil {
		l.log.Warn("cannot resume the run; trying again", "error", err)
	}
	for err != nil && pause.For(patient, retryInterval) {
		r, err = find(patient, w.store, run, false)
	}
	if err != nil && ctx.Err() == nil {
		known, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		if _, missing := w.store.Get(known, markerName); missing != nil {
			return nil, fmt.Errorf("%w: %w; are --checkpoints the same for all workers? (%w)", errStore, err, missing)
		}
		var earlier error
		if r, earlier = find(known, w.store, run, true); earlier != nil || r == nil {
			return nil, &lossError{fmt.Errorf("%w, and so are those before it: "+
				"coordinator reset %s starts the run anew", err, run.Name)}
		}
		l.log.Warn("going on from an earlier checkpoint", "error", err, "iteration", r.checkpoint().Iteration)
		err = nil
	}
	if r == nil || err != nil {
		return nil, err
	}
	if n := len(r.unknown); n > 0 {
		l.log.Info("the store is ahead of the coordinator", "iteration", r.checkpoint().Iteration, "commits", n)
	}
	settings.Resume = config.ResumeYes
	if _, recorded, err := runs.Decode(r.data); err == nil { // Train reports an error
		if err := errors.Join(settings.Recall(recorded), settings.Validate()); err != nil {
			return nil, fmt.Errorf("the settings in %s: %w", r.checkpoint().Location, err)
		}
	}
	known := len(r.chain) - len(r.unknown)
	for i := known; i < len(r.chain); i++ {
		c := registry.Commit{Hold: l.Hold, Checkpoint: r.chain[i].Checkpoint, Steps: r.chain[i].Steps}
		if i > 0 && (i > known || run.Checkpoint != nil) {
			c.Previous = r.chain[i-1].SHA256
		}
		if err := l.commit(ctx, c); err != nil {
			return nil, err
		}
	}
	return r.chain, r.fill(ctx, w.store, settings)
}

// lossError reports that the store lacks the checkpoint of the run's last commit: a loss of the run, not this worker's
// fault.
type lossError struct{ error }

func (e *lossError) Unwrap() error { return e.error }

// train resumes the run from its last commit. It returns nil once all its iterations are committed.
func (w *worker) train(
	ctx context.Context, lose context.CancelCauseFunc, l *lease, run *registry.Run, whole *slog.Logger,
) error {
	settings, err := w.runSettings(run)
	if err != nil {
		return err
	}
	defer os.RemoveAll(settings.RunDir)
	chain, err := w.resume(ctx, l, run, settings)
	if err != nil {
		return err
	}
	var text []byte
	for _, link := range chain {
		text = appendLink(text, link)
	}
	keep := func(iteration uint64) bool { return slices.Contains(settings.KeepCheckpoints, iteration) }
	c := newCommitQueue(l, w.store, chain, w.settings.MaxToKeep, keep)
	c.known = run.Checkpoint
	var committing sync.WaitGroup
	committing.Go(func() { c.run(ctx, lose) })
	hold := func(directory *runs.Run, collector *collect.Collector) (train.Journal, train.Collector) {
		j := &journal{
			ctx: ctx, local: directory, directory: settings.RunDir, commits: c, chain: text,
			stored: map[string]string{}, log: l.text,
		}
		return j, interruptible{collector, w.played}
	}
	training := w.Config
	training.Settings, training.Log = settings, whole
	training.Lease = &session.Lease{Run: run.Name, Epoch: run.Epoch, Bus: w.bus, Store: w.store, Hold: hold}
	err = session.Train(ctx, training)
	c.close()
	committing.Wait()
	return err
}

// runSettings returns the valid settings for a run on this machine, in a new directory.
func (w *worker) runSettings(run *registry.Run) (*config.Settings, error) {
	settings, err := sweep.Settings(run)
	if err != nil {
		return nil, err
	}
	settings.Machine = w.settings.Machine
	if settings.RunDir, err = os.MkdirTemp(w.scratch.Path, "run-"); err != nil {
		return nil, err
	}
	if err := settings.Validate(); err != nil {
		return nil, errors.Join(err, os.Remove(settings.RunDir))
	}
	return settings, nil
}
