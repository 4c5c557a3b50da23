package rollout

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
	"github.com/dbqpg/dbqpg/sim"
)

const (
	// requestTimeout is how long an answer may take before it is asked for again.
	requestTimeout = 5 * time.Second
	// idleInterval is how often a slot asks when nothing tells it to; announcements come sooner.
	idleInterval = time.Second
	// warnInterval is how often a state that lasts is logged.
	warnInterval = 30 * time.Second
	// slotsPerSeat has a slot play while another's episode is on its way: sending takes less time than playing.
	slotsPerSeat = 2
)

// Config holds an actor's settings.
type Config struct {
	// Conn is the connection to the learner's server. The actor does not close it.
	Conn *bus.Conn
	// Run is the name of the run to play for.
	Run string
	// Slots is how many episodes are played at the same time. Towards the learner, there are twice as many: half of them
	// play while the others send.
	Slots int
	// NewEnv makes an environment of the named task; each episode under way at a time has its own.
	NewEnv func(task string) (sim.Env, error)
	// Engine names the physics engine, its version and the class of CPU, for the episodes.
	Engine string
	// Log receives what an operator should know; nil is slog.Default.
	Log *slog.Logger
}

// worker is an actor: what its slots share.
type worker struct {
	Config
	name     string
	subjects proto.Subjects
	store    *bus.Store
	warnings *bus.Rarely
	turns    chan *slot // the slots that are to play next

	// position is where the learner stands, as far as is known; nil before anything is.
	position atomic.Pointer[proto.Position]

	reading sync.Mutex // held while a slot reads the policy that others will want too

	mu     sync.Mutex
	newest *proto.Policy // the newest policy read
	wake   chan struct{} // closed at the next announcement
}

// Run plays tickets of a run until ctx is done, then gives back those under way and returns nil. It waits for a
// learner that isn't there, and survives its loss and the server's. It returns an error where waiting doesn't help: a
// learner of another version, an environment that cannot be made. GOMAXPROCS becomes more than Slots, if it isn't.
func Run(ctx context.Context, config Config) error {
	w, err := newWorker(config)
	if err != nil {
		return err
	}
	reserve(config.Slots)
	announcements, err := w.Conn.Subscribe(w.subjects.Positions(), w.announced)
	if err != nil {
		return err
	}
	defer announcements.Close()
	if err := w.join(ctx); err != nil {
		return err
	}
	return w.play(ctx)
}

// play runs the slots, and their seats for as long as there are slots.
func (w *worker) play(ctx context.Context) error {
	slots, ctx := errgroup.WithContext(ctx)
	var seats errgroup.Group
	for range w.Slots {
		seats.Go(func() error { return new(seat).run(ctx, w.turns) })
	}
	for number := range slotsPerSeat * w.Slots {
		slots.Go(func() error { return newSlot(w, number).run(ctx) })
	}
	err := slots.Wait()
	close(w.turns)
	return errors.Join(err, seats.Wait())
}

// reserve lets the Go runtime have a processor that is not a seat's. Seats are nearly always in the engine, outside of
// Go. Were all processors there, the runtime's monitor would take them away from the seats again and again, and wake
// threads that look for work in vain: on two cores that took a tenth of the steps.
func reserve(seats int) {
	if runtime.GOMAXPROCS(0) <= seats {
		runtime.GOMAXPROCS(seats + 1)
	}
}

func newWorker(config Config) (*worker, error) {
	if err := proto.CheckRun(config.Run); err != nil {
		return nil, err
	}
	if config.Slots < 1 {
		return nil, fmt.Errorf("%d slots: an actor needs at least one", config.Slots)
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	store, err := config.Conn.Store(proto.PolicyBucket)
	if err != nil {
		return nil, err
	}
	return &worker{
		Config:   config,
		turns:    make(chan *slot),
		name:     actorName(),
		subjects: proto.SubjectsOf(config.Run),
		store:    store,
		warnings: &bus.Rarely{Interval: warnInterval},
		wake:     make(chan struct{}),
	}, nil
}

// actorName returns a name that no other process has: host, process id and a random number.
func actorName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	random := make([]byte, 4)
	rand.Read(random) // never fails
	return fmt.Sprintf("%.64s-%d-%s", host, os.Getpid(), hex.EncodeToString(random))
}

// join waits until the run has a policy, which says what the task is and which learner to ask.
func (w *worker) join(ctx context.Context) error {
	for waited := false; ctx.Err() == nil; waited = true {
		woken := w.woken()
		switch _, err := w.read(ctx); {
		case err == nil:
			return nil
		case fatal(err):
			return err
		case waited && ctx.Err() == nil && w.warnings.Now():
			w.Log.Info("waiting for the run's learner", "run", w.Run, "reason", err)
		}
		pause(ctx, woken, idleInterval)
	}
	return nil
}

// fatal reports whether trying again cannot help.
func fatal(err error) bool {
	return errors.Is(err, proto.ErrVersion) || errors.Is(err, bus.ErrNoStore) || errors.Is(err, bus.ErrClosed)
}

// read fetches the run's current policy.
func (w *worker) read(ctx context.Context) (*proto.Policy, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	data, _, err := w.store.Get(ctx, w.Run)
	if err != nil {
		return nil, err
	}
	p := new(proto.Policy)
	if err := proto.Unmarshal(data, p); err != nil {
		return nil, err
	}
	if p.Run != w.Run {
		return nil, fmt.Errorf("%w: the policy of run %s under the name %s", proto.ErrInvalid, p.Run, w.Run)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.newest == nil || w.newest.Position().Before(p.Position()) {
		w.newest = p
	}
	w.advance(p.Position())
	return p, nil
}

// policyOf returns the policy that a ticket is to be played under, or errGone if that is not the run's current one.
func (w *worker) policyOf(ctx context.Context, t proto.Ticket) (*proto.Policy, error) {
	w.reading.Lock()
	defer w.reading.Unlock()
	w.mu.Lock()
	p := w.newest
	w.mu.Unlock()
	if p.Position() == t.Position() {
		return p, nil
	}
	p, err := w.read(ctx)
	if err != nil {
		return nil, err
	}
	if p.Position() != t.Position() {
		return nil, fmt.Errorf("%w: the run's current one is of epoch %d, iteration %d", errGone, p.Epoch, p.Iteration)
	}
	return p, nil
}

// errGone is a policy that the store has not.
var errGone = errors.New("the ticket's policy is not there")

// announced takes in an announcement: there is something to do, or something has become stale.
func (w *worker) announced(m bus.Message) {
	var p proto.Position
	if err := proto.Unmarshal(m.Data, &p); err != nil {
		if w.warnings.Now() {
			w.Log.Warn("refused an announcement", "error", err)
		}
		return
	}
	w.advance(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.wake)
	w.wake = make(chan struct{})
}

// advance moves the position on to p, never back.
func (w *worker) advance(p proto.Position) {
	for {
		known := w.position.Load()
		if known != nil && !known.Before(p) || w.position.CompareAndSwap(known, &p) {
			return
		}
	}
}

// stale reports whether the learner has no use for a ticket's episode any more.
func (w *worker) stale(t proto.Ticket) bool { return t.Position().Before(*w.position.Load()) }

// woken returns a channel that the next announcement closes.
func (w *worker) woken() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wake
}

// pause waits until woken is closed, or for d, or until ctx is done.
func pause(ctx context.Context, woken <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-woken:
	case <-timer.C:
	case <-ctx.Done():
	}
}
