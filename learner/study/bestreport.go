package study

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dbqpg/dbqpg/internal/chart"
	"github.com/dbqpg/dbqpg/internal/stats"
)

// bestTask is a task of the page: the runs that it should have, and returns whose first reaching is reported. The highest of
// these is about four fifths of the best that the benchmark of rl-baselines3-zoo (release 2.8.0, benchmark.md, on -v3) has of
// TRPO and PPO after a million steps: 366, 3618, 4933, 5819 and 4982 on the first five. It has none on the last two.
type bestTask struct {
	name         string
	ours, theirs int
	thresholds   []float64
}

// bestTasks have the versions whose physics and rewards are the same here and in Gymnasium to 1e-9.
var bestTasks = []bestTask{
	{"Swimmer-v4", 10, 5, []float64{100, 200, 300}},
	{"Hopper-v4", 10, 5, []float64{1000, 2000, 3000}},
	{"Walker2d-v4", 10, 5, []float64{1000, 2000, 4000}},
	{"HalfCheetah-v4", 10, 5, []float64{1000, 3000, 5000}},
	{"Ant-v4", 3, 3, []float64{1000, 2000, 4000}},
	{"Humanoid-v4", 3, 3, []float64{500, 1000, 3000}},
	{"HumanoidStandup-v4", 3, 3, []float64{80e3, 100e3, 120e3}},
}

// contender is what the page compares, by what tables of evaluations call it.
type contender struct {
	algorithm string
	name      string
	color     int
	theirs    bool
}

// contenders are those of every table. Runs of other names are variants of the first.
var contenders = []contender{
	{"trpo-uapg-best", "UAPG", 1, false},
	{"trpo-mc-best", "MC", chart.Gray, false},
	{"trpo", "TRPO (sb3-contrib)", 0, true},
	{"ppo", "PPO (Stable-Baselines3)", 2, true},
}

func (c contender) planned(t bestTask) int {
	if c.theirs {
		return t.theirs
	}
	return t.ours
}

// budgets are the numbers of environment steps after which returns are compared.
var budgets = []float64{1e6, 3e6}

const (
	bestLast  = 0.1  // of the budget: its evaluations make the final return
	bestSlack = 0.01 // of the budget: by so much a batch may end after it
	bestGrid  = 50   // points of a line of the figure
)

// of returns the runs of an algorithm on a task.
func (r *lineup) of(task, algorithm string) []*evaluated {
	var all []*evaluated
	for _, e := range r.runs {
		if e.task == task && e.algorithm == algorithm {
			all = append(all, e)
		}
	}
	return all
}

// begun returns the tasks on which a contender has runs.
func (r *lineup) begun() []bestTask {
	var all []bestTask
	for _, t := range bestTasks {
		if slices.ContainsFunc(contenders, func(c contender) bool { return len(r.of(t.name, c.algorithm)) > 0 }) {
			all = append(all, t)
		}
	}
	return all
}

// arrived returns the tasks on which runs of a contender have come so far.
func (r *lineup) arrived(budget float64) []bestTask {
	return slices.DeleteFunc(r.begun(), func(t bestTask) bool {
		return !slices.ContainsFunc(contenders, func(c contender) bool { return len(r.finals(t.name, c.algorithm, budget).returned) > 0 })
	})
}

// final is what a run has reached after a number of steps.
type final struct {
	returned     float64 // mean over the last tenth of the steps
	sampled      float64 // with sampled actions; NaN for a baseline
	seconds, cpu float64
}

// finals are those of several runs, a list of each number.
type finals struct{ returned, sampled, seconds, cpu []float64 }

// final returns what the run has reached after that many steps, if it has come so far.
func (e *evaluated) final(budget float64) (final, bool) {
	var last, sampled []float64
	for i, steps := range e.steps {
		if steps > (1-bestLast)*budget && steps <= (1+bestSlack)*budget {
			last = append(last, e.returns[i])
			if len(e.sampled) > 0 && !math.IsNaN(e.sampled[i]) {
				sampled = append(sampled, e.sampled[i])
			}
		}
	}
	i := slices.IndexFunc(e.steps, func(steps float64) bool { return steps >= budget })
	if i < 0 || len(last) == 0 {
		return final{}, false
	}
	return final{stats.Mean(last), stats.Mean(sampled), e.seconds[i], e.cpu[i]}, true
}

