package study

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dbqpg/dbqpg/internal/chart"
	"github.com/dbqpg/dbqpg/internal/stats"
)

// report writes the tables, the figure and the page.
func (c comparison) report(j *job, r *results) error {
	p := j.newPage(c.title)
	p.paragraph("%s", c.question)
	p.addFinals(r)
	p.draw(c.name, c.title, curves(r))
	p.paragraph("Interquartile means over the runs of the mean return of a batch's episodes, as running means over a hundredth of the iterations; "+
		"the bands, of %d runs or more, are 95%% stratified bootstrap intervals (Agarwal et al. 2021).", enough)
	c.tables(p, r)
	c.findings(p, r)
	return j.save(p, how(r), r.provenance())
}

// tables writes the final returns, by task and algorithm.
func (c comparison) tables(p *page, r *results) {
	p.heading("Returns")
	p.paragraph("%s Interquartile means over the runs, of %d runs or more with 95%% intervals. "+
		"The update's time is the median over all iterations: compare it only where nothing else used the machine.", r.lengths(), enough)
	var rows [][]string
	for _, g := range r.groups {
		var each []string
		for i, final := range r.finals(g) {
			each = append(each, fmt.Sprintf("%s (%d)", figures(final), g.seeds[i]))
		}
		rows = append(rows, []string{g.setting.String(), g.variant.name,
			estimate(iqm(r.finals(g), resamples)), estimate(iqm(r.overalls(g), resamples)), strings.Join(each, ", "),
			figures(median(g.updating)) + " s"})
	}
	p.table([]string{"task, algorithm", "variant", "final return", "over all iterations", "final return of each run (seed)", "update"}, rows)
	if scores := r.scores(); len(scores) > 0 {
		p.paragraph("Over the tasks, final returns scaled so that on each task 0 is the return of the first iteration and 1 that of the best variant:")
		p.table([]string{"algorithm", "variant", "score"}, scores)
	}
}

// scores returns the returns over several tasks on one scale: rows of algorithm, variant, and the interquartile mean of
// all runs on all tasks, resampled within each task.
func (r *results) scores() [][]string {
	scale := map[setting][2]float64{}
	var envs []string
	for _, s := range r.settings() {
		var firsts []float64
		best := 0.0
		for i, g := range r.of(s) {
			for _, curve := range g.returns {
				firsts = append(firsts, curve[0])
			}
			if final := stats.IQM(r.finals(g)); i == 0 || final > best {
				best = final
			}
		}
		scale[s] = [2]float64{stats.IQM(firsts), best}
		if !slices.Contains(envs, s.env) {
			envs = append(envs, s.env)
		}
	}
	if len(envs) < 2 {
		return nil
	}
	var rows [][]string
	for _, g := range r.groups {
		if g.env != envs[0] {
			continue
		}
		var strata [][]float64
		for _, env := range envs {
			s := setting{env, g.algorithm, g.preset}
			on, ends := r.find(s, g.variant.directory), scale[s]
			if on == nil {
				continue
			}
			var scores []float64
			for _, final := range r.finals(on) {
				scores = append(scores, (final-ends[0])/(ends[1]-ends[0]))
			}
			strata = append(strata, scores)
		}
		score := interval(strata, resamples, stats.Pooled(stats.IQM))
		rows = append(rows, []string{g.algorithm, g.variant.name, estimate(score)})
	}
	return rows
}

// findings hold the paper's claims against the runs.
func (c comparison) findings(p *page, r *results) {
	p.heading(found)
	for _, claim := range c.claims {
		findings := r.check(claim)
		p.paragraph("The paper: %s Here: %s", claim.paper, summary(claim, findings))
		var rows [][]string
		for _, f := range findings {
			rows = append(rows, []string{f.setting.String(), f.first.variant.name + " − " + f.second.variant.name,
				signed(f.final), signed(f.overall), f.outcome.String()})
		}
		if len(rows) > 0 {
			p.table([]string{"task, algorithm", "difference", "in final return", "over all iterations", "the claim"}, rows)
		}
	}
	p.paragraph("Differences of interquartile means, of %d runs or more with 95%% bootstrap intervals. \"Scatter\" means that the interval of the final "+
		"return's difference holds 0. Two variants are alike if it holds no difference of %.0f %% of the second's return.", enough, 100*margin)
}

