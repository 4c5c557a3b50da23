// Package session puts training together in one process: the NATS server or a connection to one, the local actors, the
// run's directory, and the loop. It is what `learner` runs, and what a study runs many times; [Sample] is the same
// without the learning.
package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/learner/checkpoint"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/config"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/learner/metrics"
	"github.com/dbqpg/dbqpg/learner/progress"
	"github.com/dbqpg/dbqpg/learner/rundir"
	"github.com/dbqpg/dbqpg/learner/train"
	"github.com/dbqpg/dbqpg/proto/bus"
	"github.com/dbqpg/dbqpg/sim"
)

// Lease is a run that a coordinator has given to this learner, which trains it under the name and the epoch that it has
// there.
type Lease struct {
	Run   string // its name
	Epoch uint64
	// Hold returns what keeps the run's iterations beyond its directory, and what plays its batches.
	Hold func(directory *rundir.Run, collector *collect.Collector) (train.Journal, train.Collector)
}

// Train trains as valid settings say, in the run directory that they name, until all iterations are done or ctx is.
// Whatever its error, the run can be resumed. Its progress is shown on display, all else goes to log, whose lines say
// which run and iteration they belong to, and to watched; nil: nobody watches.
func Train(ctx context.Context, settings *config.Settings, display *progress.Display, log *slog.Logger, watched *observe.Learner) error {
	bus := func(log *slog.Logger) (*Bus, func(), error) {
		bus, err := OpenBus(ctx, settings, log)
		if err != nil {
			return nil, nil, err
		}
		return bus, bus.Close, nil
	}
	return run(ctx, settings, nil, bus, display, log, watched)
}

// TrainLeased is Train for a run that is leased, over a bus that stays open.
func TrainLeased(ctx context.Context, settings *config.Settings, lease *Lease, bus *Bus, display *progress.Display, log *slog.Logger, watched *observe.Learner) error {
	opened := func(*slog.Logger) (*Bus, func(), error) { return bus, func() {}, nil }
	return run(ctx, settings, lease, opened, display, log, watched)
}

func run(ctx context.Context, settings *config.Settings, lease *Lease, openBus func(*slog.Logger) (*Bus, func(), error),
	display *progress.Display, log *slog.Logger, watched *observe.Learner) (err error) {
	task, err := sim.Lookup(settings.Env)
	if err != nil {
		return err
	}
	name := settings.Name()
	if lease != nil {
		name = lease.Run
	}
	if watched == nil {
		watched = observe.NewLearner()
	}
	observed := watched.Begin(name, settings.Env, string(settings.Algorithm), string(settings.Estimator))
	defer watched.End()
	log = observed.Logger(log)
	if _, err := rundir.Plan(settings); err != nil { // nothing is started for a run that cannot be
		return err
	}
	computer, err := device.Open(settings.Device)
	if err != nil {
		return err
	}
	defer computer.Close()
	server, closeBus, err := openBus(log)
	if err != nil {
		return err
	}
	defer closeBus()
	conn, err := server.connect("learner")
	if err != nil {
		return err
	}
	defer conn.Close()
	directory, state, err := rundir.Open(settings, log)
	if err != nil {
		return err
	}
	resume := "go run ./learner --run-dir " + settings.RunDir + " --resume"
	defer func() {
		err = errors.Join(device.Advise(err, resume, fitting(settings, task)), directory.Close())
		if errors.Is(err, context.Canceled) && lease == nil {
			log.Info("stopped", "go on with", resume)
		}
	}()

	computer.Announce(log)
	if state != nil && state.Iteration >= settings.Iterations {
		log.Info("the run is complete", "iterations", state.Iteration, "to go on", fmt.Sprintf("--resume --iterations %d", 2*state.Iteration))
		return nil
	}
	r := train.NewRun(computer.Backend, settings, task)
	r.Observe = observed
	epoch, err := begin(ctx, conn, name, lease, r, state)
	if err != nil {
		return err
	}
	observed.At(epoch, r.Counters().Iteration, settings.Iterations)
	collector, err := collect.New(ctx, conn, collect.Config{
		Run: name, Epoch: epoch, Seed: settings.Seed, Task: task, Log: log,
	})
	if err != nil {
		return err
	}
	defer collector.Close()
	r.Journal, r.Collector = directory, collector
	if lease != nil {
		r.Journal, r.Collector = lease.Hold(directory, collector)
	}

	p := display.Start(log, settings.Iterations, r.Counters())
	defer p.End()
	defer watch(collector, p)()
	count := newCounts(watched, r.Counters(), directory, computer.Backend)
	r.Report = func(row metrics.Row, stats collect.Stats) { count.iteration(row, stats); p.Done(row) }
	watched.Watch(func() error { return connected(conn) }, count.others(conn, collector, server))
	actors := local{slots: settings.Actors, run: name, connect: server.connect, log: log, watched: watched.Actor}
	return actors.beside(ctx, r.Train)
}

// fitting tells how many steps of a batch fit into so many bytes, 0 if that cannot be known.
func fitting(settings *config.Settings, task sim.Spec) func(bytes float64) int {
	return func(bytes float64) int {
		footprint, err := train.MeasureFootprint(settings, task)
		if err != nil {
			return 0
		}
		return footprint.Fits(bytes)
	}
}

// begin sets r to the state it goes on from, under the lease's epoch, or without one an epoch above that of any learner
// before it.
func begin(ctx context.Context, conn *bus.Conn, name string, lease *Lease, r *train.Run, state *checkpoint.State) (epoch uint64, err error) {
	if lease != nil {
		epoch = lease.Epoch
	} else {
		atLeast := uint64(1)
		if state != nil {
			atLeast = state.Epoch + 1
		}
		if epoch, err = collect.NextEpoch(ctx, conn, name, atLeast); err != nil {
			return 0, err
		}
	}
	if state == nil {
		r.Start(epoch)
		return epoch, nil
	}
	return epoch, r.Resume(state, epoch)
}

// watch shows how far the batch being collected is, until the function it returns is
// called.
func watch(collector *collect.Collector, p *progress.Progress) (stop func()) {
	const interval = 200 * time.Millisecond
	ticker, done := time.NewTicker(interval), make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case <-ticker.C:
				if steps, want := collector.Progress(); want > 0 {
					p.Sampling(steps, want)
				}
			case <-done:
				return
			}
		}
	})
	return func() {
		ticker.Stop()
		close(done)
		watching.Wait()
	}
}