// finals returns those of the runs that have come so far.
func (r *lineup) finals(task, algorithm string, budget float64) (all finals) {
	for _, e := range r.of(task, algorithm) {
		if f, ok := e.final(budget); ok {
			all.add(f)
		}
	}
	return all
}

func (all *finals) add(f final) {
	all.returned, all.sampled = append(all.returned, f.returned), append(all.sampled, f.sampled)
	all.seconds, all.cpu = append(all.seconds, f.seconds), append(all.cpu, f.cpu)
}

// reached returns the first of two evaluations in a row, within so many steps, with at least that return, -1 if there are
// none: one of few episodes alone may be luck.
func (e *evaluated) reached(least, budget float64) int {
	for i := range len(e.returns) - 1 {
		if e.returns[i] >= least && e.returns[i+1] >= least && e.steps[i+1] <= (1+bestSlack)*budget {
			return i
		}
	}
	return -1
}

// at returns the run's return and processor time after a number of steps, interpolated between evaluations; the steps are
// from those of the first to those of the last.
func (e *evaluated) at(steps float64) (returned, cpu float64) {
	i, exactly := slices.BinarySearch(e.steps, steps)
	if exactly {
		return e.returns[i], e.cpu[i]
	}
	share := (steps - e.steps[i-1]) / (e.steps[i] - e.steps[i-1])
	return e.returns[i-1] + share*(e.returns[i]-e.returns[i-1]), e.cpu[i-1] + share*(e.cpu[i]-e.cpu[i-1])
}

// report writes the page and what is beside it.
func (r *lineup) report(j *job) error {
	p := j.newPage("The best preset beside Stable-Baselines3")
	p.paragraph("%s", bestQuestion)
	if len(r.begun()) > 0 {
		bySteps, byTime := r.panels()
		p.draw("best", "Returns against environment steps", grid(bySteps))
		p.paragraph("Interquartile means over the runs of the mean return of evaluations with mean actions; the bands, of %d runs or more, are 95%% bootstrap "+
			"intervals, the thin lines the runs.", enough)
		p.draw("time", "Returns against processor time", grid(byTime))
		p.paragraph("Against processor time, that of training alone.")
	}
	r.goals(p)
	r.addFinals(p)
	for _, budget := range budgets {
		r.returns(p, budget)
	}
	r.sampled(p)
	r.times(p)
	r.thresholds(p)
	r.variants(p)
	return j.save(p, "Tasks are those of Gymnasium in the version -v4, whose physics and rewards are here the same to 1e-9; on the first four, -v2 is the same task. "+
		"The baselines are trained by `scripts/baselines/run.sh`, whose settings are in `scripts/baselines/hyperparameters.yaml`. "+
		"Times are of training without evaluations, and of ours without the first batch, which initialises the normaliser. The machine did other things as well, "+
		"so that seconds by the clock mean little: compare the processor's. "+
		"`baselines/` and `data/` have the evaluations, `finals.csv` the final returns, `thresholds.csv` when each was first reached.",
		cmp.Or(strings.Join(r.made, ". "), "What made the runs is not recorded"))
}

// panels draw, for each task, returns against steps and against processor time.
func (r *lineup) panels() (bySteps, byTime []chart.Panel) {
	for _, t := range r.begun() {
		var n []int
		steps, time := chart.Panel{X: "environment steps", Y: "return"}, chart.Panel{X: "processor seconds", Y: "return", LogX: true}
		for _, c := range contenders {
			if runs := r.of(t.name, c.algorithm); len(runs) > 0 {
				n = append(n, len(runs))
				some, others := c.lines(runs)
				steps.Series, time.Series = append(steps.Series, some...), append(time.Series, others...)
			}
		}
		steps.Title = t.name + ", " + seeds(n)
		time.Title = steps.Title
		bySteps, byTime = append(bySteps, steps), append(byTime, time)
	}
	return bySteps, byTime
}

