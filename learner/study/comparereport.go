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
	for _, note := range r.notes {
		p.paragraph("**%s** %s", plural(note.n, "run")+":", note.what)
	}
	p.addFinals(r)
	p.draw(c.name, c.title, curves(r))
	p.paragraph("Interquartile means over the runs of the mean return of a batch's episodes, as running means over a hundredth of the iterations, above thin lines, the runs of which there are several. "+
		"The bands, of %d runs or more, are 95 %% stratified bootstrap intervals (Agarwal et al. 2021).", enough)
	if figure := gallery(r); figure != nil && c.name == "curves" {
		p.draw("gallery", "The tasks", figure)
	}
	if figure := bySteps(r); figure != nil {
		p.draw("steps", "By environment steps", figure)
		p.paragraph("The same by environment steps, up to those that all have reached on a task, and the values there:")
		p.table([]string{"task", "variant", "steps", "return"}, atTheEnd(figure))
	}
	c.tables(p, r)
	p.beside(r)
	p.overTasks(r)
	c.findings(p, r)
	return j.save(p, how(r), r.provenance())
}

// tables writes the final returns, by task and algorithm.
func (c comparison) tables(p *page, r *results) {
	p.heading("Returns")
	p.paragraph("%s Interquartile means over the runs, of %d runs or more with 95%% intervals. "+
		"The length of the policy's step, in all parameters, and the update's time are medians over all iterations: compare times only where nothing else "+
		"used the machine.", r.lengths(), enough)
	var rows [][]string
	for _, g := range r.groups {
		rows = append(rows, []string{g.String(), g.variant.name,
			estimate(iqm(r.finals(g), resamples)), estimate(iqm(r.overalls(g), resamples)), eachFinal(r, g),
			figures(middle(g.norms)), figures(middle(g.updating))})
	}
	p.table([]string{"task, algorithm", "variant", "final return", "over all iterations", "final return of each run (seed)", "step", "update, s"}, rows)
	p.confounded(r)
}

// beside writes the returns of the references, and of the runs that they are of the same task and algorithm as.
func (p *page) beside(r *results) {
	if r.references == nil {
		return
	}
	var rows [][]string
	for _, s := range r.references.settings() {
		for _, part := range []*results{r, r.references} {
			for _, g := range part.of(s) {
				if part == r && !slices.ContainsFunc(compared, func(v variant) bool { return v.name == g.variant.name }) {
					continue // a control, which the references have not
				}
				rows = append(rows, []string{s.String(), g.variant.name, eachFinal(part, g), estimate(iqm(part.finals(g), resamples)),
					estimate(iqm(part.overalls(g), resamples)), fmt.Sprint(len(g.returns[0]))})
			}
		}
	}
	p.heading("Beside other programs")
	p.paragraph("Dashed in the figures. Of theirs as many iterations as of ours, whatever the sizes of the batches.")
	p.table([]string{"task, algorithm", "runs", "final return of each run (seed)", "their interquartile mean", "over all iterations", "iterations"}, rows)
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
				signed(f.final), signed(f.overall), estimate(f.improvement), f.outcome.String()})
		}
		if len(rows) > 0 {
			p.table([]string{"task, algorithm", "difference", "in final return", "over all iterations", "probability", "the claim"}, rows)
		}
	}
	p.paragraph("Differences of interquartile means, and the probability that a run of the first is above one of the second at the end; of %d runs or more with "+
		"95 %% bootstrap intervals. \"Scatter\" means that the interval of the final return's difference holds 0. Two variants agree with a claim that they are "+
		"alike only if it holds no difference of %.0f %% of the second's return, and disagree only if it holds no smaller one.", enough, 100*margin)
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
	for _, c := range all {
		texts = append(texts, fmt.Sprintf("%s (%s of task and algorithm)", c.what, plural(c.n, "pair")))
	}
	return "Final: the mean over " + strings.Join(texts, ", ") + "."
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
	t := p.csv("finals.csv", "task", "algorithm", "variant", "runs", "final", "final_low", "final_high", "overall", "overall_low", "overall_high", "step_norm", "update_seconds")
	for _, g := range r.groups {
		t.add(g.env, g.algorithm, g.variant.directory, len(g.seeds), iqm(r.finals(g), resamples), iqm(r.overalls(g), resamples), middle(g.norms), middle(g.updating))
	}
}

// curves draws the learning curves: a row of panels for each task, a column for each algorithm and preset.
func curves(r *results) chart.Figure {
	var rows, columns []setting
	for _, s := range r.settings() {
		if row := (setting{env: s.env}); !slices.Contains(rows, row) {
			rows = append(rows, row)
		}
		if column := (setting{"", s.algorithm, s.preset}); !slices.Contains(columns, column) {
			columns = append(columns, column)
		}
	}
	figure := make(chart.Figure, len(rows))
	for i, row := range rows {
		for _, column := range columns {
			figure[i] = append(figure[i], r.panel(setting{row.env, column.algorithm, column.preset}))
		}
	}
	return figure
}

// gallery draws the tasks beside each other, with the first algorithm and preset: nil if there is only one.
func gallery(r *results) chart.Figure {
	var panels []chart.Panel
	first := r.groups[0].setting
	for _, s := range r.settings() {
		if s.algorithm == first.algorithm && s.preset == first.preset {
			panels = append(panels, r.panel(s))
		}
	}
	if len(panels) < 2 {
		return nil
	}
	return grid(panels)
}

// grid arranges panels in rows of four, each with a vertical range of its own.
func grid(panels []chart.Panel) (figure chart.Figure) {
	for row := range slices.Chunk(panels, 4) {
		for i := range row {
			row[i].Alone = true
		}
		figure = append(figure, row)
	}
	return figure
}

