package study

import (
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/internal/chart"
	"github.com/dbqpg/dbqpg/internal/stats"
)

const qualityName = "gradient-quality"

// report writes the tables, the figure and the page.
func (o *qualityOptions) report(j *job, subjects []trial, all []*measurement) error {
	cells := o.summarize(all)
	s := subjects[0].settings
	p := j.newPage("Quality of the gradients")
	p.paragraph("%s", qualityQuestion)
	p.draw(qualityName, "Accuracy and variance of the gradients", o.figure(cells))
	o.addGradients(p, all)
	addCells(p, cells)
	p.paragraph("Bands: 95%% intervals over the repeats (bootstrap of the mean cosine, jackknife of the variance's logarithm), which say nothing of other "+
		"policies than those measured. "+
		"The normalised variance of R repeats cannot come out much above R, because the mean of R gradients is at least as long as its own noise: "+
		"here R = %d. `signal` in quality.csv has an unbiased squared norm in its place.", o.repeats)
	o.tables(p, all, cells)
	o.findings(p, all, cells)
	p.heading("What was measured")
	p.paragraph("%s", qualityMethod)
	if o.freeze {
		p.paragraph("Here: `--freeze`, the kernel as it is in the checkpoint.")
	}
	return j.save(p, fmt.Sprintf("%s, %s, %s; %s. The run: seed %s, %s, batches of %d. Sampling seed %d; all episodes are other ones than those trained on. "+
		"`gradients.csv` has every batch, `quality.csv` the figure's points; settings are in the run's `config.yaml`.",
		s.Env, s.Algorithm, s.Estimator, s.Targets, seedsOf(subjects), plural(int(s.Iterations), "iteration"), s.Batch, o.samplingSeed), here())
}

func seedsOf(subjects []trial) string {
	var all []string
	for _, s := range subjects {
		all = append(all, fmt.Sprint(s.settings.Seed))
	}
	return strings.Join(all, ", ")
}

// tables writes accuracy and variance, a row for each iteration and size.
func (o *qualityOptions) tables(p *page, all []*measurement, cells []cell) {
	p.heading("Accuracy and variance")
	header := []string{"iteration", "samples"}
	for _, e := range compared {
		header = append(header, e.name+": cosine", e.name+": variance")
	}
	var rows [][]string
	for i := 0; i < len(cells); i += len(compared) {
		row := []string{fmt.Sprint(cells[i].iteration), figures(cells[i].steps)}
		for _, c := range cells[i : i+len(compared)] {
			row = append(row, estimate(c.accuracy), estimate(c.variance))
		}
		rows = append(rows, row)
	}
	p.table(header, rows)
	p.paragraph("%d batches each. How good the references are: the cosine c between the gradients of their two halves; what follows from it "+
		"for the cosine between the whole and the true gradient, (2c/(1+c))^1/2, which no estimator's cosine exceeds but by chance; "+
		"and the share of their variance that the baseline took away:", o.repeats)
	p.WriteString("\n")
	for _, m := range all {
		p.item("%s, iteration %d: %s; %s (%.0f samples); the baseline took away %.1f%% of the variance",
			m.subject, m.iteration, figures(m.halves), figures(m.truth()), m.samples, 100*m.baseline)
	}
}

// The bounds within which two compared are taken for nearly the same.
const (
	nearlyCosine = 0.05
	nearlyFactor = 1.25
)

// findings hold the paper's claims against the measurements.
func (o *qualityOptions) findings(p *page, all []*measurement, cells []cell) {
	p.heading(found)
	p.paragraph("Differences between Bayesian and Monte-Carlo gradients from the same batches, over all sizes:")
	var rows [][]string
	contrasts := map[string][]contrast{}
	for _, at := range o.at {
		for _, e := range []variant{bayesian, aware} {
			c := o.compare(all, uint64(at), e)
			contrasts[e.name] = append(contrasts[e.name], c)
			rows = append(rows, []string{fmt.Sprint(at), e.name, signed(c.accuracy), estimate(c.variance)})
		}
	}
	p.table([]string{"iteration", "estimator", "cosine − MC's", "variance / MC's"}, rows)
	later := contrasts[bayesian.name]
	if o.at[0] == 0 {
		p.paragraph("The paper: at the start of training DBQPG and Monte Carlo give gradients of nearly the same quality. Here: %s", nearly(later[0]))
		later = later[1:]
	}
	if len(later) > 0 {
		p.paragraph("The paper: once kernels are learned, DBQPG's gradients are more accurate. Here: %s",
			judgeEach(later, func(c contrast) outcome { return o.judge(c.accuracy) }))
		p.paragraph("The paper: their variance is considerably lower. Here: %s",
			judgeEach(later, func(c contrast) outcome { return o.judge(logNegated(c.variance)) }))
	}
	if o.at[0] == 0 && len(o.at) > 1 {
		p.paragraph("The paper: from iteration 0 to 150 the norms of both gradients drop by a factor of 3, while their variances, not normalised, grow fivefold. Here, %s", o.trend(cells, len(all)/len(o.at)))
	}
}

