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
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
	"github.com/dbqpg/dbqpg/sim"
)

const (
	// requestTimeout is how long an answer may take before it is asked for again.
	requestTimeout = 5 * time.Second
	// idleInterval is how long a slot waits that has nothing to do, or cannot send; announcements come sooner.
	idleInterval = time.Second
	// warnInterval is how often a state that lasts is logged.
	warnInterval = 30 * time.Second
	// slotsPerSeat has a slot play while another's episode is on its way: sending takes less time than playing.
	slotsPerSeat = 2
)

// Config holds an actor's settings.
type Config struct {
	// Conn is the connection to the learners' server. The actor does not close it.
	Conn *bus.Conn
	// Run is the run to play for; a pattern as path.Match has it, or several separated by commas, stand for more, and ""
	// for every run that has a learner on the server.
	Run string
	// Slots is how many episodes are played at the same time. Towards the learners, there are twice as many: half of them
	// play while the others send.
	Slots int
	// NewEnv makes an environment of the named task; each episode under way at a time has its own.
	NewEnv func(task string) (sim.Env, error)
	// Engine names the physics engine, its version and the class of CPU, for the episodes.
	Engine string
	// Log receives what an operator should know; nil is slog.Default.
	Log *slog.Logger
	// Watched counts what is played; nil: nobody watches.
	Watched *observe.Actor
}

// worker is an actor: what its slots share.
type worker struct {
	Config
	name     string
	store    *bus.Store
	board    *board
	warnings *bus.Rarely
	turns    chan *slot // the slots that are to play next
	foreign  chan error // holds an element if the run's learner speaks another version
}

// Run plays tickets of the runs that it finds until ctx is done, then gives back those under way and returns nil. It
// waits for learners that aren't there, and survives their loss and the server's. It returns an error where waiting doesn't
// help. What is wrong with one run only (a learner of another version, an environment that cannot be made) is an error if
// that run was named; otherwise the actor plays for the others. GOMAXPROCS becomes more than Slots, if it isn't.
func Run(ctx context.Context, config Config) error {
	w, err := newWorker(config)
	if err != nil {
		return err
	}
	reserve(config.Slots)
	run := "*"
	if single(w.Run) {
		run = w.Run
	}
	announcements, err := w.Conn.Subscribe(proto.SubjectsOf(run).Positions(), w.announced)
	if err != nil {
		return err
	}
	defer announcements.Close()
	w.Conn.OnReconnect(func() {
		if ctx.Err() == nil {
			w.board.restored(time.Now())
			_ = w.discover() // if it is lost, announcements come all the same
		}
	})
	if err := w.discover(); errors.Is(err, bus.ErrClosed) {
		return err
	}
	return w.play(ctx)
}

// play runs the slots, and their seats for as long as there are slots.
func (w *worker) play(ctx context.Context) error {
	slots, ctx := errgroup.WithContext(ctx)
	var seats errgroup.Group
	for range w.Slots {
		seats.Go(func() error { return newSeat().run(ctx, w.turns) })
	}
	for number := range slotsPerSeat * w.Slots {
		slots.Go(func() error { return newSlot(w, number).run(ctx) })
	}
	slots.Go(func() error { return w.watch(ctx) })
	err := slots.Wait()
	close(w.turns)
	return errors.Join(err, seats.Wait())
}

// watch forgets the learners that have vanished, and says when there is none.
func (w *worker) watch(ctx context.Context) error {
	ticker := time.NewTicker(proto.AnnounceInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-w.foreign:
			return err
		case now := <-ticker.C:
			url := w.Conn.URL()
			if url == "" { // nobody is heard
				w.board.restored(now)
				if err := w.discover(); errors.Is(err, bus.ErrClosed) {
					return err
				}
				continue
			}
			runs := w.board.expire(now)
			w.Watched.Runs.Set(float64(runs))
			if runs == 0 && w.warnings.Now() {
				w.Log.Info("waiting for a learner", "url", url, "run", w.Run)
			}
		}
	}
}

// discover asks who is there.
func (w *worker) discover() error {
	data, err := proto.Marshal(nil, &proto.Discover{Actor: w.name})
	if err != nil {
		return err
	}
	return w.Conn.Publish(proto.DiscoverSubject, data)
}

// announced takes in an announcement.
func (w *worker) announced(m bus.Message) {
	a := new(proto.Announcement)
	err := proto.Unmarshal(m.Data, a)
	if err == nil && m.Subject != proto.SubjectsOf(a.Run).Positions() {
		err = fmt.Errorf("%w: run %s on %s", proto.ErrInvalid, a.Run, m.Subject)
	}
	switch {
	case err == nil:
		w.board.hear(a, time.Now())
	case single(w.Run) && errors.Is(err, proto.ErrVersion):
		select {
		case w.foreign <- err:
		default:
		}
	case w.warnings.Now():
		w.Log.Warn("refused an announcement", "subject", m.Subject, "error", err)
	}
}

// giveUp ends the actor with err if it can play for no other run, or else the playing for r.
func (w *worker) giveUp(r *run, err error) error {
	if single(w.Run) || errors.Is(err, bus.ErrNoStore) || errors.Is(err, bus.ErrClosed) {
		return err
	}
	w.board.shun(r)
	w.Log.Warn("playing no more for a run", "run", r.name, "error", err)
	return nil
}

// fatal reports whether trying again cannot help.
func fatal(err error) bool {
	return errors.Is(err, proto.ErrVersion) || errors.Is(err, bus.ErrNoStore) || errors.Is(err, bus.ErrClosed)
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
	if err := CheckRuns(config.Run); err != nil {
		return nil, err
	}
	if config.Slots < 1 {
		return nil, fmt.Errorf("%d slots: an actor needs at least one", config.Slots)
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	if config.Watched == nil {
		config.Watched = observe.NewActor()
	}
	config.Watched.Slots.Set(float64(config.Slots))
	store, err := config.Conn.Store(proto.PolicyBucket)
	if err != nil {
		return nil, err
	}
	return &worker{
		Config:   config,
		name:     actorName(),
		store:    store,
		board:    newBoard(accepts(config.Run), config.Engine, config.Log),
		warnings: &bus.Rarely{Interval: warnInterval},
		turns:    make(chan *slot),
		foreign:  make(chan error, 1),
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
