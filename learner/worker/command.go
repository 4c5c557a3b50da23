package worker

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/internal/commandline"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/learner/session"
)

// Command returns the command `worker`.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "worker --coordinator URL --checkpoints STORE",
		Short: "Train a coordinator's runs",
		Long: `Train the runs of a coordinator, one at a time, until stopped. Any number of workers share
the runs, and resume those of workers that died (docs/sweeps.md).

Settings are taken from flags, then from the environment (DBQPG_LEASE_TERM for --lease-term),
then from the file of --config. The sweep determines what is learned.`,
		Example: `  learner worker --coordinator http://127.0.0.1:7070 --checkpoints /shared/runs`,
		Args:    cobra.NoArgs,
	}
	loader := config.NewWorkerLoader(cmd.Flags())
	commandline.GroupFlags(cmd, func() []commandline.Group {
		return append(loader.Usage(), commandline.Group{Title: "Help", Flags: []string{"help"}})
	})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		settings, err := loader.Load(os.Environ())
		if err != nil {
			return err
		}
		display := runs.NewDisplay(os.Stderr)
		log, err := observe.NewLogger(display, settings.LogFormat, settings.LogLevel)
		if err != nil {
			return err
		}
		metrics := observe.NewLearner()
		stop, err := metrics.Start(observe.Config{Listen: settings.HTTPAddress(), Pprof: settings.Pprof, Log: log})
		if err != nil {
			return err
		}
		defer stop()
		return serve(cmd.Context(), settings, session.Config{Display: display, Log: log, Metrics: metrics})
	}
	return cmd
}

// defaultName returns the host's name and the process ID, restricted to the characters allowed in names.
func defaultName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	host = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, host)
	return fmt.Sprintf("%.40s-%d", host, os.Getpid())
}
