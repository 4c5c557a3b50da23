package study

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dbqpg/dbqpg/internal/chart"
	"github.com/dbqpg/dbqpg/internal/stats"
)

// reportQuality writes the page from what is published.
func reportQuality(j *job) error {
	all, err := j.qualities()
	if err != nil {
		return err
	}
	p := j.newPage("Quality of the gradients")
	p.paragraph("%s", qualityQuestion)
	var cells [][]cell // by policy
	for _, q := range all {
		var of []cell
		for _, size := range q.sizes {
			of = append(of, q.cells(size)...)
		}
		cells = append(cells, of)
	}
	p.draw("accuracy", "Accuracy of the gradients", qualityFigure(all, cells, "cosine", false, func(c cell) stats.Estimate { return c.accuracy }))
	p.draw("variance", "Variance of the gradients", qualityFigure(all, cells, "normalised variance", true, func(c cell) stats.Estimate { return c.variance }))
	p.addCells(all, cells)
	p.policies(all)
	p.accuracies(all, cells)
	p.qualityFindings(all)
	p.heading("What was measured")
	for _, text := range strings.Split(qualityMethod, "\n\n") {
		p.paragraph("%s", text)
	}
	var made, measured []string
	for _, q := range all {
		made, measured = append(made, programs(q.Builds)), append(measured, q.MeasuredBy.Program+". "+q.MeasuredBy.Machine)
	}
	return j.save(p, "Each policy's gradients are in `data/`, with the run's settings; `quality.csv` has every contender's accuracy, variance and gain at "+
		"each size, `contrasts.csv` all differences below. All episodes are other ones than those trained on.",
		fmt.Sprintf("Trained by %s. Measured by %s", strings.Join(slices.Compact(made), "; "), strings.Join(slices.Compact(measured), "; ")))
}

// drawn are the contenders in figures and in the table.
var drawn = []struct {
	name  string
	color int
	estimation
}{
	{"MC", chart.Gray, estimation{rawReturns, "mc", ""}},
	{"DBQPG, learned", 0, estimation{rawReturns, "dbqpg", learned}},
	{"MC, less V", 6, estimation{lessValues, "mc", ""}},
	{"DBQPG, less V, nominal", 3, estimation{lessValues, "dbqpg", nominal}},
	{"DBQPG, less V, learned", 2, estimation{lessValues, "dbqpg", learned}},
	{"UAPG, less V, learned", 1, estimation{lessValues, "uapg", learned}},
}

// qualityFigure has a row of panels for each task, a column for each of its policies.
func qualityFigure(all []*quality, cells [][]cell, y string, log bool, what func(cell) stats.Estimate) (figure chart.Figure) {
	for k, q := range all {
		if k == 0 || all[k-1].task() != q.task() {
			figure = append(figure, nil)
		}
		panel := chart.Panel{Title: fmt.Sprintf("%s, iteration %d", q.task(), q.Iteration), X: "samples", Y: y, LogY: log}
		for _, d := range drawn {
			s := chart.Series{Name: d.name, Color: d.color, Marks: true}
			for _, c := range cells[k] {
				if c.estimation == d.estimation {
					s.X, s.Y = append(s.X, q.samples[c.size]), append(s.Y, what(c).Value)
				}
			}
			panel.Series = append(panel.Series, s)
		}
		last := len(figure) - 1
		figure[last] = append(figure[last], panel)
	}
	return figure
}

func (p *page) addCells(all []*quality, cells [][]cell) {
	t := p.csv("quality.csv", "task", "iteration", "size", "samples", "targets", "estimator", "posterior", "cosine", "cosine_low", "cosine_high",
		"variance", "variance_low", "variance_high", "signal", "mean_norm", "trace", "gain", "gain_low", "gain_high")
	for k, q := range all {
		for _, c := range cells[k] {
			rounded := []any{q.task(), q.Iteration, c.size}
			for _, x := range []any{q.samples[c.size], c.targets, c.estimator, c.posterior, c.accuracy, c.variance, c.signal, c.norm, c.trace, c.gain} {
				rounded = append(rounded, roundedTo(x)...)
			}
			t.add(rounded...)
		}
	}
}

// roundedTo returns numbers with the digits of published ones, and anything else as it is.
func roundedTo(x any) []any {
	switch x := x.(type) {
	case float64:
		return []any{short(x, qualityDigits)}
	case stats.Estimate:
		return []any{short(x.Value, qualityDigits), short(x.Low, qualityDigits), short(x.High, qualityDigits)}
	}
	return []any{x}
}

