package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dbqpg/dbqpg/actor/rollout"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/learner/checkpoint"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/config"
	"github.com/dbqpg/dbqpg/learner/metrics"
	"github.com/dbqpg/dbqpg/learner/progress"
	"github.com/dbqpg/dbqpg/learner/rundir"
	"github.com/dbqpg/dbqpg/learner/train"
	"github.com/dbqpg/dbqpg/proto/bus"
	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/tasks"
)

// run trains as the settings say: a NATS server in this process or elsewhere, local
// actors, the run's directory, and the loop.
func run(ctx context.Context, settings *config.Settings, display *progress.Display, log *slog.Logger) (err error) {
	task, err := sim.Lookup(settings.Env)
	if err != nil {
		return err
	}
	if _, err := rundir.Plan(settings); err != nil { // nothing is started for a run that cannot be
		return err
	}
	connect, stop, err := openBus(ctx, settings, log)
	if err != nil {
		return err
	}
	defer stop()
	conn, err := connect("learner")
	if err != nil {
		return err
	}
	defer conn.Close()
	directory, state, err := rundir.Open(settings, log)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, directory.Close())
		if errors.Is(err, context.Canceled) {
			log.Info("stopped", "go on with", "go run ./learner --run-dir "+settings.RunDir+" --resume")
		}
	}()

	if state != nil && state.Iteration >= settings.Iterations {
		log.Info("the run is complete", "iterations", state.Iteration, "to go on", fmt.Sprintf("--resume --iterations %d", 2*state.Iteration))
		return nil
	}
	r := &train.Run{
		Learner:    train.New(cpu.New(0), settings, task),
		Seed:       settings.Seed,
		Iterations: settings.Iterations,
		BatchSteps: settings.Batch,
		Clip:       settings.Clip,
		Journal:    directory,
	}
	epoch, err := begin(ctx, conn, settings.Name(), r, state)
	if err != nil {
		return err
	}
	collector, err := collect.New(ctx, conn, collect.Config{
		Run: settings.Name(), Epoch: epoch, Seed: settings.Seed, Task: task, Log: log,
	})
	if err != nil {
		return err
	}
	defer collector.Close()
	r.Collector = collector

	p := display.Start(log, settings.Iterations, r.Counters())
	defer p.End()
	defer watch(collector, p)()
	r.Report = func(row metrics.Row, _ collect.Stats) { p.Done(row) }
	return trainWithActors(ctx, r, settings, connect, log)
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

// openBus returns a way to connect to the run's NATS server: the external one, or one
// that it starts in this process and stop ends.
func openBus(ctx context.Context, settings *config.Settings, log *slog.Logger) (connect func(name string) (*bus.Conn, error), stop func(), err error) {
	if settings.NATS != "" {
		return func(name string) (*bus.Conn, error) {
			return bus.Connect(ctx, settings.NATS, bus.ConnConfig{Name: name, Log: log})
		}, func() {}, nil
	}
	host, port, err := settings.ListenAddress()
	if err != nil {
		return nil, nil, err
	}
	server, err := bus.StartServer(bus.ServerConfig{Host: host, Port: port, Log: log})
	if err != nil && settings.Listen == config.AutoListen {
		server, err = bus.StartServer(bus.ServerConfig{Host: host, Log: log})
	}
	if err != nil {
		return nil, nil, err
	}
	log.Info("actors can join", "command", fmt.Sprintf("go run ./actor --nats %s", server.URL()))
	return func(name string) (*bus.Conn, error) {
		return server.Connect(bus.ConnConfig{Name: name, Log: log})
	}, server.Close, nil
}

// begin sets r to the state it goes on from, under an epoch above that of any learner
// before it.
func begin(ctx context.Context, conn *bus.Conn, name string, r *train.Run, state *checkpoint.State) (epoch uint64, err error) {
	atLeast := uint64(1)
	if state != nil {
		atLeast = state.Epoch + 1
	}
	if epoch, err = collect.NextEpoch(ctx, conn, name, atLeast); err != nil {
		return 0, err
	}
	if state == nil {
		r.Start(epoch)
		return epoch, nil
	}
	return epoch, r.Resume(state, epoch)
}

// trainWithActors runs the loop beside the local actors; the end of one ends the
// other.
func trainWithActors(ctx context.Context, r *train.Run, settings *config.Settings, connect func(string) (*bus.Conn, error), log *slog.Logger) error {
	slots := settings.Actors
	if slots == config.AutoActors {
		slots = runtime.GOMAXPROCS(0)
	}
	if slots == 0 {
		return r.Train(ctx)
	}
	conn, err := connect("local actor")
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, done := context.WithCancel(ctx)
	defer done()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return rollout.Run(ctx, rollout.Config{
			Conn: conn, Run: settings.Name(), Slots: slots, NewEnv: tasks.New, Engine: tasks.Engine(), Log: log,
		})
	})
	group.Go(func() error {
		defer done()
		return r.Train(ctx)
	})
	return group.Wait()
}
