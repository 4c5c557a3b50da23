package study

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dbqpg/dbqpg/internal/chart"
	"github.com/dbqpg/dbqpg/internal/stats"
)

// aggregate is what the variants of an algorithm and a preset reach on several tasks, on one scale: on each task 0 is the
// return of the first iteration and 1 the best variant's final one. All tasks have all variants, and as many runs of each.
type aggregate struct {
	setting  setting // without a task
	tasks    []string
	variants []variant
	runs     int
	scores   [][][]float64 // by variant, task and run
}

// aggregates returns those of each algorithm and preset, of the variants that most of its tasks have.
func (r *results) aggregates() []aggregate {
	var all []aggregate
	for _, s := range r.settings() {
		key := setting{algorithm: s.algorithm, preset: s.preset}
		if slices.ContainsFunc(all, func(a aggregate) bool { return a.setting == key }) {
			continue
		}
		its := slices.DeleteFunc(r.settings(), func(s setting) bool { return s.algorithm != key.algorithm || s.preset != key.preset })
		a := aggregate{setting: key, runs: math.MaxInt, variants: r.ofMost(its)}
		var complete []setting // with all of these variants
		for _, s := range its {
			groups := a.of(r, s)
			if groups == nil {
				continue
			}
			complete = append(complete, s)
			for _, g := range groups {
				a.runs = min(a.runs, len(g.seeds))
			}
		}
		a.scores = make([][][]float64, len(a.variants))
		for _, s := range complete {
			a.add(r, s)
		}
		all = append(all, a)
	}
	return slices.DeleteFunc(all, func(a aggregate) bool { return len(a.tasks) < 2 || len(a.variants) < 2 })
}

// ofMost returns the variants that more than half of the tasks have, in order.
func (r *results) ofMost(tasks []setting) (variants []variant) {
	var all []count
	for _, s := range tasks {
		for _, g := range r.of(s) {
			all = tally(all, g.variant.name)
		}
	}
	for _, c := range all {
		if 2*c.n > len(tasks) {
			i := slices.IndexFunc(r.groups, func(g *group) bool { return g.variant.name == c.what })
			variants = append(variants, r.groups[i].variant)
		}
	}
	return variants
}

// of returns a task's groups of all the variants, nil if one is missing.
func (a *aggregate) of(r *results, s setting) (groups []*group) {
	for _, v := range a.variants {
		i := slices.IndexFunc(r.groups, func(g *group) bool { return g.setting == s && g.variant.name == v.name })
		if i < 0 {
			return nil
		}
		groups = append(groups, r.groups[i])
	}
	return groups
}

// add adds a task, unless no variant has learned anything: of each its first runs.
func (a *aggregate) add(r *results, s setting) {
	var finals [][]float64
	var firsts []float64
	best := math.Inf(-1)
	for _, g := range a.of(r, s) {
		runs := r.finals(g)[:a.runs]
		finals = append(finals, runs)
		best = max(best, stats.IQM(runs))
		for _, curve := range g.returns[:a.runs] {
			first := known(curve)
			firsts = append(firsts, first[:min(1, len(first))]...)
		}
	}
	first := stats.IQM(firsts)
	if !(best > first) {
		return
	}
	a.tasks = append(a.tasks, s.env)
	for i, runs := range finals {
		scores := make([]float64, len(runs))
		for k, final := range runs {
			scores[k] = (final - first) / (best - first)
		}
		a.scores[i] = append(a.scores[i], scores)
	}
}

// overTasks writes what the variants reach over several tasks: scores, who is above whom, and performance profiles.
func (p *page) overTasks(r *results) {
	all := r.aggregates()
	if len(all) == 0 {
		return
	}
	p.heading("Over the tasks")
	p.paragraph("Final returns, scaled so that on each task 0 is the return of the first iteration and 1 that of the best variant; as many runs of each task. "+
		"The score is the interquartile mean over tasks and runs; the probability that a run of one variant is above a run of the other on the same task is "+
		"averaged over the tasks; the profile is the share of the runs above each score. Intervals, of %d runs a task or more, are stratified by task, and take the scale "+
		"for known.", enough)
	var scores, pairs [][]string
	figure := chart.Figure{nil}
	for _, a := range all {
		name := strings.TrimPrefix(a.setting.String(), ", ")
		of := fmt.Sprintf("%d, %s", len(a.tasks), plural(a.runs, "run"))
		panel := chart.Panel{Title: fmt.Sprintf("%s, %d tasks, %s each", name, len(a.tasks), plural(a.runs, "run")), X: "score", Y: "share of runs above"}
		for i, v := range a.variants {
			scores = append(scores, []string{name, of, v.name, estimate(interval(a.scores[i], resamples, stats.Pooled(stats.IQM)))})
			for k, other := range a.variants[:i] {
				improvement := interval(slices.Concat(a.scores[i], a.scores[k]), resamples, stats.ProbabilityOfImprovement)
				pairs = append(pairs, []string{name, of, v.name + " above " + other.name, estimate(improvement)})
			}
			panel.Series = append(panel.Series, a.profile(i))
		}
		figure[0] = append(figure[0], panel)
	}
	p.table([]string{"algorithm", "tasks", "variant", "score"}, scores)
	p.table([]string{"algorithm", "tasks", "pair", "probability"}, pairs)
	p.draw("profiles", "Performance profiles", figure)
}

// profile returns a variant's performance profile, with its band where there are enough runs.
func (a aggregate) profile(i int) chart.Series {
	const highest, points = 1.2, 61
	s := chart.Series{Name: a.variants[i].name, Color: a.variants[i].color}
	for k := range points {
		threshold := highest * float64(k) / (points - 1)
		point(&s, threshold, interval(a.scores[i], curveResamples, stats.Pooled(stats.Above(threshold))))
	}
	if a.runs < enough {
		s.Low, s.High = nil, nil
	}
	return s
}
