// Command study repeats the paper's experiments: `go run ./learner/study NAME --quick --out DIR` measures, and writes a
// page with its tables (CSV) and figures (SVG, PNG).
//
// An experiment is a file under experiments/: its question, variants and measurement, and the blocks of its page.
// There are few mechanisms, and each experiment uses all of them:
//
//   - A measurement (measurement) trains runs, or measures gradients or updates, and publishes the rows under data/, as
//     CSV with a record of their origin. Training runs are kept under runs/, other measurements that take long
//     under units/, so that the same command goes on after an interruption.
//   - The published rows are read as series: labels, and numbers by column.
//   - Quantities reduce a series to numbers, and statistics those of a group of series, or of two that are compared, to
//     an estimate with its interval.
//   - The page, README.md, is rendered from its blocks; it includes notes.md, which is written by hand.
package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/internal/commandline"
	"github.com/dbqpg/dbqpg/internal/nearest"
)

func main() { commandline.Execute(newCommand()) }

func newCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "study NAME --out DIR",
		Short: "Repeat the paper's experiments and write pages of results",
		Long: `Each study repeats one of the paper's experiments. It writes its numbers as CSV, figures as SVG
and PNG, and a page, DIR/README.md, which includes your own remarks from DIR/notes.md. A study that
was killed continues where it stopped when it is started again.

With --quick a study takes about two minutes on two cores: a demonstration, not evidence.`,
		Version:       commandline.Version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			var names []string
			for _, c := range cmd.Commands() {
				if !c.Hidden {
					names = append(names, c.Name())
				}
			}
			if len(args) == 0 {
				return fmt.Errorf("name a study: %s", nearest.List(names))
			}
			meant, _ := nearest.Name(args[0], names)
			return fmt.Errorf("there is no study %q; did you mean %s?", args[0], meant)
		},
		RunE: func(*cobra.Command, []string) error { return nil }, // Args refuses everything
	}
	cmd.FParseErrWhitelist.UnknownFlags = true // of a study that is misspelt
	for _, e := range experiments() {
		cmd.AddCommand(e.command())
	}
	cmd.AddCommand(trainCommand())
	return cmd
}
