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
	// idleInterval is how long a slot waits when it has nothing to do or cannot send; announcements wake it sooner.
	idleInterval = time.Second
	// warnInterval is how often a lasting state is logged.
	warnInterval = 30 * time.Second
	// slotsPerExecutor lets one slot play while another uploads: sending takes less time than playing.
	slotsPerExecutor = 2
)

// Config holds an actor's settings.
type Config struct {
	// Conn is the connection to the learners' server. The actor does not close it.
	Conn *bus.Conn
	// Run names the runs to play for: a name, a pattern of path.Match, or several separated by commas. "" means every
	// run that has a learner on the server.
	Run string
	// Once has the actor leave when a run that it may play for has ended.
	Once bool
	// Slots is the number of concurrent episodes. The learners see twice as many slots: half of them
	// play while the others upload.
	Slots int
	// NewEnv makes an environment of the named task; concurrent episodes have separate ones.
	NewEnv func(task string) (sim.Env, error)
	// Engine names the physics engine, its version and the class of CPU, for the episodes.
	Engine string
	// Refused, if not nil, is told every second of why the actor can play for none of the runs that it has found, nil if
	// it can.
	Refused func(reason error)
	// Log is for the operator; nil means slog.Default.
	Log *slog.Logger
	// Metrics counts steps and episodes; nil means none.
	Metrics *observe.Actor
}

// actor is the state that its slots share.
type actor struct {
	Config
	name     string
	store    *bus.Store
	runs     *runTable
	warnings *bus.Rarely
	digests  digests
	ready    chan *slot // slots that are ready to play
	over     chan error // holds what ends the actor: errEnded, or that the run's learner speaks another version
}

// errEnded ends an actor whose run has ended.
var errEnded = errors.New("the run has ended")

// Run plays tickets of the runs that it finds until ctx is done, or with Once until a run has ended, then returns
// unfinished ones to their learners and returns nil. It waits for absent learners, and survives their loss and the
// server's. It returns an error if waiting cannot help. A problem with a single run (a learner of another version, an
// environment that cannot be made) is an error if that run was named; otherwise the actor plays for the others. Run
// raises GOMAXPROCS above Slots, or the number of cores, if necessary.
func Run(ctx context.Context, config Config) error {
	a, err := newActor(config)
	if err != nil {
		return err
	}
	reserve(min(config.Slots, runtime.NumCPU())) // more than that take turns
	run := "*"
	if single(a.Run) {
		run = a.Run
	}
	announcements, err := a.Conn.Subscribe(proto.SubjectsOf(run).Positions(), a.announced)
	if err != nil {
		return err
	}
	defer announcements.Close()
	a.Conn.OnReconnect(func() {
		if ctx.Err() == nil {
			a.runs.restored(time.Now())
			_ = a.discover() // if it is lost, announcements arrive anyway
		}
	})
	if err := a.discover(); errors.Is(err, bus.ErrClosed) {
		return err
	}
	return a.play(ctx)
}

// play runs the slots, and the executors as long as there are slots.
func (a *actor) play(ctx context.Context) error {
	slots, ctx := errgroup.WithContext(ctx)
	var executors errgroup.Group
	for range a.Slots {
		executors.Go(func() error { return newExecutor().run(ctx, a.ready) })
	}
	for number := range slotsPerExecutor * a.Slots {
		slots.Go(func() error { return newSlot(a, number).run(ctx) })
	}
	slots.Go(func() error { return a.watch(ctx) })
	err := slots.Wait()
	close(a.ready)
	if errors.Is(err, errEnded) {
		err = nil
	}
	return errors.Join(err, executors.Wait())
}