// policies tells of the policies and of their references.
func (p *page) policies(all []*quality) {
	p.heading("The policies")
	var rows [][]string
	for _, q := range all {
		rows = append(rows, []string{q.task(), fmt.Sprint(q.Iteration), fmt.Sprint(q.Steps), figures(q.Return), fmt.Sprintf("%.0f", q.Reference),
			figures(q.Halves), figures(truth(q.Halves)), figures(q.NaturalHalves)})
	}
	p.table([]string{"task", "iteration", "steps trained", "return", "reference, samples", "halves", "truth", "halves, natural"}, rows)
	s := all[0].Settings
	p.paragraph("Runs of %s with %s, batches of %s, seed %s. \"Halves\" is the cosine c between the gradients of the reference's two halves, \"truth\" what follows from it "+
		"for the cosine between the whole and the true gradient, (2c/(1+c))^1/2, which no contender's cosine exceeds but by chance; the last column is the halves' "+
		"natural gradients' cosine, in the Fisher matrix's geometry. At iteration 0 the critic has learned nothing: V is that of a network with its first, random parameters.",
		s["algorithm"], s["estimator"], s["batch"], s["seed"])
}

// accuracies writes accuracy and variance, a table for each task.
func (p *page) accuracies(all []*quality, cells [][]cell) {
	p.heading("Accuracy and variance")
	repeats := len(all[0].batches[estimations()[0]][all[0].sizes[0]])
	p.paragraph("Mean cosine to the reference / normalised variance, of %d batches of each size; with intervals, and for the other contenders, in quality.csv. "+
		"The normalised variance of R repeats cannot come out much above R, because the mean of R gradients is at least as long as its own noise; "+
		"`signal` in quality.csv has an unbiased squared norm in its place.", repeats)
	header := []string{"iteration", "samples"}
	for _, d := range drawn {
		header = append(header, d.name)
	}
	var rows [][]string
	for k, q := range all {
		if k == 0 || all[k-1].task() != q.task() {
			rows = nil
		}
		for _, size := range q.sizes {
			row := []string{fmt.Sprint(q.Iteration), figures(q.samples[size])}
			for _, d := range drawn {
				i := slices.IndexFunc(cells[k], func(c cell) bool { return c.size == size && c.estimation == d.estimation })
				row = append(row, figures(cells[k][i].accuracy.Value)+" / "+figures(cells[k][i].variance.Value))
			}
			rows = append(rows, row)
		}
		if k == len(all)-1 || all[k+1].task() != q.task() {
			p.paragraph("%s:", q.task())
			p.table(header, rows)
		}
	}
}

// measure is a number of a contrast that a claim is about.
type measure struct {
	name  string
	of    func(contrast) stats.Estimate
	ratio bool // it is one, and smaller is better; or else a difference, and larger is better
	alike float64
}

// The bounds within which two compared are taken for alike.
const (
	alikeCosine = 0.05
	alikeFactor = 1.25
)

var (
	accuracyMeasure = measure{"cosine", func(c contrast) stats.Estimate { return c.cosine }, false, alikeCosine}
	varianceMeasure = measure{"variance", func(c contrast) stats.Estimate { return c.variance }, true, math.Log(alikeFactor)}
	spreadMeasure   = measure{"spread", func(c contrast) stats.Estimate { return c.cosineSpread }, true, math.Log(alikeFactor)}
	gainMeasure     = measure{"gain", func(c contrast) stats.Estimate { return c.gain }, false, alikeCosine}
	gainSpread      = measure{"spread of the gain", func(c contrast) stats.Estimate { return c.gainSpread }, true, math.Log(alikeFactor)}
)

// judge compares a contrast with the claim that the first is better, or that both are alike.
func (m measure) judge(r relation, c contrast) outcome {
	e := m.of(c)
	if m.ratio {
		e = stats.Estimate{Value: -math.Log(e.Value), Low: -math.Log(e.High), High: -math.Log(e.Low)}
	}
	return r.judge(e, m.alike)
}

func (m measure) text(c contrast) string {
	if m.ratio {
		return "x " + estimate(m.of(c))
	}
	return signed(m.of(c))
}

// pairing is two contenders that are compared.
type pairing struct {
	heading    string
	one, other estimation
}

// like pairs two estimators, or one with each posterior, wherever they are given the same.
func like(one, other string) (all []pairing) {
	for _, targets := range []string{rawReturns, lessValues} {
		for _, posterior := range []string{nominal, learned} {
			second := estimation{targets, other, posterior}
			if other == monteCarlo.directory {
				second.posterior = ""
			}
			all = append(all, pairing{targets + ", " + posterior, estimation{targets, one, posterior}, second})
		}
	}
	return all
}

// contrasts are the comparisons of a page: of pairs of estimations, at every policy.
type contrasts struct {
	p        *page
	policies []*quality
	data     *table
	written  map[[2]estimation]bool // pairs that have their rows in data
}

// paired are pairs of estimations and how they differ, by pair and policy.
type paired struct {
	*contrasts
	pairs []pairing
	found [][]contrast
}

