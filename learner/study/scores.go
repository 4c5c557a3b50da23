package main

import (
	"fmt"
	"math"

	"github.com/dbqpg/dbqpg/internal/chart"
	"github.com/dbqpg/dbqpg/internal/stats"
)

// scores compares variants over several tasks, on one scale: on each task 0 is the return of the first row and 1 the
// best variant's final one. All tasks have all variants, and as many runs of each.
type scores struct {
	Of    string   // the quantity of final returns
	First string   // the quantity of all returns, whose first known ones make the 0
	Rows  []string // labels within whose values tasks are compared
	Task  string
	By    string // the label of the variants
	Name  string // of the figure
}

// aggregate is the scores of some tasks.
type aggregate struct {
	tasks    []string
	variants []*series // one of each
	runs     int
	scores   [][][]float64 // by variant, task and run
}

func (t *scores) write(p *page, all []*series) {
	var rows [][]string
	drawn := chart.Figure{nil}
	for _, group := range grouped(all, t.Rows...) {
		a := t.aggregate(p, group)
		if len(a.tasks) < 2 || len(a.variants) < 2 {
			continue
		}
		name := group[0].label(t.Rows...)
		panel := chart.Panel{Title: fmt.Sprintf("%s, %d tasks, %s each", name, len(a.tasks), plural(a.runs, "run")),
			X: "score", Y: "share of runs above"}
		for i, v := range a.variants {
			score := interval(a.scores[i], resamples, stats.Pooled(stats.IQM))
			rows = append(rows, []string{name, fmt.Sprintf("%d, %s", len(a.tasks), plural(a.runs, "run")),
				v.label("name"), estimate(score)})
			panel.Series = append(panel.Series, a.profile(i))
		}
		drawn[0] = append(drawn[0], panel)
	}
	if len(rows) == 0 {
		return
	}
	p.heading("Over the tasks")
	p.table(append([][]string{{"runs", "tasks", "variant", "score"}}, rows...))
	p.figures[t.Name] = drawn
	fmt.Fprintf(p, "\n![Performance profiles](%s.png)\n", t.Name)
	p.text(`On each task 0 is the return of the first iteration and 1 the best variant's final one; all tasks have as
many runs. The score is the interquartile mean over tasks and runs, the profile the share of the runs above each score.
Intervals, of five runs a task or more, are stratified by task, and take the scale for known.`)
}

// aggregate scores the tasks that have all of the variants that most tasks have, unless no variant learns anything.
func (t *scores) aggregate(p *page, all []*series) (a aggregate) {
	tasks := grouped(all, t.Task)
	for _, of := range grouped(all, t.By) {
		if 2*len(grouped(of, t.Task)) > len(tasks) {
			a.variants = append(a.variants, of[0])
		}
	}
	a.runs = math.MaxInt
	var complete [][][]*series // by task and variant
	for _, task := range tasks {
		var runs [][]*series
		for _, v := range a.variants {
			if of := matching(task, map[string][]string{t.By: {v.labels[t.By]}}); len(of) > 0 {
				runs = append(runs, of)
			}
		}
		if len(runs) == len(a.variants) {
			complete = append(complete, runs)
			for _, of := range runs {
				a.runs = min(a.runs, len(of))
			}
		}
	}
	a.scores = make([][][]float64, len(a.variants))
	for _, runs := range complete {
		var finals [][]float64
		var firsts []float64
		best := math.Inf(-1)
		for _, of := range runs {
			finals = append(finals, p.quantities[t.Of].pooled(of[:a.runs]))
			best = max(best, stats.IQM(finals[len(finals)-1]))
			for _, s := range of[:a.runs] {
				first := known(p.quantities[t.First].values(s))
				firsts = append(firsts, first[:min(1, len(first))]...)
			}
		}
		first := stats.IQM(firsts)
		if !(best > first) {
			continue
		}
		a.tasks = append(a.tasks, runs[0][0].labels[t.Task])
		for i := range finals {
			for k := range finals[i] {
				finals[i][k] = (finals[i][k] - first) / (best - first)
			}
			a.scores[i] = append(a.scores[i], finals[i])
		}
	}
	return a
}

// profile returns a variant's performance profile, with its band where there are enough runs.
func (a aggregate) profile(i int) chart.Series {
	const highest, points = 1.2, 61
	s := chart.Series{Name: a.variants[i].label("name"), Color: a.variants[i].color}
	for k := range points {
		threshold := highest * float64(k) / (points - 1)
		point(&s, threshold, interval(a.scores[i], curveResamples, stats.Pooled(stats.Above(threshold))))
	}
	if a.runs < enough {
		s.Low, s.High = nil, nil
	}
	return s
}