// lines returns the learning curve of a contender's runs, with its band, and above one a run, as far as all have come.
func (c contender) lines(runs []*evaluated) (bySteps, byTime []chart.Series) {
	begin, end := 0.0, math.Inf(1)
	for _, e := range runs {
		begin, end = max(begin, e.steps[0]), min(end, e.steps[len(e.steps)-1])
	}
	if !(begin < end) {
		return nil, nil
	}
	var steps, cpu []float64 // at the points, of all runs
	returns := make([][]float64, len(runs))
	for k := range bestGrid + 1 {
		x := begin + (end-begin)*float64(k)/bestGrid
		seconds := make([]float64, len(runs))
		for i, e := range runs {
			var y float64
			y, seconds[i] = e.at(x)
			returns[i] = append(returns[i], y)
		}
		steps, cpu = append(steps, x), append(cpu, max(stats.Mean(seconds), 1)) // a logarithmic axis begins at one second
	}
	for _, x := range [][]float64{steps, cpu} {
		var all []chart.Series
		for _, y := range returns {
			if len(runs) > 1 {
				all = append(all, chart.Series{Name: c.name, Color: c.color, Thin: true, X: x, Y: y})
			}
		}
		mean := chart.Series{Name: c.name, Color: c.color}
		for k, y := range band(returns) {
			point(&mean, x[k], y)
		}
		if len(runs) < enough {
			mean.Low, mean.High = nil, nil
		}
		all = append(all, mean)
		bySteps, byTime = byTime, all
	}
	return bySteps, byTime
}

// addFinals adds the table of every run's final returns.
func (r *lineup) addFinals(p *page) {
	table := p.csv("finals.csv", "task", "algorithm", "seed", "steps", "return", "sampled_return", "seconds", "cpu_seconds")
	for _, e := range r.runs {
		for _, budget := range budgets {
			if f, ok := e.final(budget); ok {
				table.add(e.task, e.algorithm, e.seed, int(budget), f.returned, f.sampled, f.seconds, f.cpu)
			}
		}
	}
}

// header returns a table's header with a column for each contender.
func header(first ...string) []string {
	for _, c := range contenders {
		first = append(first, c.name)
	}
	return first
}

// summarise formats the values of runs: their interquartile mean with its interval, or each of few.
func summarise(values []float64, planned int) string {
	count := fmt.Sprintf("(%d of %d)", len(values), max(planned, len(values)))
	switch {
	case len(values) == 0:
		return "missing " + count
	case len(values) >= enough:
		return estimate(iqm(values, resamples)) + " " + count
	}
	var texts []string
	for _, value := range values {
		texts = append(texts, figures(value))
	}
	return strings.Join(texts, ", ") + " " + count
}

// returns writes the final returns after a number of steps.
func (r *lineup) returns(p *page, budget float64) {
	p.heading(fmt.Sprintf("Returns after %s steps", million(budget)))
	if len(r.arrived(budget)) == 0 {
		p.paragraph("No run has come so far.")
		return
	}
	var rows [][]string
	for _, t := range bestTasks {
		row := []string{t.name}
		for _, c := range contenders {
			row = append(row, summarise(r.finals(t.name, c.algorithm, budget).returned, c.planned(t)))
		}
		rows = append(rows, row)
	}
	p.table(header("task"), rows)
	p.paragraph("Each run's final return is the mean of its evaluations in the last %.0f %% of these steps. Of %d runs or more: their interquartile mean with a 95%% interval; "+
		"of fewer: each. In brackets: runs that have come so far, of those planned.", 100*bestLast, enough)
}

// sampled writes the final returns with sampled actions.
func (r *lineup) sampled(p *page) {
	if len(r.begun()) == 0 {
		return
	}
	us, mc, budget := contenders[0], contenders[1], budgets[0]
	p.heading("With sampled actions")
	var rows [][]string
	for _, t := range r.begun() {
		ours, theirs := r.finals(t.name, us.algorithm, budget).sampled, r.finals(t.name, mc.algorithm, budget).sampled
		lead := "missing"
		if len(ours) > 0 && len(theirs) > 0 {
			lead = signed(ahead(ours, theirs))
		}
		rows = append(rows, []string{t.name, summarise(ours, us.planned(t)), summarise(theirs, mc.planned(t)), lead})
	}
	p.table([]string{"task", us.name, mc.name, us.name + " − " + mc.name}, rows)
	p.paragraph("The returns of sampled actions after %s steps: those that the gradient is of. All other tables are of mean actions.", million(budget))
}

