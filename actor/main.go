// Command actor plays episodes for a learner: any number of actors join a running learner and leave it at will.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/actor/rollout"
	"github.com/dbqpg/dbqpg/actor/trace"
	"github.com/dbqpg/dbqpg/internal/credentials"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
	"github.com/dbqpg/dbqpg/sim/tasks"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks to leave; a second one ends the process at once.
	context.AfterFunc(ctx, stop)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "actor:", err)
		os.Exit(1)
	}
}

// settings are the flags.
type settings struct {
	nats        string
	credentials string
	run         string
	slots       int
}

// command returns the command line.
func command() *cobra.Command {
	var s settings
	root := &cobra.Command{
		Use:   "actor --nats URL",
		Short: "Play episodes for a learner",
		Long: `Play episodes for a learner that runs elsewhere: "learner" prints the URL to give here.

Actors may join at any time and leave at any time, by Ctrl-C or otherwise: what the learner learns does not depend on
how many there are or how fast they are. An actor waits for a learner that isn't there yet, and for a server that went
away.`,
		Example: `  actor --nats nats://127.0.0.1:4222
  actor --nats tls://learner.example:4222 --credentials credentials/actor
  actor --nats nats://127.0.0.1:4222 --run Swimmer-v2/npg-uapg-s1 --slots 4`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(c *cobra.Command, _ []string) error { return play(c.Context(), s) },
	}
	flags := root.Flags()
	flags.StringVar(&s.nats, "nats", "", "URL of the learner's NATS server, nats://host:port")
	flags.StringVar(&s.credentials, "credentials", "", "directory of this actor's certificate and key, for a server that asks for them (docs/security.md)")
	flags.StringVar(&s.run, "run", "", "name of the run to play for (default: the only one on the server)")
	flags.IntVar(&s.slots, "slots", runtime.GOMAXPROCS(0), "episodes to play at the same time")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w; --help lists the flags of %s", err, c.CommandPath())
	})
	root.AddCommand(trace.Command())
	return root
}

// play plays for a run until ctx is done.
func play(ctx context.Context, s settings) error {
	if s.nats == "" {
		return errors.New("which learner? Give the URL that it prints: --nats nats://host:port")
	}
	if strings.Contains(s.nats, "@") {
		return errors.New("--nats: a password in the URL is in the list of processes; a server that asks who you are takes --credentials DIR")
	}
	if s.slots < 1 {
		return fmt.Errorf("--slots %d: an actor needs at least one", s.slots)
	}
	if s.run != "" {
		if err := proto.CheckRun(s.run); err != nil {
			return fmt.Errorf("--run: %w", err)
		}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	err := connectAndPlay(ctx, s, log)
	if err != nil && ctx.Err() == nil {
		return err
	}
	log.Info("left")
	return nil
}

func connectAndPlay(ctx context.Context, s settings, log *slog.Logger) error {
	config := bus.ConnConfig{Name: "actor", Log: log}
	if s.credentials != "" {
		own, err := credentials.Load(s.credentials, log)
		if err != nil {
			return err
		}
		if err := own.Require(proto.RoleActor); err != nil {
			return err
		}
		config.Identity = own.Identity()
	}
	conn, err := bus.Connect(ctx, s.nats, config)
	if err != nil {
		return err
	}
	defer conn.Close()
	run := s.run
	if run == "" {
		if run, err = rollout.FindRun(ctx, conn, log); err != nil {
			return err
		}
	}
	log.Info("joined", "url", conn.URL(), "run", run, "slots", s.slots)
	return rollout.Run(ctx, rollout.Config{
		Conn: conn, Run: run, Slots: s.slots, NewEnv: tasks.New, Engine: tasks.Engine(), Log: log,
	})
}