// median returns that of the values that are known.
func median(values []float64) float64 {
	known := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	if len(known) == 0 {
		return math.NaN()
	}
	return stats.Quantile(known, 0.5)
}

// lengths says over how many iterations the runs of each setting are compared.
func (r *results) lengths() string {
	var all []count
	for _, s := range r.settings() {
		all = tally(all, fmt.Sprintf("the last %s of %d", plural(r.lastOf(s), "iteration"), r.iterations(s)))
	}
	if len(all) == 1 {
		return "Final: the mean over " + all[0].what + "."
	}
	var texts []string
	for _, s := range r.settings() {
		texts = append(texts, fmt.Sprintf("the last %d of %d (%v)", r.lastOf(s), r.iterations(s), s))
	}
	return "Final: the mean over the last iterations, " + strings.Join(texts, ", ") + "."
}

// how tells of seeds and sizes, and which runs are missing.
func how(r *results) string {
	var seeds []string
	var steps []float64 // of a run
	for _, g := range r.groups {
		for _, run := range g.steps {
			steps = append(steps, run[len(run)-1])
		}
		for _, seed := range g.seeds {
			if text := fmt.Sprint(seed); !slices.Contains(seeds, text) {
				seeds = append(seeds, text)
			}
		}
	}
	text := fmt.Sprintf("Seeds %s; %s environment steps a run on average. The runs and their settings are under `data/`; `finals.csv` has the table's numbers.",
		strings.Join(seeds, ", "), figures(stats.Mean(steps)))
	if len(r.missing) > 0 {
		text += fmt.Sprintf(" %d of %d runs are complete; the next is %s.", len(r.planned)-len(r.missing), len(r.planned), r.missing[0].name)
	}
	return text
}

// provenance says what trained the runs.
func (r *results) provenance() string {
	if len(r.trained) == 1 {
		return fmt.Sprintf("Trained by %s. %s", r.trained[0].what, strings.Join(r.on, "; "))
	}
	var texts []string
	for _, c := range r.trained {
		texts = append(texts, fmt.Sprintf("%s by %s", plural(c.n, "run"), c.what))
	}
	return fmt.Sprintf("**Trained by several programs**, whose runs may differ in more than the page says: %s. %s", strings.Join(texts, "; "), strings.Join(r.on, "; "))
}

func (p *page) addFinals(r *results) {
	t := p.csv("finals.csv", "task", "algorithm", "variant", "runs", "final", "final_low", "final_high", "overall", "overall_low", "overall_high", "update_seconds")
	for _, g := range r.groups {
		t.add(g.env, g.algorithm, g.variant.directory, len(g.seeds), iqm(r.finals(g), resamples), iqm(r.overalls(g), resamples), median(g.updating))
	}
}

// curves draws the learning curves: a row of panels for each task, a column for each algorithm and preset.
func curves(r *results) chart.Figure {
	var figure chart.Figure
	var last string // task
	for _, s := range r.settings() {
		panel := chart.Panel{Title: s.String(), X: "iteration", Y: "mean return"}
		for _, g := range r.of(s) {
			line := chart.Series{Name: g.variant.name, Color: g.variant.color}
			for k, mean := range g.band(max(1, r.iterations(s)/100)) {
				point(&line, float64(k), mean)
			}
			if len(g.seeds) < enough {
				line.Low, line.High = nil, nil
			}
			panel.Series = append(panel.Series, line)
		}
		if s.env != last {
			last, figure = s.env, append(figure, nil)
		}
		figure[len(figure)-1] = append(figure[len(figure)-1], panel)
	}
	return figure
}
