package study

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dbqpg/dbqpg/internal/chart"
	"github.com/dbqpg/dbqpg/internal/stats"
)

// report writes the tables, the figure and the page.
func (c comparison) report(j *job, r *results) error {
	width := max(1, min(10, r.iterations/20))
	p := j.newPage(c.title)
	p.paragraph("%s", c.question)
	p.addRuns(r)
	p.addFinals(r)
	p.draw(c.name, c.title, p.addCurves(r, width))
	p.paragraph("Interquartile means over the runs of the mean return of a batch's episodes, as %s; the bands, of %d runs or more, are 95%% stratified bootstrap "+
		"intervals (Agarwal et al. 2021).", runningMean(width), enough)
	c.tables(p, r)
	c.findings(p, r)
	return j.save(p, how(r))
}

func runningMean(width int) string {
	if width == 1 {
		return "they are"
	}
	return fmt.Sprintf("running means over %d iterations", width)
}

// tables writes the final returns, by task and algorithm.
func (c comparison) tables(p *page, r *results) {
	p.heading("Returns")
	p.paragraph("Final: the mean over the last %s of %d. Interquartile means over the runs, of %d runs or more with 95%% intervals. "+
		"The update's time is the median over all iterations: compare it only where nothing else used the machine.", plural(r.last, "iteration"), r.iterations, enough)
	var rows [][]string
	for _, g := range r.groups {
		var each []string
		for i, final := range r.finals(g) {
			each = append(each, fmt.Sprintf("%s (%d)", figures(final), g.seeds[i]))
		}
		rows = append(rows, []string{g.env + ", " + g.algorithm, g.variant.name,
			estimate(iqm(r.finals(g), resamples)), estimate(iqm(r.overalls(g), resamples)), strings.Join(each, ", "),
			fmt.Sprintf("%.2f s", stats.Quantile(g.updating, 0.5))})
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
			s := setting{env, g.algorithm}
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
			rows = append(rows, []string{f.setting.env + ", " + f.setting.algorithm, f.first.variant.name + " − " + f.second.variant.name,
				signed(f.final), signed(f.overall), f.outcome.String()})
		}
		if len(rows) > 0 {
			p.table([]string{"task, algorithm", "difference", "in final return", "over all iterations", "the claim"}, rows)
		}
	}
	p.paragraph("Differences of interquartile means, of %d runs or more with 95%% bootstrap intervals. \"Scatter\" means that the interval of the final "+
		"return's difference holds 0. Two variants are alike if it holds no difference of %.0f %% of the second's return.", enough, 100*margin)
}

// how tells of seeds and sizes.
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
	return fmt.Sprintf("Seeds %s; %s each, and %s environment steps on average. Settings are in each run's `config.yaml`, under `runs/`; "+
		"`returns.csv` has every point of every run, `curves.csv` those of the figure, `finals.csv` the table's.",
		strings.Join(seeds, ", "), plural(r.iterations, "iteration"), figures(stats.Mean(steps)))
}

// addRuns adds a table of every point of every run.
func (p *page) addRuns(r *results) {
	t := p.csv("returns.csv", "task", "algorithm", "variant", "seed", "iteration", "steps", "return_mean")
	for _, g := range r.groups {
		for i, seed := range g.seeds {
			for k, value := range g.returns[i] {
				t.add(g.env, g.algorithm, g.variant.directory, seed, k, g.steps[i][k], value)
			}
		}
	}
}

func (p *page) addFinals(r *results) {
	t := p.csv("finals.csv", "task", "algorithm", "variant", "runs", "final", "final_low", "final_high", "overall", "overall_low", "overall_high", "update_seconds")
	for _, g := range r.groups {
		t.add(g.env, g.algorithm, g.variant.directory, len(g.seeds), iqm(r.finals(g), resamples), iqm(r.overalls(g), resamples), stats.Quantile(g.updating, 0.5))
	}
}

// addCurves adds a table of the learning curves and draws them: a row of panels for each task, a column for each
// algorithm.
func (p *page) addCurves(r *results, width int) chart.Figure {
	t := p.csv("curves.csv", "task", "algorithm", "variant", "iteration", "return", "return_low", "return_high")
	var figure chart.Figure
	for i, s := range r.settings() {
		panel := chart.Panel{Title: s.env + ", " + s.algorithm, X: "iteration", Y: "mean return"}
		for _, g := range r.of(s) {
			line := chart.Series{Name: g.variant.name, Color: g.variant.color}
			for k, mean := range g.band(width) {
				t.add(g.env, g.algorithm, g.variant.directory, k, mean)
				point(&line, float64(k), mean)
			}
			if len(g.seeds) < enough {
				line.Low, line.High = nil, nil
			}
			panel.Series = append(panel.Series, line)
		}
		if i == 0 || r.settings()[i-1].env != s.env {
			figure = append(figure, nil)
		}
		figure[len(figure)-1] = append(figure[len(figure)-1], panel)
	}
	return figure
}
