package report

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Command is `learner report`.
func Command() *cobra.Command {
	var reference, env, out string
	var last int
	cmd := &cobra.Command{
		Use:   "report RUN...",
		Short: "Put finished runs side by side: a table of final returns and a plot",
		Long: `Reads the progress.csv of each run directory, prints a Markdown table of the mean
return over the last iterations, and draws the learning curves to OUT.svg and OUT.png.`,
		Example: "  learner report --out docs/results/swimmer runs/Swimmer-v2/npg-*",
		Args: func(_ *cobra.Command, dirs []string) error {
			if len(dirs) == 0 {
				return errors.New("report: name the run directories to put side by side, such as runs/Swimmer-v2/npg-*")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, dirs []string) error {
			var runs, authors []Curve
			for _, dir := range dirs {
				curve, err := ReadRun(dir)
				if err != nil {
					return err
				}
				runs = append(runs, curve)
			}
			if reference != "" {
				var err error
				if authors, err = ReadReference(reference, env); err != nil {
					return err
				}
			}
			Table(cmd.OutOrStdout(), runs, authors, last)
			if out == "" {
				return nil
			}
			return Plot(out, env, runs, authors)
		},
	}
	cmd.Flags().StringVar(&reference, "reference", "", "CSV file of reference curves (env, estimator, seed, avg_return)")
	cmd.Flags().StringVar(&env, "env", "Swimmer-v2", "task, for the title and the reference's rows")
	cmd.Flags().StringVar(&out, "out", "", "draw the plot to OUT.svg and OUT.png")
	cmd.Flags().IntVar(&last, "last", 50, "iterations at the end to average over")
	return cmd
}

// Table writes a Markdown table: for each estimator the mean return over the last
// iterations of each run, by seed, beside the reference's.
func Table(w io.Writer, runs, reference []Curve, last int) {
	fmt.Fprintf(w, "| estimator | runs: mean return of the last %d iterations (seed) | reference |\n|---|---|---|\n", last)
	for _, estimator := range Estimators {
		fmt.Fprintf(w, "| %s | %s | %s |\n", estimator, finals(runs, estimator, last, true), finals(reference, estimator, last, false))
	}
}

func finals(curves []Curve, estimator string, last int, seeds bool) string {
	var all []string
	for _, c := range curves {
		if c.Estimator != estimator {
			continue
		}
		text := fmt.Sprintf("%.0f", c.Final(last))
		if seeds {
			text += fmt.Sprintf(" (%s)", c.Seed)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}