func (c *contrasts) compare(pairs []pairing) paired {
	all := paired{contrasts: c, pairs: pairs}
	for _, pair := range pairs {
		both := [2]estimation{pair.one, pair.other}
		var each []contrast
		for _, q := range c.policies {
			found := q.compare(pair.one, pair.other)
			row := []any{q.task(), q.Iteration, pair.one, pair.other}
			for _, e := range []stats.Estimate{found.cosine, found.variance, found.cosineSpread, found.gain, found.gainSpread} {
				row = append(row, roundedTo(e)...)
			}
			if !c.written[both] {
				c.data.add(row...)
			}
			each = append(each, found)
		}
		c.written[both] = true
		all.found = append(all.found, each)
	}
	return all
}

// from returns the comparisons from the i-th pair on.
func (c paired) from(i int) paired {
	return paired{c.contrasts, c.pairs[i:], c.found[i:]}
}

// table writes a line for every policy, with a column for every pair and measure.
func (c paired) table(measures ...measure) {
	header := []string{"policy"}
	for _, pair := range c.pairs {
		for _, m := range measures {
			header = append(header, pair.heading+": "+m.name)
		}
	}
	var rows [][]string
	for k, q := range c.policies {
		row := []string{q.String()}
		for i := range c.pairs {
			for _, m := range measures {
				row = append(row, m.text(c.found[i][k]))
			}
		}
		rows = append(rows, row)
	}
	c.p.table(header, rows)
}

// verdicts writes a line for every claim, with a column for every pair: how many of the policies agree.
func (c paired) verdicts(claims ...qualityClaim) {
	header := []string{"claim"}
	for _, pair := range c.pairs {
		header = append(header, pair.heading)
	}
	var rows [][]string
	for _, claim := range claims {
		row := []string{claim.text}
		for i := range c.pairs {
			var outcomes []outcome
			for k, q := range c.policies {
				if claim.after == (q.Iteration > 0) || claim.always {
					outcomes = append(outcomes, claim.judge(claim.relation, c.found[i][k]))
				}
			}
			row = append(row, tallied(outcomes))
		}
		rows = append(rows, row)
	}
	c.p.table(header, rows)
}

// qualityFindings hold the paper's claims against the measurements, and add what it leaves open.
func (p *page) qualityFindings(all []*quality) {
	c := &contrasts{p: p, policies: all, written: map[[2]estimation]bool{}, data: p.csv("contrasts.csv",
		"task", "iteration", "one", "other", "cosine", "cosine_low", "cosine_high", "variance", "variance_low", "variance_high",
		"cosine_spread", "cosine_spread_low", "cosine_spread_high", "gain", "gain_low", "gain_high", "gain_spread", "gain_spread_low", "gain_spread_high")}
	p.heading(found)
	p.paragraph("Differences of the first's mean cosine less the second's, and the first's variance over the second's (geometric mean of ratios), over all sizes, from the same batches. "+
		"Intervals are 95%% ones over the repeats (bootstrap of differences, jackknife of ratios' logarithms), of %d repeats or more; they say nothing of other "+
		"policies than those measured. The tables of claims count policies: a claim agrees with one if the interval is on its side, leans that way if only the value is, "+
		"and disagrees if the interval is on the other. Alike are cosines within %v and variances within a factor of %v, with their intervals; those whose "+
		"intervals are wholly beyond disagree, and the rest is undecided.", enough, alikeCosine, alikeFactor)
	first := c.compare(like(bayesian.directory, monteCarlo.directory))
	p.paragraph("**DBQPG and Monte Carlo**, from the same targets: cosine − MC's, and variance / MC's.")
	first.table(accuracyMeasure)
	first.table(varianceMeasure)
	p.paragraph("What is left of the paper's claims: at the start of training DBQPG and Monte Carlo give gradients of nearly the same quality; once kernels are learned " +
		"(here, after iteration 0), DBQPG's are more accurate, and their variance is considerably lower (here, lower at all).")
	first.verdicts(
		qualityClaim{text: "at the start, alike: cosine", measure: accuracyMeasure, relation: alike},
		qualityClaim{text: "at the start, alike: variance", measure: varianceMeasure, relation: alike},
		qualityClaim{text: "later, more accurate", measure: accuracyMeasure, relation: above, after: true},
		qualityClaim{text: "later, of lower variance", measure: varianceMeasure, relation: above, after: true})
	p.trend(all)

	mc := estimation{rawReturns, monteCarlo.directory, ""}
	baseline := estimation{lessValues, monteCarlo.directory, ""}
	control := c.compare([]pairing{
		{"MC, less V − MC", baseline, mc},
		{"DBQPG, returns, nominal − MC, less V", estimation{rawReturns, bayesian.directory, nominal}, baseline},
		{"DBQPG, returns, learned − MC, less V", estimation{rawReturns, bayesian.directory, learned}, baseline},
		{"DBQPG, less V, learned − MC, less V", estimation{lessValues, bayesian.directory, learned}, baseline},
	})
	p.paragraph("**Is it a baseline's effect?** What the baseline does for Monte Carlo, and quadrature beside Monte Carlo with the baseline:")
	control.table(accuracyMeasure)
	control.table(varianceMeasure)
	control.verdicts(
		qualityClaim{text: "after iteration 0, the first is more accurate", measure: accuracyMeasure, relation: above, after: true},
		qualityClaim{text: "and of lower variance", measure: varianceMeasure, relation: above, after: true})

	posterior := c.compare([]pairing{
		{"DBQPG, returns", estimation{rawReturns, bayesian.directory, learned}, estimation{rawReturns, bayesian.directory, nominal}},
		{"DBQPG, less V", estimation{lessValues, bayesian.directory, learned}, estimation{lessValues, bayesian.directory, nominal}},
	})
	p.paragraph("**Does learning the posterior matter?** The learned less the nominal one:")
	posterior.table(accuracyMeasure, varianceMeasure)
	posterior.verdicts(
		qualityClaim{text: "the learned one is more accurate", measure: accuracyMeasure, relation: above, always: true},
		qualityClaim{text: "and of lower variance", measure: varianceMeasure, relation: above, always: true})

	steps := c.compare(like(aware.directory, bayesian.directory))
	p.paragraph("**UAPG and DBQPG at equal step length.** The paper: UAPG lowers the risk of large steps along uncertain directions, and so provides more reliable policy updates. " +
		"At equal norm, the expected improvement is in the ratio of the cosines: UAPG's mean cosine less DBQPG's, and the standard deviation over the repeats over DBQPG's.")
	steps.from(2).table(accuracyMeasure, spreadMeasure)
	p.paragraph("At equal divergence, steps along natural gradients: the mean gain less DBQPG's, and its standard deviation over DBQPG's.")
	steps.from(2).table(gainMeasure, gainSpread)
	steps.verdicts(
		qualityClaim{text: "equal norm: UAPG improves more", measure: accuracyMeasure, relation: above, always: true},
		qualityClaim{text: "equal norm: it scatters less", measure: spreadMeasure, relation: above, always: true},
		qualityClaim{text: "equal divergence: UAPG improves more", measure: gainMeasure, relation: above, always: true},
		qualityClaim{text: "equal divergence: it scatters less", measure: gainSpread, relation: above, always: true})
}

