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

// Config describes the training of a run in this process.
type Config struct {
	Settings *config.Settings // valid; they name the run's directory
	Display  *runs.Display    // shows the progress
	Log      *slog.Logger     // its lines carry the run and the iteration
	Metrics  *observe.Learner // may be nil
	// Change changes the learner before it starts or resumes, for experiments; nil: not.
	Change func(*train.Learner)
	Lease  *Lease // nil for a run without a coordinator
}

// Lease is a run leased from a coordinator, under the coordinator's name and epoch for it.
type Lease struct {
	Run   string // its name
	Epoch uint64
	Bus   *Bus        // stays open
	Store store.Store // settings.From is a key in it
	// Hold returns the journal that keeps the run's iterations beyond its directory, and the collector of its batches.
	Hold func(directory *runs.Run, collector *collect.Collector) (train.Journal, train.Collector)
}

// Train trains until the run is complete or ctx is done. After any error the run can be resumed.
func Train(ctx context.Context, c Config) error {
	s := &session{Config: c, name: c.Settings.Name()}
	if c.Lease != nil {
		s.name, s.bus = c.Lease.Run, c.Lease.Bus
	}
	return s.run(ctx)
}

// SetupError reports what prevents this machine from training any run: a missing GPU, or an unreachable NATS server.
type SetupError struct{ error }

func (e SetupError) Unwrap() error { return e.error }

// session is the training of one run in this process.
type session struct {
	Config
	name string // of the run
	bus  *Bus   // nil before it is open

	task         sim.Spec
	environments *external.Environments
	from         *runs.Checkpoint // where a new run starts; nil: at a new policy
	observed     *observe.Run
	backend      compute.Backend
	conn         *bus.Conn
}

// run opens everything that training needs, and trains.
func (s *session) run(ctx context.Context) (err error) {
	if s.task, err = s.Settings.Task(); err != nil {
		return err
	}
	if s.environments, err = external.New(tasks.New, s.Settings.TaskFiles()...); err != nil {
		return err
	}
	if s.Metrics == nil {
		s.Metrics = observe.NewLearner()
	}
	s.observed = s.Metrics.Begin(s.name, s.Settings.Env, string(s.Settings.Algorithm), string(s.Settings.Estimator))
	defer s.Metrics.End()
	s.Log = s.observed.Logger(s.Log)
	if f := s.Settings.TaskFile; f != nil {
		s.Log.Info("the task's environments are another program", "command", f.Command)
	}
	if _, err := runs.Plan(s.Settings); err != nil { // start nothing for a run that cannot be trained
		return err
	}
	if s.from, err = s.source(ctx); err != nil {
		return fmt.Errorf("--from %s: %w", s.Settings.From, err)
	}
	computer, err := device.Open(s.Settings.Device)
	if err != nil {
		return SetupError{err}
	}
	defer computer.Close()
	s.backend = computer.Backend
	if s.bus == nil {
		if s.bus, err = OpenBus(ctx, &s.Settings.Machine, s.Log, s.Metrics); err != nil {
			return SetupError{err}
		}
		defer s.bus.Close()
	}
	if s.conn, err = s.bus.connect("learner"); err != nil {
		return SetupError{err}
	}
	defer s.conn.Close()
	directory, state, err := runs.Open(s.Settings, s.Log)
	if err != nil {
		return err
	}
	if s.Lease == nil { // a worker keeps its own log, and the coordinator the outcome
		lines := slog.NewTextHandler(directory.Log, nil)
		s.Log = s.observed.Logger(slog.New(slog.NewMultiHandler(s.Log.Handler(), lines)))
	}
	resume := commandline.Program() + " --run-dir " + commandline.Quote(s.Settings.RunDir) + " --resume"
	defer func() {
		err = device.Advise(err, s.goOn(err, resume))
		if s.Lease == nil {
			err = errors.Join(err, directory.End(err))
		}
		if errors.Is(err, context.Canceled) && s.Lease == nil {
			s.Log.Info("stopped", "go on with", resume)
		}
		err = errors.Join(err, directory.Close())
	}()
	computer.Announce(s.Log)
	if state != nil && s.Settings.Reached(state.Iteration, state.Steps) {
		s.Log.Info("the run is complete", "iterations", state.Iteration, "steps", state.Steps,
			"to go on", "--resume "+s.Settings.Longer(state.Iteration, state.Steps))
		s.end(ctx)
		return nil
	}
	if s.Lease == nil {
		s.Log.Info("training", "directory", s.Settings.RunDir)
	}
	return s.train(ctx, directory, state)
}

// train resumes from a state, nil for a new run.
func (s *session) train(ctx context.Context, directory *runs.Run, state *runs.State) error {
	r := train.NewRun(s.backend, s.Settings, s.task)
	r.Observe = s.observed
	if s.Change != nil {
		s.Change(r.Learner)
	}
	epoch, err := s.begin(ctx, r, state)
	if err != nil {
		return err
	}
	build := runs.Build{Iteration: r.Counters().Iteration, Program: device.Versions(), Machine: device.Machine()}
	if err := runs.TrainedBy(s.Settings.RunDir, build); err != nil {
		return err
	}
	s.observed.At(epoch, r.Counters().Iteration, s.Settings.Iterations)
	collecting := collect.Config{
		Run: s.name, Epoch: epoch, Seed: s.Settings.Seed, Task: s.task, NewEnv: s.environments.New,
		Exact: s.Settings.TaskFile == nil, ShutOut: runs.ShutOut(s.Settings.RunDir), GoBack: s.goBack, Log: s.Log,
	}
	if f := s.Settings.TaskFile; f != nil {
		collecting.Lease = f.Limits.Episode
	}
	collector, err := collect.New(ctx, s.conn, collecting)
	if err != nil {
		return err
	}
	defer collector.Close()
	r.Journal, r.Collector, r.Replay = directory, collector, collector.Replay
	if s.Lease != nil {
		r.Journal, r.Collector = s.Lease.Hold(directory, collector)
	}

	p := s.Display.Start(s.Log, s.Settings.Length, r.Counters())
	defer p.End()
	defer watch(collector, p)()
	reporter := newReporter(s.Metrics, r.Counters(), directory, s.backend)
	r.Report = func(row runs.Row, batch *collect.Batch, best *runs.Best) {
		reporter.iteration(row, batch.Stats)
		p.Done(row, batch.Steps, best)
	}
	s.Metrics.Watch(s.conn.Connected, reporter.others(s.conn, collector, s.bus))
	actors := localActors{
		slots: s.Settings.Actors, environments: s.environments, run: s.name, connect: s.bus.connect, log: s.Log,
		metrics: s.Metrics.Actor,
	}
	r.Evaluations.Play = s.evaluate
	return actors.alongside(ctx, func(ctx context.Context) error {
		if err := r.Train(ctx); err != nil {
			return err
		}
		s.end(ctx)
		return nil
	})
}

// end tells actors that the run has ended.
func (s *session) end(ctx context.Context) {
	if err := collect.End(ctx, s.conn, s.name); err != nil {
		s.Log.Warn("cannot tell actors that the run has ended", "error", err)
	}
}