// watch forgets learners that have vanished, and logs when there is none.
func (a *actor) watch(ctx context.Context) error {
	ticker := time.NewTicker(proto.AnnounceInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-a.over:
			return err
		case now := <-ticker.C:
			url := a.Conn.URL()
			if url == "" { // no announcements can arrive
				a.runs.restored(now)
				if err := a.discover(); errors.Is(err, bus.ErrClosed) {
					return err
				}
				continue
			}
			runs, refused, reason := a.runs.expire(now)
			a.Metrics.Runs.Set(float64(runs))
			a.Metrics.RunsRefused.Set(float64(refused))
			if a.Refused != nil {
				if runs > 0 {
					reason = nil
				}
				a.Refused(reason)
			}
			if runs+refused == 0 && a.warnings.Now() {
				a.Log.Info("waiting for a learner", "url", url, "run", a.Run)
			}
		}
	}
}

// discover asks all learners to announce themselves.
func (a *actor) discover() error {
	return a.Conn.Publish(proto.DiscoverSubject, nil)
}

// announced handles an announcement.
func (a *actor) announced(m bus.Message) {
	heard, ended := new(proto.Announcement), new(proto.Ended)
	err := proto.Unmarshal(m.Data, heard)
	if err != nil && proto.Unmarshal(m.Data, ended) == nil && m.Subject == proto.SubjectsOf(ended.Run).Positions() {
		if a.Once && a.runs.accepts(ended.Run) {
			a.finish(errEnded)
		}
		return
	}
	if err == nil && m.Subject != proto.SubjectsOf(heard.Run).Positions() {
		err = fmt.Errorf("%w: run %s on %s", proto.ErrInvalid, heard.Run, m.Subject)
	}
	switch {
	case err == nil:
		a.runs.hear(heard, time.Now())
	case single(a.Run) && errors.Is(err, proto.ErrVersion):
		a.finish(err)
	case a.warnings.Now():
		a.Log.Warn("refused an announcement", "subject", m.Subject, "error", err)
	}
}

// finish ends the actor.
func (a *actor) finish(err error) {
	select {
	case a.over <- err:
	default: // it ends already
	}
}

// giveUp returns err, which ends the actor, if it can play for no other run; otherwise it stops playing for r.
func (a *actor) giveUp(r *run, err error) error {
	if single(a.Run) || errors.Is(err, bus.ErrNoStore) || errors.Is(err, bus.ErrClosed) {
		return err
	}
	a.runs.shun(r, err)
	a.Log.Warn("stopped playing for a run", "run", r.name, "error", err)
	return nil
}

// fatal reports whether retrying cannot help.
func fatal(err error) bool {
	return errors.Is(err, proto.ErrVersion) || errors.Is(err, bus.ErrNoStore) || errors.Is(err, bus.ErrClosed)
}

// reserve leaves the Go runtime one processor (P) that no executor occupies. Executors are nearly always in the
// engine, outside of Go. If they held all processors, the runtime's monitor would keep retaking them and waking
// threads that find no work: on two cores that cost a tenth of the steps.
func reserve(executors int) {
	if runtime.GOMAXPROCS(0) <= executors {
		runtime.GOMAXPROCS(executors + 1)
	}
}

func newActor(config Config) (*actor, error) {
	if err := CheckRuns(config.Run); err != nil {
		return nil, err
	}
	if config.Slots < 1 {
		return nil, fmt.Errorf("%d slots: an actor needs at least one", config.Slots)
	}
	if config.Log == nil {
		config.Log = slog.Default()
	}
	if config.Metrics == nil {
		config.Metrics = observe.NewActor()
	}
	config.Metrics.Slots.Set(float64(config.Slots))
	store, err := config.Conn.Store(proto.PolicyBucket)
	if err != nil {
		return nil, err
	}
	return &actor{
		Config:   config,
		name:     actorName(),
		store:    store,
		runs:     newRunTable(accepts(config.Run), config.Log),
		warnings: &bus.Rarely{Interval: warnInterval},
		ready:    make(chan *slot),
		over:     make(chan error, 1),
	}, nil
}

// actorName returns a unique name: host, process ID and a random number.
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
