package study

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/internal/chart"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/stats"
	"github.com/dbqpg/dbqpg/learner/runs"
)

const calibrationQuestion = `Does the posterior mean what it says? Of the targets of episodes that the process has not seen, 50 and 90 % should lie
within its intervals of these levels, and they should be more likely than under a Gaussian with the mean and variance of
the other episodes' targets.`

func calibrationCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "calibration --out DIR [RUN...]",
		Short: "Compare the posterior's intervals with held-out targets over training",
		Long: calibrationQuestion + `

Copies the figures of the complete runs that are named, trained with --kernel-learning converge, into
DIR/data, and writes the page from there; without a name it rewrites the page alone. It trains nothing.`,
		Example: "  learner study calibration --out docs/results/calibration runs/Hopper-v4/trpo-uapg-s1",
	}
	prepare(cmd, runCalibration, nil)
	cmd.Args = cobra.ArbitraryArgs
	return cmd
}

// calibrationColumns are those of a run's progress.csv that the page needs, normalColumns those that earlier programs did not write,
// and criticColumns those that it has of a run whose value function learns lambda-returns: then the targets are its errors.
var (
	calibrationColumns = []string{"steps", "coverage_50", "coverage_90", "held_out_log_likelihood", "gaussian_log_likelihood"}
	normalColumns      = []string{"normal_coverage_50", "normal_coverage_90"}
	criticColumns      = []string{"target_std", "explained_variance"}
)

func runCalibration(cmd *cobra.Command) error {
	j, err := newJobOfRuns(cmd, (*job).publishCalibration)
	if err != nil {
		return err
	}
	calibrations, made, err := j.readCalibrations()
	if err != nil {
		return err
	}
	return j.calibrationPage(calibrations, made)
}

// criticDigits tell an explained variance of 0.9999 from 1.
const criticDigits = 7

func (j *job) publishCalibration(s *config.Settings) error {
	if s.KernelLearning != config.Converge || s.Estimator == config.MonteCarlo {
		return fmt.Errorf("%s: its process predicts no held-out episodes: train with --kernel-learning converge --estimator uapg", s.RunDir)
	}
	header, err := readHeader(runs.ProgressFile(s.RunDir))
	if err != nil {
		return err
	}
	names := calibrationColumns
	if slices.Contains(header, normalColumns[0]) {
		names = slices.Concat(names, normalColumns)
	}
	if s.Targets == config.GAE && s.ValueLearning == config.Converge {
		names = slices.Concat(names, criticColumns)
	}
	columns, err := readColumns(runs.ProgressFile(s.RunDir), names...)
	if err != nil {
		return err
	}
	lines := [][]string{append([]string{"iteration"}, names...)}
	for i, steps := range columns[0] {
		line := []string{strconv.Itoa(i), fmt.Sprintf("%.0f", steps)}
		for k, column := range columns[1:] {
			digits := otherDigits
			if slices.Contains(criticColumns, names[k+1]) {
				digits = criticDigits
			}
			line = append(line, short(column[i], digits))
		}
		lines = append(lines, line)
	}
	return j.publishData(s, lines)
}

// calibration is a run of the page, an entry an iteration.
type calibration struct {
	task, name    string
	steps         []float64
	covered       [2][]float64 // by the intervals of 50 and of 90 %
	normal        [2][]float64 // by those of the process's own normal distributions; nil: not recorded
	aboveGaussian []float64    // log likelihood, in nats a sample
	unexplained   []float64    // variance of the targets, which are the value function's errors; nil: they are not
	total         []float64    // variance of the lambda-returns
}

// readCalibrations reads all of data/, and what trained the runs.
func (j *job) readCalibrations() (all []calibration, made []string, err error) {
	paths, err := filepath.Glob(j.path("data", "*", "*.csv"))
	if err != nil {
		return nil, nil, err
	}
	if len(paths) == 0 {
		return nil, nil, fmt.Errorf("--out %s: there are no data in data/TASK/*.csv, and no runs to take them from", j.out)
	}
	for _, path := range paths {
		header, err := readHeader(path)
		if err != nil {
			return nil, nil, err
		}
		names := calibrationColumns
		for _, further := range [][]string{normalColumns, criticColumns} {
			if slices.Contains(header, further[0]) {
				names = slices.Concat(names, further)
			}
		}
		columns, err := readColumns(path, names...)
		if err != nil {
			return nil, nil, err
		}
		if len(columns[0]) <= settled {
			return nil, nil, fmt.Errorf("%s: what is judged begins with iteration %d, and it has %d", path, settled, len(columns[0]))
		}
		all = append(all, newCalibration(path, func(name string) []float64 {
			if i := slices.Index(names, name); i >= 0 {
				return columns[i]
			}
			return nil
		}))
		program, err := madeBy(strings.TrimSuffix(path, ".csv") + ".yaml")
		if err != nil {
			return nil, nil, err
		}
		if !slices.Contains(made, program) {
			made = append(made, program)
		}
	}
	return all, made, nil
}

