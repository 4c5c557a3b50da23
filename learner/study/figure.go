package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dbqpg/dbqpg/internal/chart"
	"github.com/dbqpg/dbqpg/internal/stats"
)

// figure draws groups of series as lines in panels.
type figure struct {
	Name, Alt string
	Rows      []string // labels whose values make the rows of panels; none: rows of four
	Columns   []string // labels whose values make the panels of a row
	Lines     []string // labels that tell a panel's lines apart

	// Each line is a curve over the rows of its series: the column Y, drawn over the column X ("": the row's number),
	// with Thin as the runs' own lines. At Points places of the column Along ("": X) the runs are interpolated, and
	// their interquartile mean is taken; each is a running mean over that share of its rows.
	X, Y, Along string
	Points      int
	Smooth      float64

	// Or each point is a group of its own: the statistic As of the quantity Of, over the label Over, or its mean in the
	// column X.
	Of, As, Over string

	XLabel, YLabel string
	LogX, LogY     bool
}

// draw draws the figure.
func (f *figure) draw(p *page, all []*series) chart.Figure {
	if len(f.Rows) == 0 {
		var panels []chart.Panel
		for _, group := range grouped(all, f.Columns...) {
			panel := f.panel(p, group)
			panel.Alone = true
			panels = append(panels, panel)
		}
		return slices.Collect(slices.Chunk(panels, 4))
	}
	var drawn chart.Figure
	columns := grouped(all, f.Columns...)
	for _, row := range grouped(all, f.Rows...) {
		var panels []chart.Panel
		for _, column := range columns {
			where := map[string][]string{}
			for _, name := range f.Columns {
				where[name] = []string{column[0].labels[name]}
			}
			panels = append(panels, f.panel(p, matching(row, where)))
		}
		drawn = append(drawn, panels)
	}
	return drawn
}

// panel draws one pair of axes.
func (f *figure) panel(p *page, group []*series) chart.Panel {
	panel := chart.Panel{X: f.XLabel, Y: f.YLabel, LogX: f.LogX, LogY: f.LogY}
	if len(group) == 0 {
		return panel
	}
	panel.Title = group[0].label(slices.Concat(f.Rows, f.Columns)...)
	var runs []int
	for _, line := range grouped(group, f.Lines...) {
		if f.Of != "" {
			panel.Series = append(panel.Series, f.points(p, line))
			continue
		}
		if !line[0].dashed {
			runs = append(runs, len(line))
		}
		panel.Series = append(panel.Series, f.curve(line)...)
	}
	if len(runs) > 0 && group[0].labels["seed"] != "" {
		least, most := slices.Min(runs), slices.Max(runs)
		panel.Title += ", " + plural(most, "seed")
		if least < most {
			panel.Title = strings.Replace(panel.Title, ", "+plural(most, "seed"),
				fmt.Sprintf(", %d to %d seeds", least, most), 1)
		}
	}
	return panel
}

// points draws a line of groups.
func (f *figure) points(p *page, line []*series) chart.Series {
	drawn := chart.Series{Name: line[0].label("name"), Color: line[0].color, Dashed: line[0].dashed, Marks: true}
	for _, group := range grouped(line, f.Over) {
		x, err := number(group[0].labels[f.Over])
		if f.X != "" {
			x = stats.Mean(group[0].columns[f.X])
		}
		if err == nil {
			point(&drawn, x, statistics[f.As](group, p.quantities[f.Of]))
		}
	}
	if len(line) > 0 && slices.ContainsFunc(drawn.Low, math.IsNaN) || f.As != "iqm" {
		drawn.Low, drawn.High = nil, nil
	}
	return drawn
}

// point adds a point with its interval to a line of a figure.
func point(s *chart.Series, x float64, y stats.Estimate) {
	s.X, s.Y, s.Low, s.High = append(s.X, x), append(s.Y, y.Value), append(s.Low, y.Low), append(s.High, y.High)
}

// curve draws the interquartile mean of runs, with its band, above a thin line a run, as far as all have come.
func (f *figure) curve(runs []*series) []chart.Series {
	along := func(s *series) []float64 { return s.places(cmp.Or(f.Along, f.X)) }
	begin, end, least := 0.0, math.Inf(1), math.MaxInt
	for _, s := range runs {
		x := along(s)
		begin, end, least = max(begin, x[0]), min(end, x[len(x)-1]), min(least, len(x))
	}
	if !(begin < end) {
		return nil
	}
	n := min(f.Points, least)
	if f.Along != "" {
		n = f.Points
	}
	x, ys := make([]float64, n), make([][]float64, len(runs))
	for i, s := range runs {
		y := stats.RunningMean(s.columns[f.Y], max(1, int(f.Smooth*float64(s.rows()))))
		for k := range n {
			at := begin + (end-begin)*float64(k)/float64(max(1, n-1))
			x[k] += interpolated(along(s), s.places(f.X), at)
			ys[i] = append(ys[i], interpolated(along(s), y, at))
		}
	}
	for k := range x {
		if x[k] /= float64(len(runs)); f.LogX {
			x[k] = max(x[k], 1) // a logarithmic axis begins at 1
		}
	}
	mean := chart.Series{Name: runs[0].label("name"), Color: runs[0].color, Dashed: runs[0].dashed}
	var all []chart.Series
	for i := range runs {
		if len(runs) > 1 && !mean.Dashed {
			all = append(all, chart.Series{Name: mean.Name, Color: mean.Color, Thin: true, X: x, Y: ys[i]})
		}
	}
	at := make([]float64, len(runs))
	for k := range x {
		for i := range runs {
			at[i] = ys[i][k]
		}
		point(&mean, x[k], iqm(at, curveResamples))
	}
	if len(runs) < enough {
		mean.Low, mean.High = nil, nil
	}
	return append(all, mean)
}

// places returns a column, or if it has no name the numbers of the rows.
func (s *series) places(column string) []float64 {
	if column != "" {
		return s.columns[column]
	}
	x := make([]float64, s.rows())
	for i := range x {
		x[i] = float64(i)
	}
	return x
}

// interpolated returns y at a place between the first and the last of x, which increases.
func interpolated(x, y []float64, at float64) float64 {
	i, exactly := slices.BinarySearch(x, at)
	if exactly || i == 0 {
		return y[i]
	}
	i = min(i, len(x)-1)
	share := (at - x[i-1]) / (x[i] - x[i-1])
	return y[i-1] + share*(y[i]-y[i-1])
}
