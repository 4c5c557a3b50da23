package web

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/dbqpg/dbqpg/internal/progress"
	"github.com/dbqpg/dbqpg/internal/stats"
)

const (
	// maxGroups is how many groups are compared at most.
	maxGroups = 12
	// maxPoints bounds the points of a curve.
	maxPoints = 500
)

var nan = math.NaN()

// axes are the columns along which curves are drawn.
var axes = map[string]string{"iterations": "iteration", "steps": "steps", "time": "seconds_elapsed"}

// Curves are groups' curves along one axis.
type Curves struct {
	X      Numbers `json:"x"`
	Curves []Curve `json:"curves"`
}

// Curve is a group's curve: at each X, the mean over the runs that got so far, or with statistic=iqm over their middle
// half, and its 95 % interval.
type Curve struct {
	Query string  `json:"query"`
	Runs  int     `json:"runs"`
	Value Numbers `json:"value"`
	Low   Numbers `json:"low"`
	High  Numbers `json:"high"`
	Count []int   `json:"count"` // runs at each X
}

// curves answers a request for the curves of the groups q, at most [maxGroups]: metric is a column of progress.csv, or
// evaluation/COLUMN of evaluations.csv; axis is iterations, steps or time; statistic is mean or iqm; from and to limit
// the axis.
func (s *server) curves(r *http.Request) (any, error) {
	v := r.URL.Query()
	axis, ok := axes[v.Get("axis")]
	if !ok {
		axis = axes["iterations"]
	}
	trim := 0.0
	if v.Get("statistic") == "iqm" {
		trim = 0.25
	}
	queries := v["q"]
	if len(queries) > maxGroups {
		text := fmt.Sprintf("%d groups: at most %d are compared", len(queries), maxGroups)
		return nil, &failure{http.StatusBadRequest, text}
	}
	runs, err := s.Source.Runs(r.Context())
	if err != nil {
		return nil, err
	}
	name, metric, axis := tableOfMetric(v.Get("metric"), axis)
	groups := make([][]*Run, len(queries))
	for i, q := range queries {
		if groups[i], err = selected(runs, q); err != nil {
			return nil, &failure{http.StatusBadRequest, err.Error()}
		}
	}
	grid := newGrid(slices.Concat(groups...), axis, bound(v, "from", 0), bound(v, "to", math.Inf(1)))
	answer := &Curves{X: grid.centers(), Curves: make([]Curve, len(queries))}
	for i, q := range queries {
		resampled, err := s.resample(r.Context(), groups[i], grid, name, axis, metric)
		if err != nil {
			return nil, err
		}
		answer.Curves[i] = summarize(resampled, grid.bins, trim)
		answer.Curves[i].Query = q
	}
	return answer, nil
}

// evaluationPrefix begins the names of metrics that are columns of evaluations.csv.
const evaluationPrefix = "evaluation/"

// tableOfMetric returns the table that has a metric, and the columns of the metric and the axis there: evaluations are
// not timed.
func tableOfMetric(name, axis string) (table, metric, along string) {
	if column, ok := strings.CutPrefix(name, evaluationPrefix); ok {
		if axis != axes["steps"] {
			axis = axes["iterations"]
		}
		return progress.EvaluationsName, column, axis
	}
	if name == "" {
		name = "return_mean"
	}
	return progress.RowsName, name, axis
}

func bound(v url.Values, name string, otherwise float64) float64 {
	if x := parseNumber([]byte(v.Get(name))); x == x {
		return x
	}
	return otherwise
}

// resample reads the runs' tables, several at a time, and returns each run's values on the grid; runs without any are
// left out. Its memory does not depend on the lengths of the runs.
func (s *server) resample(ctx context.Context, runs []*Run, g grid, table, axis, metric string) ([][]float32, error) {
	all := make([][]float32, len(runs))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0) + 1) // one waits for its file
	for i, r := range runs {
		if r.Directory == "" || s.columns == nil || g.bins == 0 {
			continue
		}
		group.Go(func() error {
			found, err := s.columns.read(ctx, r.Directory, table, axis, metric)
			if err == nil && len(found[axis]) == len(found[metric]) {
				all[i] = g.resample(found[axis], found[metric])
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(values []float32) bool { return values == nil }), nil
}

// grid divides a part of the axis into as many bins as a curve has points. Iterations have bins of their own where they
// are few.
type grid struct {
	from, width float64
	bins        int
}

// newGrid returns the grid of the part between two bounds of the axis, up to where the longest of the runs is.
func newGrid(runs []*Run, axis string, from, to float64) grid {
	end := math.Inf(-1)
	for _, r := range runs {
		end = max(end, r.along(axis))
	}
	to = min(to, end)
	switch {
	case !(from <= to) || math.IsInf(to, 0) || math.IsInf(from, 0):
		return grid{}
	case axis == axes["iterations"] && to-from < maxPoints:
		return grid{math.Floor(from), 1, int(to-math.Floor(from)) + 1}
	}
	return grid{from, max((to-from)/(maxPoints-1), math.SmallestNonzeroFloat32), maxPoints}
}

// along returns how far a run has got on an axis; evaluations are one further than the rows.
func (r *Run) along(axis string) float64 {
	switch {
	case axis == axes["iterations"]:
		return float64(r.Iteration)
	case axis == axes["steps"]:
		return float64(r.Steps)
	case r.Elapsed.given():
		return float64(r.Elapsed)
	}
	return 0
}

// bin returns the bin of a place, -1 outside.
func (g *grid) bin(x float64) int {
	if i := int((x - g.from) / g.width); x >= g.from && i < g.bins {
		return i
	}
	return -1
}

// centers returns the places of the curve's points: the middles of the bins, or the iterations.
func (g *grid) centers() Numbers {
	x := make(Numbers, g.bins)
	for i := range x {
		x[i] = float32(g.from + float64(i)*g.width)
		if g.width != 1 {
			x[i] += float32(g.width / 2)
		}
	}
	return x
}

// resample returns the means of a run's values in each bin, NaN before its first value and after its last; nil if there
// are no values. A bin without a value between two others has the value on the line between them.
func (g *grid) resample(x, y []float32) []float32 {
	sum, count := make([]float64, g.bins), make([]int, g.bins)
	for i, v := range y {
		if b := g.bin(float64(x[i])); b >= 0 && v == v {
			sum[b] += float64(v)
			count[b]++
		}
	}
	out, last := make([]float32, g.bins), -1
	for b := range out {
		if count[b] == 0 {
			out[b] = float32(nan)
			continue
		}
		out[b] = float32(sum[b] / float64(count[b]))
		for between := last + 1; last >= 0 && between < b; between++ {
			out[between] = out[last] + (out[b]-out[last])*float32(between-last)/float32(b-last)
		}
		last = b
	}
	if last < 0 {
		return nil
	}
	return out
}

// summarize returns the curve of a group whose runs have these values in so many bins.
func summarize(runs [][]float32, bins int, trim float64) Curve {
	c := Curve{Runs: len(runs), Value: make(Numbers, bins), Low: make(Numbers, bins), High: make(Numbers, bins),
		Count: make([]int, bins)}
	values := make([]float64, 0, len(runs))
	for b := range bins {
		values = values[:0]
		for _, run := range runs {
			if v := float64(run[b]); v == v {
				values = append(values, v)
			}
		}
		e := stats.TrimmedMean(values, trim)
		c.Value[b], c.Low[b], c.High[b], c.Count[b] = float32(e.Value), float32(e.Low), float32(e.High), len(values)
	}
	return c
}
