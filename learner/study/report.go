package study

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/internal/chart"
	"github.com/dbqpg/dbqpg/internal/stats"
)

// reportOptions are the flags of `learner report`.
type reportOptions struct {
	references []string
	axis       string
	last       int
	out        string
}

// The axes of a report's figure, by their names on the command line.
const (
	byIterations = "iterations"
	byStepCount  = "steps"
)

// ReportCommand returns `learner report`.
func ReportCommand() *cobra.Command {
	o := new(reportOptions)
	cmd := &cobra.Command{
		Use:   "report RUN...",
		Short: "Compare runs in a table of final returns and a plot",
		Long: `Reads the progress.csv of each run directory, prints a Markdown table of the mean return
over the last iterations and over all, and draws the learning curves to OUT.svg and OUT.png. Runs
that differ in nothing but the seed are one group, named by what it differs in from the others.
Of a run that workers trained, its latest epoch is read.

A reference is any CSV file with columns that name a curve (task or env; label, or algorithm and
estimator; seed), a column return, return_mean or avg_return, and for --axis steps a column steps;
a row is an iteration. NAME=FILE gives it another name than its file's. The first row counts as
iteration 0, the untrained policy, even in tables that start at 1.`,
		Example: "  learner report --out plot runs/Swimmer-v2/npg-*\n" +
			"  learner report --axis steps --reference baselines=ppo.csv --out plot runs/Swimmer-v5/trpo-uapg-s*",
		Args: func(_ *cobra.Command, dirs []string) error {
			if len(dirs) == 0 {
				return errors.New("report: name the run directories to compare, such as runs/Swimmer-v2/npg-*")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, dirs []string) error {
			if err := o.run(cmd, dirs); err != nil {
				return fmt.Errorf("report: %w", err)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&o.references, "reference", nil, "CSV file of other curves, FILE or NAME=FILE; may be repeated")
	flags.StringVar(&o.axis, "axis", byIterations, "the figure's axis: iterations, or environment steps (steps)")
	flags.StringVar(&o.out, "out", "", "base name OUT of the plots OUT.svg and OUT.png")
	flags.IntVar(&o.last, "last", 50, "number of last iterations to average over")
	return cmd
}

func (o *reportOptions) run(cmd *cobra.Command, dirs []string) error {
	if o.axis != byIterations && o.axis != byStepCount {
		return fmt.Errorf("--axis %s: want %s or %s", o.axis, byIterations, byStepCount)
	}
	if o.last < 1 {
		return fmt.Errorf("--last %d: at least one iteration is needed", o.last)
	}
	r, err := readRuns(dirs)
	if err != nil {
		return err
	}
	r.last = o.last
	references := &results{last: o.last}
	for _, reference := range o.references {
		if err := references.readReference(reference, r); err != nil {
			return fmt.Errorf("--reference: %w", err)
		}
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "| task | runs | iterations | mean return of the last %d (seed) | interquartile mean | over all iterations |\n|---|---|---|---|---|---|\n", o.last)
	for _, part := range []*results{r, references} {
		for _, g := range part.groups {
			fmt.Fprintf(out, "| %s | %s | %d | %s | %s | %s |\n", g.env, g.variant.name, len(g.returns[0]), eachFinal(part, g),
				estimate(iqm(part.finals(g), resamples)), estimate(iqm(part.overalls(g), resamples)))
		}
	}
	if len(r.trained) > 1 {
		fmt.Fprintf(out, "\n%s\n", wrap(r.provenance()+".", ""))
	}
	if o.out == "" {
		return nil
	}
	figure, err := o.figure(r, references)
	if err != nil {
		return err
	}
	return figure.Save(o.out)
}

// eachFinal lists the final returns of a group's runs.
func eachFinal(r *results, g *group) string {
	var all []string
	for i, final := range r.finals(g) {
		all = append(all, fmt.Sprintf("%s (%d)", figures(final), g.seeds[i]))
	}
	return strings.Join(all, ", ")
}

// figure draws a panel for each task, the references' curves dashed.
func (o *reportOptions) figure(r, references *results) (chart.Figure, error) {
	var figure chart.Figure
	var names []string
	for _, s := range r.settings() {
		panel := chart.Panel{Title: s.env, X: map[string]string{byIterations: "iteration", byStepCount: "environment steps"}[o.axis], Y: "mean return"}
		for _, part := range []*results{references, r} {
			for _, g := range part.of(s) {
				name := fmt.Sprintf("%s (%s)", g.variant.name, plural(len(g.seeds), "seed"))
				if !slices.Contains(names, g.variant.name) {
					names = append(names, g.variant.name)
				}
				color := g.variant.color
				if color < 0 {
					color = slices.Index(names, g.variant.name) + len(compared)
				}
				lines, err := g.over(o.axis, name, color)
				if err != nil {
					return nil, err
				}
				for i := range lines {
					lines[i].Dashed = part == references && !lines[i].Thin
				}
				panel.Series = append(panel.Series, lines...)
			}
		}
		figure = append(figure, []chart.Panel{panel})
	}
	return figure, nil
}

// over returns a group's lines over iterations or environment steps.
func (g *group) over(axis, name string, color int) ([]chart.Series, error) {
	g.cut(math.MaxInt)
	if axis == byIterations {
		return g.byIteration(name, color), nil
	}
	x := g.meanSteps()
	if stats.Mean(x) != stats.Mean(x) {
		return nil, fmt.Errorf("%s, %s: there is no column steps, which --axis steps needs", g.env, g.variant.name)
	}
	return g.lines(name, color, x), nil
}
