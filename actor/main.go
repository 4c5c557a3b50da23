// Command actor plays episodes for learners: any number of actors may join and leave at any time.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/internal/commandline"
	"github.com/dbqpg/dbqpg/internal/credentials"
	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/internal/rollout"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
	"github.com/dbqpg/dbqpg/sim/external"
	"github.com/dbqpg/dbqpg/sim/tasks"
)

func main() { commandline.Execute(command()) }

// settings are the flags.
type settings struct {
	nats        string
	credentials string
	run         string
	once        bool
	slots       int
	observe     observe.Config
	logLevel    string
	logFormat   string
}

// command returns the command line.
func command() *cobra.Command {
	var s settings
	var taskFiles []string
	root := &cobra.Command{
		Use:   "actor --nats URL",
		Short: "Play episodes for learners",
		Long: `Play episodes for learners on other machines; "learner" prints the URL for --nats.

Actors may join and leave at any time, by Ctrl-C or otherwise: the results do not depend on their number or speed. An
actor waits for a learner that has not started yet, and for a server that has gone away. If several learners use one
server, an actor plays for all of them, according to their demand.`,
		Example: `  actor --nats nats://127.0.0.1:4222
  actor --nats tls://learner.example:4222 --credentials credentials/actor
  actor --nats nats://127.0.0.1:4222 --run Swimmer-v5/trpo-mc-s1 --slots 4
  actor --nats nats://127.0.0.1:4222 --run 'Swimmer-v5/*,Hopper-v5/*'
  actor --nats nats://127.0.0.1:4222 --task task.yaml`,
		Args:          cobra.NoArgs,
		Version:       commandline.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	flags := root.Flags()
	flags.StringVar(&s.nats, "nats", "", "URL of the learner's NATS server, nats://host:port")
	flags.StringVar(&s.credentials, "credentials", "",
		"directory of this actor's certificate and key, for a server that requires them (docs/security.md)")
	flags.StringVar(&s.run, "run", "",
		"runs to play for: names and patterns, separated by commas (default: all runs on the server)")
	flags.BoolVar(&s.once, "once", false, "leave when one of these runs has ended")
	flags.StringArrayVar(&taskFiles, "task", nil,
		"task file of a learner that has one, to play for it too; may be repeated (docs/environments.md)")
	flags.IntVar(&s.slots, "slots", runtime.GOMAXPROCS(0),
		"number of concurrent episodes; with --task, by default as many per core as a process has environments")
	flags.StringVar(&s.observe.Listen, "metrics-listen", "",
		"host:port of an HTTP server for metrics, health and readiness, such as 127.0.0.1:9465 (docs/observability.md)")
	flags.BoolVar(&s.observe.Pprof, "pprof", false, "also serve Go's profiles there")
	flags.StringVar(&s.logLevel, "log-level", "info", "lowest level to log: debug, info, warn or error")
	flags.StringVar(&s.logFormat, "log-format", observe.Text,
		"log format: text (key=value pairs) or json (one object per line)")
	root.RunE = func(c *cobra.Command, _ []string) error {
		environments, err := newEnvironments(taskFiles)
		if err != nil {
			return fmt.Errorf("--task: %w", err)
		}
		if !flags.Changed("slots") {
			s.slots = environments.Slots(s.slots)
		}
		return play(c.Context(), s, environments)
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w; --help lists the flags of %s", err, c.CommandPath())
	})
	return root
}

// newEnvironments returns a maker of environments, for the built-in tasks and the task files.
func newEnvironments(paths []string) (*external.Environments, error) {
	var files []*external.File
	for _, path := range paths {
		f, err := external.Load(path)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return external.New(tasks.New, files...)
}

func (s *settings) check() error {
	switch {
	case s.nats == "":
		return errors.New("give the URL that the learner prints: --nats nats://host:port")
	case strings.Contains(s.nats, "@"):
		return errors.New("--nats: a password in the URL is visible in the process list; " +
			"authenticate with --credentials DIR instead")
	case s.slots < 1:
		return fmt.Errorf("--slots %d: an actor needs at least one", s.slots)
	}
	if err := rollout.CheckRuns(s.run); err != nil {
		return fmt.Errorf("--run: %w", err)
	}
	return nil
}

// play plays until ctx is done.
func play(ctx context.Context, s settings, environments *external.Environments) error {
	if err := s.check(); err != nil {
		return commandline.Usage(err)
	}
	log, err := observe.NewLogger(os.Stderr, s.logFormat, s.logLevel)
	if err != nil {
		return commandline.Usage(err)
	}
	metrics := observe.NewActor()
	s.observe.Log = log
	stop, err := metrics.Start(s.observe)
	if err != nil {
		return err
	}
	defer stop()
	err = connectAndPlay(ctx, s, environments, log, metrics)
	if err != nil && ctx.Err() == nil {
		return err
	}
	log.Info("left")
	return nil
}

func connectAndPlay(ctx context.Context, s settings, environments *external.Environments, log *slog.Logger,
	metrics *observe.Actor) error {
	config := bus.ConnConfig{Name: "actor", Log: log}
	if s.credentials != "" {
		own, err := credentials.Load(s.credentials, log)
		if err != nil {
			return err
		}
		if err := own.Require(proto.RoleActor); err != nil {
			return err
		}
		metrics.WatchCertificate(own.Expires)
		config.Identity = own.Identity()
	}
	conn, err := bus.Connect(ctx, s.nats, config)
	if err != nil {
		return err
	}
	defer conn.Close()
	refused := new(atomic.Pointer[error])
	watch(metrics, conn, s.run, refused)
	defer metrics.Idle("leaving")
	log.Info("joined", "url", conn.URL(), "run", cmp.Or(s.run, "all"), "slots", s.slots)
	return rollout.Run(ctx, rollout.Config{
		Conn: conn, Run: s.run, Once: s.once, Slots: s.slots, NewEnv: environments.New, Engine: tasks.Engine(),
		Log: log, Metrics: metrics, Refused: func(reason error) { refused.Store(&reason) },
	})
}

// watch reports the actor as ready while it is connected, and not refused by all runs.
func watch(metrics *observe.Actor, conn *bus.Conn, runs string, refused *atomic.Pointer[error]) {
	ready := func() error {
		if reason := refused.Load(); reason != nil && *reason != nil {
			return *reason
		}
		return conn.Connected()
	}
	metrics.RunInfo.WithLabelValues(cmp.Or(runs, "all")).Set(1)
	metrics.Watch(ready, func() { metrics.SetConnected(conn.Connected()) })
}