// panel draws the learning curves of a setting, by iterations.
func (r *results) panel(s setting) chart.Panel {
	panel := chart.Panel{X: "iteration", Y: "mean return"}
	var runs []int
	for _, g := range r.of(s) {
		runs = append(runs, len(g.seeds))
		panel.Series = append(panel.Series, g.byIteration(g.variant.name, g.variant.color)...)
	}
	if r.references != nil {
		panel.Series = append(panel.Series, r.references.dashed(s)...)
	}
	if len(runs) > 0 {
		panel.Title = fmt.Sprintf("%v, %s", s, seeds(runs))
	}
	return panel
}

// dashed draws the mean curves of a setting, those of references.
func (r *results) dashed(s setting) (all []chart.Series) {
	for _, g := range r.of(s) {
		lines := g.byIteration(g.variant.name, g.variant.color)
		mean := lines[len(lines)-1]
		mean.Dashed = true
		all = append(all, mean)
	}
	return all
}

// seeds says how many there are of each.
func seeds(runs []int) string {
	if least, most := slices.Min(runs), slices.Max(runs); least < most {
		return fmt.Sprintf("%d to %d seeds", least, most)
	}
	return plural(runs[0], "seed")
}

// mostPoints is the number of points of a line beyond which more cannot be seen.
const mostPoints = 250

// byIteration returns a group's learning curve over the iterations.
func (g *group) byIteration(name string, color int) []chart.Series {
	iterations := make([]float64, len(g.returns[0]))
	for k := range iterations {
		iterations[k] = float64(k)
	}
	return g.lines(name, color, iterations)
}

// lines returns a group's learning curve over x, which may be shorter, with its band, and above one a seed.
func (g *group) lines(name string, color int, x []float64) []chart.Series {
	length, stride := len(x), (len(x)+mostPoints-1)/mostPoints
	smooth := g.smooth(max(1, length/100))
	x = every(stride, x)
	var all []chart.Series
	for i := range smooth {
		smooth[i] = every(stride, smooth[i][:length])
		if len(smooth) > 1 {
			all = append(all, chart.Series{Name: name, Color: color, Thin: true, X: x, Y: smooth[i]})
		}
	}
	mean := chart.Series{Name: name, Color: color}
	for k, y := range band(smooth) {
		point(&mean, x[k], y)
	}
	if len(g.seeds) < enough {
		mean.Low, mean.High = nil, nil
	}
	return append(all, mean)
}

// every returns the first of some values, and then the last of each stride of them, counted from the end.
func every(stride int, values []float64) []float64 {
	var some []float64
	for i, v := range values {
		if i == 0 || (len(values)-1-i)%stride == 0 {
			some = append(some, v)
		}
	}
	return some
}

// bySteps draws the learning curves of each task by environment steps, with each preset's first algorithm: nil if there is
// only one preset.
func bySteps(r *results) chart.Figure {
	if r.groups[0].preset == "" {
		return nil
	}
	shown := map[string]string{} // algorithms by preset
	var tasks []string
	for _, s := range r.settings() {
		if shown[s.preset] == "" {
			shown[s.preset] = s.algorithm
		}
		if !slices.Contains(tasks, s.env) {
			tasks = append(tasks, s.env)
		}
	}
	var figure chart.Figure
	var colors []string // names by their colours
	for _, task := range tasks {
		panel := chart.Panel{Title: task, X: "environment steps", Y: "mean return"}
		var groups []*group
		most := math.Inf(1)
		for _, g := range r.groups {
			if g.env == task && g.algorithm == shown[g.preset] {
				groups = append(groups, g)
				steps := g.meanSteps()
				most = min(most, steps[len(steps)-1])
			}
		}
		for _, g := range groups {
			steps := slices.DeleteFunc(g.meanSteps(), func(steps float64) bool { return steps > most })
			name := strings.Join([]string{g.variant.name, g.algorithm, g.preset}, ", ")
			panel.Series = append(panel.Series, g.lines(name, colorOf(&colors, name, g.variant.color), steps)...)
		}
		figure = append(figure, []chart.Panel{panel})
	}
	return figure
}

// colorOf returns a name's colour: the preferred one, unless another name has it, or else the first that none has.
func colorOf(names *[]string, name string, preferred int) int {
	if i := slices.Index(*names, name); i >= 0 {
		return i
	}
	for len(*names) <= preferred {
		*names = append(*names, "")
	}
	if (*names)[preferred] != "" {
		if preferred = slices.Index(*names, ""); preferred < 0 {
			preferred = len(*names)
			*names = append(*names, "")
		}
	}
	(*names)[preferred] = name
	return preferred
}

// atTheEnd returns the last values of the lines of a figure that has a task in each row.
func atTheEnd(figure chart.Figure) [][]string {
	var rows [][]string
	for _, row := range figure {
		for _, s := range row[0].Series {
			if last := len(s.Y) - 1; !s.Thin && last >= 0 {
				value := stats.Estimate{Value: s.Y[last], Low: math.NaN(), High: math.NaN()}
				if s.Low != nil {
					value.Low, value.High = s.Low[last], s.High[last]
				}
				rows = append(rows, []string{row[0].Title, s.Name, fmt.Sprintf("%.0f", s.X[last]), estimate(value)})
			}
		}
	}
	return rows
}

// meanSteps returns the environment steps at each iteration, the mean over the runs.
func (g *group) meanSteps() []float64 {
	all := make([]float64, len(g.steps[0]))
	for k := range all {
		for _, run := range g.steps {
			all[k] += run[k]
		}
		all[k] /= float64(len(g.steps))
	}
	return all
}