// qualityClaim is a claim about policies: those of iteration 0, or those after it, or all.
type qualityClaim struct {
	text string
	measure
	relation      relation
	after, always bool
}

// tallied counts outcomes.
func tallied(outcomes []outcome) string {
	var texts []string
	for _, kind := range []struct {
		outcome
		text string
	}{{agrees, "agrees"}, {leans, "leans that way"}, {undecided, "undecided"}, {contradicts, "disagrees"}, {unknown, "too few repeats"}} {
		n := 0
		for _, o := range outcomes {
			if o == kind.outcome {
				n++
			}
		}
		switch {
		case n > 0 && n == len(outcomes):
			return fmt.Sprintf("**%s** (%d)", kind.text, n)
		case n > 0:
			texts = append(texts, fmt.Sprintf("%s %d", kind.text, n))
		}
	}
	return strings.Join(texts, ", ")
}

// trend compares norms and variances at a task's first two iterations, from the largest batches.
func (p *page) trend(all []*quality) {
	p.paragraph("The paper: from iteration 0 to 150 the norms of both gradients drop by a factor of 3, while their variances, not normalised, grow fivefold. Here, from batches of the largest size, " +
		"less V, nominal; units are those of the returns, which grow as the policy learns:")
	var rows [][]string
	for k := 1; k < len(all); k++ {
		before, after := all[k-1], all[k]
		if before.task() != after.task() || before.Iteration != 0 {
			continue
		}
		row := []string{fmt.Sprintf("%s, 0 to %d", after.task(), after.Iteration)}
		for _, c := range []estimation{{lessValues, monteCarlo.directory, ""}, {lessValues, bayesian.directory, nominal}} {
			traceBefore, squareBefore := repeated(before.batches[c][slices.Max(before.sizes)]).moments(-1)
			traceAfter, squareAfter := repeated(after.batches[c][slices.Max(after.sizes)]).moments(-1)
			row = append(row, "x "+figures(math.Sqrt(squareAfter/squareBefore)), "x "+figures(traceAfter/traceBefore))
		}
		rows = append(rows, row)
	}
	if len(rows) > 0 {
		p.table([]string{"policies", "MC: norm", "MC: variance", "DBQPG: norm", "DBQPG: variance"}, rows)
		p.paragraph("One run a task shows no trend of others.")
	}
}
