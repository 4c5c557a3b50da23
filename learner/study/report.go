package study

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/internal/chart"
	"github.com/dbqpg/dbqpg/internal/stats"
)

// ReportCommand returns `learner report`.
func ReportCommand() *cobra.Command {
	var reference, env, out string
	var last int
	cmd := &cobra.Command{
		Use:   "report RUN...",
		Short: "Compare runs in a table of final returns and a plot",
		Long: `Reads the progress.csv of each run directory, prints a Markdown table of the mean return
over the last iterations, and draws the learning curves to OUT.svg and OUT.png. The first row
counts as iteration 0, the untrained policy, even in tables that start at 1.`,
		Example: "  learner report --out docs/results/swimmer runs/Swimmer-v2/npg-*",
		Args: func(_ *cobra.Command, dirs []string) error {
			if len(dirs) == 0 {
				return errors.New("report: name the run directories to compare, such as runs/Swimmer-v2/npg-*")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, dirs []string) error {
			var runs, authors []curve
			for _, dir := range dirs {
				run, err := readRun(dir)
				if err != nil {
					return fmt.Errorf("report: %w", err)
				}
				runs = append(runs, run)
			}
			if reference != "" {
				var err error
				if authors, err = readReference(reference, env); err != nil {
					return fmt.Errorf("report: %w", err)
				}
			}
			writeFinals(cmd.OutOrStdout(), runs, authors, last)
			if out == "" {
				return nil
			}
			return curvesFigure(env, runs, authors).Save(out)
		},
	}
	cmd.Flags().StringVar(&reference, "reference", "", "CSV file of reference curves (env, estimator, seed, avg_return)")
	cmd.Flags().StringVar(&env, "env", "Swimmer-v2", "task, for the title and for selecting rows of the reference")
	cmd.Flags().StringVar(&out, "out", "", "base name OUT of the plots OUT.svg and OUT.png")
	cmd.Flags().IntVar(&last, "last", 50, "number of last iterations to average over")
	return cmd
}

// reported are the estimators of a report, in the order of its rows and legend, with their colours.
var reported = []struct {
	estimator string
	color     int
}{{"MC", chart.Gray}, {"DBQPG", 0}, {"UAPG", 1}}

// writeFinals writes a Markdown table: for each estimator the mean return over the last iterations of each run, by
// seed, beside the reference's.
func writeFinals(w io.Writer, runs, reference []curve, last int) {
	fmt.Fprintf(w, "| estimator | runs: mean return of the last %d iterations (seed) | reference |\n|---|---|---|\n", last)
	for _, r := range reported {
		fmt.Fprintf(w, "| %s | %s | %s |\n", r.estimator, finals(runs, r.estimator, last, true), finals(reference, r.estimator, last, false))
	}
}

func finals(curves []curve, estimator string, last int, seeds bool) string {
	var all []string
	for _, c := range curves {
		if c.estimator != estimator {
			continue
		}
		text := fmt.Sprintf("%.0f", c.final(last))
		if seeds {
			text += fmt.Sprintf(" (%s)", c.seed)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// curvesFigure draws running means of the returns against iterations, the reference's dashed and beneath the runs'.
func curvesFigure(title string, runs, reference []curve) chart.Figure {
	panel := chart.Panel{Title: title, X: "iteration", Y: "mean episode return"}
	for _, r := range reported {
		for _, c := range reference {
			if c.estimator == r.estimator {
				panel.Series = append(panel.Series, c.series(r.estimator+" (authors' runs)", r.color, true))
			}
		}
		for _, c := range runs {
			if c.estimator == r.estimator {
				panel.Series = append(panel.Series, c.series(r.estimator, r.color, false))
			}
		}
	}
	return chart.Figure{{panel}}
}

func (c curve) series(name string, color int, dashed bool) chart.Series {
	s := chart.Series{Name: name, Y: stats.RunningMean(c.returns, 10), Color: color, Dashed: dashed}
	for i := range s.Y {
		s.X = append(s.X, float64(i))
	}
	return s
}