// judge says whether a difference between the repeats' gradients is above 0.
func (o *qualityOptions) judge(difference stats.Estimate) outcome {
	if o.repeats < enough {
		return unknown
	}
	return above.judge(difference, 0)
}

// logNegated turns a ratio below 1 into a number above 0.
func logNegated(e stats.Estimate) stats.Estimate {
	return stats.Estimate{Value: 1 - e.Value, Low: 1 - e.High, High: 1 - e.Low}
}

// nearly judges the claim about the first iteration: it agrees if the intervals are within the bounds, and disagrees if
// one is beyond them.
func nearly(c contrast) string {
	text := "**undecided**, within the scatter of the repeats"
	switch {
	case -nearlyCosine < c.accuracy.Low && c.accuracy.High < nearlyCosine && 1/nearlyFactor < c.variance.Low && c.variance.High < nearlyFactor:
		text = verdict(true)
	case c.accuracy.Low >= nearlyCosine || c.accuracy.High <= -nearlyCosine || c.variance.Low >= nearlyFactor || c.variance.High <= 1/nearlyFactor:
		text = verdict(false)
	}
	return fmt.Sprintf("%s: the cosines differ by %s, the variances by a factor of %s (nearly means less than %v, and a factor of %v).",
		text, signed(c.accuracy), estimate(c.variance), nearlyCosine, nearlyFactor)
}

// judgeEach says at which iterations a claim holds.
func judgeEach(contrasts []contrast, judge func(contrast) outcome) string {
	var texts []string
	held := 0
	for _, c := range contrasts {
		result := judge(c)
		if result == agrees {
			held++
		}
		texts = append(texts, fmt.Sprintf("iteration %d %s", c.iteration, result))
	}
	verdict := "**agrees in part**"
	switch held {
	case len(contrasts):
		verdict = "**agrees**"
	case 0:
		verdict = "**not confirmed**"
	}
	return verdict + ": " + strings.Join(texts, "; ") + "."
}

// trend compares norms and variances at the first two iterations, from the largest batches.
func (o *qualityOptions) trend(cells []cell, runs int) string {
	at := func(iteration uint, e variant) cell {
		return cells[slices.IndexFunc(cells, func(c cell) bool {
			return c.iteration == uint64(iteration) && c.size == slices.Max(o.sizes) && c.estimator.directory == e.directory
		})]
	}
	var texts []string
	as := true
	for _, e := range []variant{monteCarlo, bayesian} {
		before, after := at(o.at[0], e), at(o.at[1], e)
		as = as && after.norm < before.norm && after.trace > before.trace
		texts = append(texts, fmt.Sprintf("%s's mean gradient is %s times as long, and its variance %s times as large", e.name,
			figures(after.norm/before.norm), figures(after.trace/before.trace)))
	}
	verdict := "**Disagrees**"
	switch {
	case runs < enough:
		verdict = fmt.Sprintf("What %s did shows no trend of others", plural(runs, "run"))
	case as:
		verdict = "**Agrees in direction**"
	}
	return fmt.Sprintf("at iteration %d, batches of %d: %s. %s.", o.at[1], slices.Max(o.sizes), strings.Join(texts, ", "), verdict)
}

// figure has a column of panels for each iteration: accuracy above, variance below.
func (o *qualityOptions) figure(cells []cell) chart.Figure {
	figure := make(chart.Figure, 2)
	for _, at := range o.at {
		accuracy := chart.Panel{Title: fmt.Sprintf("iteration %d", at), X: "samples", Y: "gradient accuracy (cosine)"}
		variance := chart.Panel{X: "samples", Y: "normalised variance", LogY: true}
		for _, e := range compared {
			a := chart.Series{Name: e.name, Color: e.color, Marks: true}
			v := a
			for _, c := range cells {
				if c.iteration == uint64(at) && c.estimator.directory == e.directory {
					point(&a, c.steps, c.accuracy)
					point(&v, c.steps, c.variance)
				}
			}
			accuracy.Series, variance.Series = append(accuracy.Series, a), append(variance.Series, v)
		}
		figure[0], figure[1] = append(figure[0], accuracy), append(figure[1], variance)
	}
	return figure
}

// addGradients adds a table with a row for each gradient of each batch.
func (o *qualityOptions) addGradients(p *page, all []*measurement) {
	t := p.csv("gradients.csv", "run", "iteration", "size", "repeat", "samples", "estimator", "cosine", "norm")
	for _, m := range all {
		for i, b := range m.batches {
			for _, e := range compared {
				g := b.gradients[e.directory]
				t.add(m.subject, m.iteration, b.size, i%o.repeats+1, b.steps, e.directory, cosine(g, m.reference), floats.Norm(g, 2))
			}
		}
	}
}

func addCells(p *page, cells []cell) {
	t := p.csv("quality.csv", "iteration", "size", "samples", "estimator", "cosine", "cosine_low", "cosine_high", "variance", "variance_low", "variance_high", "signal", "mean_norm", "trace")
	for _, c := range cells {
		t.add(c.iteration, c.size, c.steps, c.estimator.directory, c.accuracy, c.variance, c.signal, c.norm, c.trace)
	}
}