// newCalibration returns the run of a table with these columns.
func newCalibration(path string, column func(name string) []float64) calibration {
	c := calibration{task: filepath.Base(filepath.Dir(path)), name: strings.TrimSuffix(filepath.Base(path), ".csv"), steps: column("steps")}
	c.covered = [2][]float64{column("coverage_50"), column("coverage_90")}
	c.normal = [2][]float64{column("normal_coverage_50"), column("normal_coverage_90")}
	c.aboveGaussian = floats.SubTo(make([]float64, len(c.steps)), column("held_out_log_likelihood"), column("gaussian_log_likelihood"))
	explained := column("explained_variance")
	for i, deviation := range column("target_std") {
		unexplained := deviation * deviation
		if total := unexplained / (1 - explained[i]); !math.IsNaN(total) && !math.IsInf(total, 0) { // lambda-returns that vary
			c.unexplained, c.total = append(c.unexplained, unexplained), append(c.total, total)
		}
	}
	return c
}

const (
	settled   = 20   // the iteration from which on calibration is judged
	windows   = 20   // of a run, whose means are drawn
	tolerance = 0.05 // of a mean coverage
)

// levels are the intervals' probabilities.
var levels = [2]float64{0.5, 0.9}

// calibrationPage writes the page.
func (j *job) calibrationPage(all []calibration, made []string) error {
	p := j.newPage("Calibration of the process")
	p.paragraph("%s", calibrationQuestion)
	var panels []chart.Panel
	for _, c := range all {
		panels = append(panels, c.panel())
	}
	p.draw("calibration", "Coverage of held-out targets over training", grid(panels))
	p.paragraph("Fractions of held-out targets within the intervals, means over twentieths of each run; dashed, the levels.")

	var rows [][]string
	var within, normal, recorded, above int
	for _, c := range all {
		row := []string{c.task, c.name, fmt.Sprintf("%d to %d", settled, len(c.steps)-1)}
		good, texts := c.judge(c.covered)
		row = append(row, texts...)
		if good {
			within++
		}
		good, texts = c.judge(c.normal)
		row = append(row, texts...)
		if good {
			normal++
		}
		if c.normal[0] != nil {
			recorded++
		}
		mean, low, high := c.summary(c.aboveGaussian)
		row = append(row, fmt.Sprintf("%.2f (%.2f to %.2f)", mean, low, high))
		rows = append(rows, row)
		if mean > 0 {
			above++
		}
	}
	p.heading("Coverage and likelihood")
	p.paragraph("**Both means are within 5 points of their levels in %d of %d runs, those of the process's own normal distributions in %d of the %d in which they were "+
		"recorded, and the process is above the Gaussian in the mean of %d.**", within, len(all), normal, recorded, above)
	p.table([]string{"task", "run", "iterations", "in 50 % intervals", "in 90 % intervals", "in normal 50 % intervals", "in normal 90 % intervals",
		"log likelihood above the Gaussian's, nats a sample"}, rows)
	p.paragraph("Means over the iterations; in brackets the lowest and the highest of their tenths. The intervals are those of Student's t distribution about what the process " +
		"predicts, with the degrees of freedom and the scale, in predicted standard deviations, of the other folds' errors, so that they say whether the spread of " +
		"some episodes is that of others, and cannot show a predicted variance that is wrong by a factor. The normal intervals, which take the predicted variance as it is, " +
		"and the log likelihood can. The process's four hyperparameters are fitted to the predictions that are judged, and the Gaussian has none that are.")
	explanation(p, all)
	return j.save(p, "Runs of `--kernel-learning converge` ([kernel learning](../../kernel-learning.md)), copied into `data/` from their progress.csv "+
		"([columns](../../metrics.md)). The process predicts each fifth of a batch's episodes from the others, or each of fewer episodes: of HalfCheetah, "+
		"Swimmer and HumanoidStandup a batch of 2,000 steps has two.", strings.Join(made, ". "))
}

