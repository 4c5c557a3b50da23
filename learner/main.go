// Command learner trains a policy. `learner --env Swimmer-v5` does so on one machine;
// actors on other machines join with `actor --nats URL`.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/internal/commandline"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/nearest"
	"github.com/dbqpg/dbqpg/internal/observe"
	"github.com/dbqpg/dbqpg/internal/store"
	"github.com/dbqpg/dbqpg/internal/web"
	"github.com/dbqpg/dbqpg/learner/bench"
	"github.com/dbqpg/dbqpg/learner/dashboard"
	"github.com/dbqpg/dbqpg/learner/evaluate"
	"github.com/dbqpg/dbqpg/learner/export"
	"github.com/dbqpg/dbqpg/learner/gradient"
	"github.com/dbqpg/dbqpg/learner/play"
	"github.com/dbqpg/dbqpg/learner/record"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/learner/session"
	"github.com/dbqpg/dbqpg/learner/worker"
)

func main() {
	signal.Ignore(syscall.SIGXFSZ) // exceeding a file size limit is an error like a full disk
	commandline.Execute(newCommand())
}

func newCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "learner --env TASK",
		Short: "Train a policy by deep Bayesian quadrature policy optimization",
		Long: `Train a policy by deep Bayesian quadrature policy optimization.

Episodes are played by actors in this process, one per core, and by those that join with
actor --nats URL. Every iteration is saved in the run directory: stop with Ctrl-C, and
continue with --resume. The result is bit-identical for any number of actors, and whether or
not the run was interrupted.

Settings are taken from flags, then from the environment (DBQPG_GAE_LAMBDA for
--gae-lambda), then from the file of --config, then from the preset:
paper for the paper's tasks, which are named -v2, and best for all others.`,
		Example: `  learner --env Swimmer-v5
  learner --env Swimmer-v5 --resume
  learner --env Hopper-v5 --estimator mc --seed 3
  learner --env Hopper-v2 --algorithm vanilla
  learner --env Swimmer-v5 --resume --steps 2000000
  learner --env Swimmer-v5 --from runs/Swimmer-v5/trpo-mc-s1 --run-dir runs/finer`,
		Args:          noArguments,
		Version:       commandline.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	loader := config.NewLoader(cmd.Flags())
	helpAll := cmd.Flags().Bool("help-all", false, "help with all flags")
	commandline.GroupFlags(cmd, func() []commandline.Group {
		help := commandline.Group{Title: "Help", Flags: []string{"help", "help-all", "version"}}
		return append(loader.Usage(*helpAll), help)
	})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *helpAll {
			return cmd.Help()
		}
		settings, err := loader.Load(os.Environ())
		if err != nil {
			return commandline.Usage(err)
		}
		if settings.DryRun {
			plan, err := runs.Plan(settings)
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "%s\n# %s\n", loader.Describe(), plan)
			}
			return err
		}
		return train(cmd.Context(), settings)
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return config.Explain(cmd.Flags(), err) })
	cmd.AddCommand(worker.Command(), evaluate.Command(), export.Command(), record.Command(), bench.Command(),
		dashboard.Command(), dashboard.PlayCommand(), gradient.Command(), tasksCommand())
	return cmd
}

// train trains the run of the settings and prints a summary.
func train(ctx context.Context, settings *config.Settings) error {
	display := runs.NewDisplay(os.Stderr)
	log, err := observe.NewLogger(display, settings.LogFormat, settings.LogLevel)
	if err != nil {
		return err
	}
	metrics := observe.NewLearner()
	live := play.New(log)
	defer live.Close()
	serving := observe.Config{Listen: settings.HTTPAddress(), Pprof: settings.Pprof, Log: log}
	if settings.Pages() {
		source := web.NewDirectory(store.Local(settings.RunDir))
		serving.Pages = web.Handler(web.Config{Source: source, One: true, Live: live.Handler(source), Log: log})
	}
	stop, err := metrics.Start(serving)
	if err != nil {
		return err
	}
	defer stop()
	training := session.Config{Settings: settings, Display: display, Log: log, Metrics: metrics}
	if err := session.Train(ctx, training); err != nil {
		return err
	}
	summary, err := runs.Summary(settings)
	display.Say(summary)
	return err
}

// noArguments rejects arguments that are neither a flag nor a command.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if args[0] == "study" || args[0] == "report" {
		return fmt.Errorf("learner %s is a program of its own: go run ./learner/study --help", args[0])
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	if meant, edits := nearest.Name(args[0], names); edits <= 2 {
		return fmt.Errorf("unknown command %q; did you mean %s?", args[0], meant)
	}
	return fmt.Errorf("%q is neither a flag nor a command: write a task as --env Swimmer-v5, "+
		"and the value of a flag that needs none as --resume=auto", args[0])
}
