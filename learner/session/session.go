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

// Train trains as valid settings say, in the run directory that they name, until all iterations are done or ctx is.
// Whatever its error, the run can be resumed. Its progress is shown on display, all else goes to log.
func Train(ctx context.Context, settings *config.Settings, display *progress.Display, log *slog.Logger) (err error) {
	task, err := sim.Lookup(settings.Env)
	if err != nil {
		return err
	}
	if _, err := rundir.Plan(settings); err != nil { // nothing is started for a run that cannot be
		return err
	}
	backend, closeDevice, err := device.Open(settings.Device, log)
	if err != nil {
		return err
	}
	defer closeDevice()
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
	resume := "go run ./learner --run-dir " + settings.RunDir + " --resume"
	defer func() {
		err = errors.Join(device.Advise(err, resume, fitting(settings, task)), directory.Close())
		if errors.Is(err, context.Canceled) {
			log.Info("stopped", "go on with", resume)
		}
	}()

	if state != nil && state.Iteration >= settings.Iterations {
		log.Info("the run is complete", "iterations", state.Iteration, "to go on", fmt.Sprintf("--resume --iterations %d", 2*state.Iteration))
		return nil
	}
	r := train.NewRun(backend, settings, task)
	r.Journal = directory
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
	actors := local{slots: settings.Actors, run: settings.Name(), connect: connect, log: log}
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