// explanation writes what the value functions explain: of each run, and of all runs that differ in the seed alone.
func explanation(p *page, all []calibration) {
	const parts = 5 // of a run
	pooled := func(unexplained, total []float64) string {
		return fmt.Sprintf("%.2f", 1-floats.Sum(unexplained)/floats.Sum(total))
	}
	var rows [][]string
	for _, runs := range byVariant(all) {
		var of calibration // all of them
		for _, c := range runs {
			var together, single []string
			totals := inParts(c.total, parts)
			for k, unexplained := range inParts(c.unexplained, parts) {
				together = append(together, pooled(unexplained, totals[k]))
				each := floats.DivTo(make([]float64, len(unexplained)), unexplained, totals[k])
				single = append(single, fmt.Sprintf("%.2f", 1-middle(each)))
			}
			rows = append(rows, []string{c.task, c.name, pooled(c.unexplained, c.total), strings.Join(together, ", "), strings.Join(single, ", ")})
			of.unexplained, of.total = append(of.unexplained, c.unexplained...), append(of.total, c.total...)
		}
		if len(runs) > 1 {
			rows = append(rows, []string{runs[0].task, fmt.Sprintf("%s, %d runs", runs[0].variant(), len(runs)), pooled(of.unexplained, of.total), "", ""})
		}
	}
	if len(rows) == 0 {
		return
	}
	p.heading("What the value function explains")
	p.paragraph("The targets are what a value function leaves of the variance of lambda-returns, of batches that it has not learned from.")
	p.table([]string{"task", "run", "explained", "by fifths of the run", "median of single batches"}, rows)
	p.paragraph("1 - (sum of the variances of the targets) / (sum of the variances of the lambda-returns), sums over the batches, of several runs over " +
		"all of theirs. A batch of steady episodes has little to explain, and a single batch's fraction says as little.")
}

// byVariant groups the runs, which are in the order of their names, that say what the value function explains.
func byVariant(all []calibration) (groups [][]calibration) {
	for _, c := range all {
		if c.total == nil {
			continue
		}
		if n := len(groups) - 1; n >= 0 && groups[n][0].task == c.task && groups[n][0].variant() == c.variant() {
			groups[n] = append(groups[n], c)
		} else {
			groups = append(groups, []calibration{c})
		}
	}
	return groups
}

// variant is the run's name without its seed, which is what its table's name ends with.
func (c calibration) variant() string {
	return c.name[:max(0, strings.LastIndex(c.name, "-s"))]
}

// panel draws the coverage over a run.
func (c calibration) panel() chart.Panel {
	panel := chart.Panel{Title: c.task, X: "environment steps", Y: "within"}
	last := c.steps[len(c.steps)-1]
	for i, level := range levels {
		name := fmt.Sprintf("%.0f %% intervals", 100*level)
		line := chart.Series{Name: name, Color: i}
		steps, covered := inParts(c.steps, windows), inParts(c.covered[i], windows)
		for k := range steps {
			line.X, line.Y = append(line.X, stats.Mean(steps[k])), append(line.Y, knownMean(covered[k]))
		}
		panel.Series = append(panel.Series, line, chart.Series{Name: "their level", Dashed: true, Color: chart.Gray, X: []float64{0, last}, Y: []float64{level, level}})
	}
	return panel
}

// judge reports whether the means of both levels are within the tolerance, and describes them.
func (c calibration) judge(covered [2][]float64) (good bool, texts []string) {
	if covered[0] == nil {
		return false, []string{"not recorded", "not recorded"}
	}
	good = true
	for i, level := range levels {
		mean, low, high := c.summary(covered[i])
		texts = append(texts, fmt.Sprintf("%.0f %% (%.0f to %.0f)", 100*mean, 100*low, 100*high))
		good = good && mean >= level-tolerance && mean <= level+tolerance
	}
	return good, texts
}

// summary returns the mean over the iterations that are judged and known, and the lowest and highest of the means of their tenths. Of a batch of a
// single episode nothing is known.
func (c calibration) summary(x []float64) (mean, low, high float64) {
	x = known(x[settled:])
	var means []float64
	for _, part := range inParts(x, 10) {
		means = append(means, stats.Mean(part))
	}
	if len(means) == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	return stats.Mean(x), slices.Min(means), slices.Max(means)
}

// inParts cuts values into n parts whose lengths differ by one at most, or as many as there are values.
func inParts(x []float64, n int) (parts [][]float64) {
	n = min(n, len(x))
	for k := range n {
		parts = append(parts, x[k*len(x)/n:(k+1)*len(x)/n])
	}
	return parts
}