func million(steps float64) string { return fmt.Sprintf("%g million", steps/1e6) }

// times writes what the first of the budgets takes.
func (r *lineup) times(p *page) {
	tasks := r.arrived(budgets[0])
	if len(tasks) == 0 {
		return
	}
	p.heading(fmt.Sprintf("Time for %s steps", million(budgets[0])))
	var rows [][]string
	for _, t := range tasks {
		row := []string{t.name}
		for _, c := range contenders {
			text := "missing"
			if f := r.finals(t.name, c.algorithm, budgets[0]); len(f.cpu) > 0 {
				text = fmt.Sprintf("%s s (%s s)", figures(middle(f.cpu)), figures(middle(f.seconds)))
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	p.table(header("task"), rows)
	p.paragraph("Processor time, over all threads, and in brackets by the clock on a machine that did other things; medians over the runs. Here and below, tasks without runs that have come so far are left out.")
}

// middle returns the median of the values that are known, which may be infinite: NaN if none is.
func middle(values []float64) float64 {
	sorted := slices.DeleteFunc(slices.Sorted(slices.Values(values)), math.IsNaN)
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// thresholds writes how many steps and seconds it takes to reach certain returns, of runs that have come as far as a
// budget, within it.
func (r *lineup) thresholds(p *page) {
	table := p.csv("thresholds.csv", "task", "algorithm", "seed", "within", "return", "steps", "seconds", "cpu_seconds")
	for _, budget := range budgets {
		var steps, times [][]string
		for _, t := range r.arrived(budget) {
			for _, least := range t.thresholds {
				stepsRow, timesRow := []string{t.name, figures(least)}, []string{t.name, figures(least)}
				for _, c := range contenders {
					byRun, cpuByRun := r.arrivals(table, t.name, c.algorithm, least, budget)
					stepsRow, timesRow = append(stepsRow, arrival(byRun, 1e-3, "k")), append(timesRow, arrival(cpuByRun, 1, " s"))
				}
				steps, times = append(steps, stepsRow), append(times, timesRow)
			}
		}
		if len(steps) == 0 {
			continue
		}
		p.heading(fmt.Sprintf("Steps to a return, within %s", million(budget)))
		p.table(header("task", "return"), steps)
		p.paragraph("The first of two evaluations in a row that are not below the return: the median over the runs, and in brackets how many of them get there. " +
			"\"Not by most\": half or fewer do. Where the benchmark of rl-baselines3-zoo has the task, the highest return is about four fifths of the " +
			"best there of TRPO and PPO.")
		p.heading(fmt.Sprintf("Processor time to a return, within %s steps", million(budget)))
		p.table(header("task", "return"), times)
	}
}

// arrivals returns when each run reaches a return, in steps and in seconds of the processor: infinite where it does not.
func (r *lineup) arrivals(table *table, task, algorithm string, least, budget float64) (steps, cpu []float64) {
	for _, e := range r.of(task, algorithm) {
		if _, ok := e.final(budget); !ok {
			continue
		}
		i := e.reached(least, budget)
		if i < 0 {
			table.add(task, algorithm, e.seed, int(budget), least, "", "", "")
			steps, cpu = append(steps, math.Inf(1)), append(cpu, math.Inf(1))
			continue
		}
		table.add(task, algorithm, e.seed, int(budget), least, e.steps[i], e.seconds[i], e.cpu[i])
		steps, cpu = append(steps, e.steps[i]), append(cpu, e.cpu[i])
	}
	return steps, cpu
}

// arrival formats the median of when runs reach something.
func arrival(values []float64, scale float64, unit string) string {
	if len(values) == 0 {
		return "missing"
	}
	n := 0
	for _, value := range values {
		if !math.IsInf(value, 1) {
			n++
		}
	}
	count := fmt.Sprintf("(%d of %d)", n, len(values))
	m := middle(values)
	if math.IsInf(m, 1) {
		return "not by most " + count
	}
	return figures(scale*m) + unit + " " + count
}
