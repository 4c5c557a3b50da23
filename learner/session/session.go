// Package session sets up training in one process: the NATS server or a connection to one, the local actors, the run's
// directory, and the training loop. `learner` runs it once, a study many times; [Sample] is the same without the
// learning.
package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/commandline"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/internal/store"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/learner/train"
	"github.com/dbqpg/dbqpg/proto/bus"
	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/external"
	"github.com/dbqpg/dbqpg/sim/tasks"
)

// Lease is a run leased from a coordinator, which the learner trains under the coordinator's name and epoch for
// it.
type Lease struct {
	Run   string // its name
	Epoch uint64
	// Store is where settings.From is a key.
	Store store.Store
	// Hold returns the journal that keeps the run's iterations beyond its directory, and the collector of its batches.
	Hold func(directory *runs.Run, collector *collect.Collector) (train.Journal, train.Collector)
}

// Train trains with valid settings, in the run directory that they name, until the run is complete or ctx is
// done. After any error the run can be resumed. Its progress is shown on display; everything else goes to log, whose
// lines carry their run and iteration, and to metrics, which may be nil.
func Train(ctx context.Context, settings *config.Settings, display *runs.Display, log *slog.Logger, metrics *observe.Learner) error {
	s := &session{settings: settings, name: settings.Name(), display: display, log: log, metrics: metrics}
	return s.run(ctx)
}

// TrainWith is Train with a learner that change makes other than the settings do, before it starts or resumes: an
// experiment's.
func TrainWith(ctx context.Context, settings *config.Settings, change func(*train.Learner), display *runs.Display,
	log *slog.Logger) error {
	s := &session{settings: settings, name: settings.Name(), change: change, display: display, log: log}
	return s.run(ctx)
}

// TrainLeased is Train for a leased run, over a bus that stays open.
func TrainLeased(ctx context.Context, settings *config.Settings, lease *Lease, bus *Bus, display *runs.Display, log *slog.Logger, metrics *observe.Learner) error {
	s := &session{settings: settings, name: lease.Run, lease: lease, bus: bus, display: display, log: log, metrics: metrics}
	return s.run(ctx)
}

// SetupError reports what prevents this machine from training any run: a missing GPU, or an unreachable NATS server.
type SetupError struct{ error }

func (e SetupError) Unwrap() error { return e.error }

// session is the training of one run in this process.
type session struct {
	settings *config.Settings
	name     string // of the run
	lease    *Lease // nil if the run is not leased
	change   func(*train.Learner)
	bus      *Bus // nil before it is open
	display  *runs.Display
	log      *slog.Logger
	metrics  *observe.Learner

	task         sim.Spec
	environments *external.Environments
	from         *runs.Checkpoint // that a new run starts with; nil: none
	observed     *observe.Run
	backend      compute.Backend
	conn         *bus.Conn
}

// run opens everything that training needs, and trains.
func (s *session) run(ctx context.Context) (err error) {
	if s.task, err = s.settings.Task(); err != nil {
		return err
	}
	if s.environments, err = external.New(tasks.New, s.settings.TaskFiles()...); err != nil {
		return err
	}
	if s.metrics == nil {
		s.metrics = observe.NewLearner()
	}
	s.observed = s.metrics.Begin(s.name, s.settings.Env, string(s.settings.Algorithm), string(s.settings.Estimator))
	defer s.metrics.End()
	s.log = s.observed.Logger(s.log)
	if _, err := runs.Plan(s.settings); err != nil { // start nothing for a run that cannot be trained
		return err
	}
	if s.from, err = s.source(ctx); err != nil {
		return fmt.Errorf("--from %s: %w", s.settings.From, err)
	}
	computer, err := device.Open(s.settings.Device)
	if err != nil {
		return SetupError{err}
	}
	defer computer.Close()
	s.backend = computer.Backend
	if s.bus == nil {
		if s.bus, err = OpenBus(ctx, &s.settings.Machine, s.log, s.metrics); err != nil {
			return SetupError{err}
		}
		defer s.bus.Close()
	}
	if s.conn, err = s.bus.connect("learner"); err != nil {
		return SetupError{err}
	}
	defer s.conn.Close()
	directory, state, err := runs.Open(s.settings, s.log)
	if err != nil {
		return err
	}
	resume := commandline.Program() + " --run-dir " + commandline.Quote(s.settings.RunDir) + " --resume"
	defer func() {
		err = errors.Join(device.Advise(err, s.goOn(err, resume), fitting(s.settings, s.task)), directory.Close())
		if errors.Is(err, context.Canceled) && s.lease == nil {
			s.log.Info("stopped", "go on with", resume)
		}
	}()
	computer.Announce(s.log)
	if state != nil && s.settings.Reached(state.Iteration, state.Steps) {
		s.log.Info("the run is complete", "iterations", state.Iteration, "steps", state.Steps, "to go on", "--resume "+s.settings.Longer(state.Iteration, state.Steps))
		return nil
	}
	if s.lease == nil {
		s.log.Info("training", "directory", s.settings.RunDir)
	}
	return s.train(ctx, directory, state)
}

// train resumes from a state, nil for a new run.
func (s *session) train(ctx context.Context, directory *runs.Run, state *runs.State) error {
	r := train.NewRun(s.backend, s.settings, s.task)
	r.Observe = s.observed
	if s.change != nil {
		s.change(r.Learner)
	}
	epoch, err := s.begin(ctx, r, state)
	if err != nil {
		return err
	}
	build := runs.Build{Iteration: r.Counters().Iteration, Program: device.Versions(), Machine: device.Machine()}
	if err := runs.TrainedBy(s.settings.RunDir, build); err != nil {
		return err
	}
	s.observed.At(epoch, r.Counters().Iteration, s.settings.Iterations)
	collecting := collect.Config{
		Run: s.name, Epoch: epoch, Seed: s.settings.Seed, Task: s.task, NewEnv: s.environments.New,
		Exact: s.settings.TaskFile == nil, ShutOut: runs.ShutOut(s.settings.RunDir), Log: s.log,
	}
	if f := s.settings.TaskFile; f != nil {
		collecting.Lease = f.Limits.Episode
	}
	collector, err := collect.New(ctx, s.conn, collecting)
	if err != nil {
		return err
	}
	defer collector.Close()
	r.Journal, r.Collector = directory, collector
	if s.lease != nil {
		r.Journal, r.Collector = s.lease.Hold(directory, collector)
	}

	p := s.display.Start(s.log, s.settings.Length, r.Counters())
	defer p.End()
	defer watch(collector, p)()
	reporter := newReporter(s.metrics, r.Counters(), directory, s.backend)
	r.Report = func(row runs.Row, batch *collect.Batch, best *runs.Best) {
		reporter.iteration(row, batch.Stats)
		p.Done(row, batch.Steps, best)
	}
	s.metrics.Watch(s.conn.Connected, reporter.others(s.conn, collector, s.bus))
	actors := localActors{
		slots: s.settings.Actors, environments: s.environments, run: s.name, connect: s.bus.connect, log: s.log, metrics: s.metrics.Actor,
	}
	r.Evaluations.Play = s.evaluate
	return actors.alongside(ctx, r.Train)
}
