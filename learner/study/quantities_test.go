package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/internal/stats"
)

func TestJudge(t *testing.T) {
	up, down, slightly, hardly := stats.Estimate{Value: 5, Low: 1, High: 9},
		stats.Estimate{Value: -5, Low: -9, High: -1},
		stats.Estimate{Value: 2, Low: -1, High: 5}, stats.Estimate{Value: -2, Low: -5, High: 1}
	few := value(4)
	for _, c := range []struct {
		claim      string
		difference stats.Estimate
		large      float64
		want       string
	}{
		{"above", up, 10, agrees}, {"above", down, 10, contradicts}, {"above", slightly, 10, leans},
		{"above", hardly, 10, undecided},
		{"alike", slightly, 6, agrees}, {"alike", hardly, 6, agrees}, {"alike", slightly, 4, undecided},
		{"alike", hardly, 4, undecided},
		{"alike", up, 8, undecided}, {"alike", down, 8, undecided}, {"alike", up, 1, contradicts},
		{"alike", down, 1, contradicts},
		{"alike", up, 10, agrees}, {"above", few, 10, unknown}, {"alike", few, 10, unknown},
	} {
		if got := (cell{Claim: c.claim}).judge(c.difference, c.large); got != c.want {
			t.Errorf("%s, difference %+v, large is %g: %v, want %v", c.claim, c.difference, c.large, got, c.want)
		}
	}
	// Of a ratio the smaller is above.
	if got := (cell{Claim: "above", As: "ratio"}).judge(stats.Estimate{Value: 0.5, Low: 0.4, High: 0.6},
		0); got != agrees {
		t.Errorf("half as much: %s", got)
	}
	if got := summary([]string{unknown, agrees, agrees}); got != "**agrees** in 2, **fewer than five: cannot tell** "+
		"in 1 of 3 comparisons" {
		t.Error(got)
	}
}

var curveQuantities = map[string]quantity{"final": {Column: "return_mean", Reduce: "tail"},
	"all":     {Column: "return_mean", Reduce: "mean"},
	"returns": {Column: "return_mean"}}

// made returns runs with known returns: six of a variant on a task, three alike and another three.
func made() (all []*series) {
	of := func(task, as string, first, second []float64) {
		for seed := range 6 {
			y := first
			if seed >= 3 {
				y = second
			}
			all = append(all, &series{tail: 2, columns: map[string][]float64{"return_mean": y},
				labels: map[string]string{"task": task, "algorithm": "npg", "as": as, "name": strings.ToUpper(as),
					"seed": fmt.Sprint(seed)}})
		}
	}
	of("A", "mc", []float64{0, 10, 20}, []float64{0, 10, 10})
	of("A", "dbqpg", []float64{0, 100, 100}, []float64{0, 80, 80})
	of("B", "mc", []float64{1, 2, 2}, []float64{1, 2, 4})
	of("B", "dbqpg", []float64{1, 3, 3}, []float64{1, 1, 2})
	return all
}

func TestClaims(t *testing.T) {
	p := &page{quantities: curveQuantities}
	cells := []cell{{Head: "final", Of: "final", As: "difference", Mean: "iqm", Claim: "above"},
		{Head: "overall", Of: "all", As: "difference", Mean: "iqm"},
		{Head: "paired", Of: "final", As: "paired", Mean: "iqm", Strata: "seed"},
		{Head: "probability", Of: "final", As: "probability"}}
	table := table{Rows: []string{"task"}, Between: "as", Pairs: [][2]string{{"dbqpg", "mc"},
		{"uapg", "mc"}}, Cells: cells}
	got := table.rows(p, made(), false)
	// On A the final returns are 15 and 10, and 100 and 80; over all iterations 10, 20/3, and 200/3, 160/3. On B they
	// are 2 and 3, and 3 and 1.5. UAPG was not run.
	if len(got) != 3 || !strings.HasPrefix(got[1][2], "+77.5 [") || !strings.HasPrefix(got[1][3], "+51.7 [") ||
		!strings.HasPrefix(got[1][4], "+77.5 [") ||
		got[1][5] != "1" || got[1][6] != agrees || !strings.HasPrefix(got[2][2], "-0.25 [") || got[2][6] != undecided {
		t.Errorf("%q", got)
	}
	for i := range cells {
		cells[i].Interval = true
	}
	file := table.rows(p, made(), true)
	if fmt.Sprint(file[0][:4]) != "[task one other final]" || fmt.Sprint(file[1][:4]) != "[A dbqpg mc 77.5]" ||
		len(file[1]) != 3+3*4 {
		t.Errorf("%q", file)
	}
}

// On each task 0 is the return of the first iteration and 1 the best variant's final one.
func TestScores(t *testing.T) {
	p, s := &page{quantities: curveQuantities}, &scores{Of: "final", First: "returns", Task: "task", By: "name"}
	a := s.aggregate(p, made())
	// On A: MC 15/90, 10/90; DBQPG 100/90, 80/90. On B the best is MC's 2.5: MC 1/1.5, 2/1.5; DBQPG 2/1.5, 0.5/1.5.
	if fmt.Sprint(a.tasks) != "[A B]" || a.runs != 6 {
		t.Fatalf("scores %+v", a)
	}
	// Of the four scores of each the middle two count.
	for i, want := range []float64{0.5 * (15./90 + 1/1.5), 0.5 * (80./90 + 100./90)} {
		if got := stats.Pooled(stats.IQM)(a.scores[i]); math.Abs(got-want) > 1e-12 {
			t.Errorf("%s scores %g, want %g", a.variants[i].label("name"), got, want)
		}
	}
	// A task without all variants is left out, and no task has more runs of a variant than another.
	some := made()[:20] // two runs of the last
	some = append(some, &series{columns: made()[0].columns, labels: map[string]string{"task": "C", "name": "MC"}})
	a = s.aggregate(p, some)
	if fmt.Sprint(a.tasks) != "[A B]" || a.runs != 2 || len(a.scores[0][0]) != 2 {
		t.Errorf("scores %+v", a)
	}
	for task := range a.tasks { // the best of the runs that count has 1
		if best := max(stats.IQM(a.scores[0][task]), stats.IQM(a.scores[1][task])); math.Abs(best-1) > 1e-12 {
			t.Errorf("the best variant's score on %s is %g", a.tasks[task], best)
		}
	}
	// A variant that one task alone has, be it the first, leaves no task out.
	control := append(made(), &series{columns: made()[0].columns,
		labels: map[string]string{"task": "A", "name": "UAPG"}})
	if a = s.aggregate(p, control); fmt.Sprint(a.tasks) != "[A B]" || len(a.variants) != 2 {
		t.Errorf("with a control on one task %+v", a)
	}
}

// Runs of a setting are as long as the shortest, and in the order of their seeds; the settings are one after the other.
func TestArrange(t *testing.T) {
	of := func(task, seed string, n int) *series {
		return &series{labels: map[string]string{"task": task, "algorithm": "npg", "seed": seed},
			columns: map[string][]float64{"steps": make([]float64, n)}}
	}
	var got []string
	for _, s := range arrange([]*series{of("A", "10", 3), of("B", "1", 5), of("A", "9", 2)}) {
		got = append(got, fmt.Sprint(s.labels["setting"], " ", s.labels["seed"], " ", s.rows()))
	}
	if fmt.Sprint(got) != "[A, npg 9 2 A, npg 10 2 B, npg 1 5]" {
		t.Error(got)
	}
}

// Of a learning curve each point is the runs' interquartile mean, of few runs without an interval; along another column
// the runs are interpolated.
func TestCurve(t *testing.T) {
	f := figure{Y: "return_mean", Points: 250, Smooth: 0.5}
	f.Smooth = 2.0 / 3 // of three rows
	lines := f.curve(made()[:6])
	mean := lines[len(lines)-1]
	if fmt.Sprint(mean.X, mean.Y, mean.Low, mean.High) != "[0 1 2] [0 5 12.5] [0 5 10] [0 5 15]" || len(lines) != 7 {
		t.Errorf("%+v", mean)
	}
	if lines = f.curve(made()[1:5]); lines[4].Y[2] != 12.5 || lines[4].Low != nil {
		t.Errorf("of four runs %+v", lines[4])
	}
	along := &series{labels: map[string]string{}, columns: map[string][]float64{"steps": {0, 100, 200},
		"seconds": {0, 1, 3}, "y": {0, 10, 0}}}
	f = figure{X: "seconds", Y: "y", Along: "steps", Points: 5}
	if mean = f.curve([]*series{along})[0]; fmt.Sprint(mean.X, mean.Y) != "[0 0.5 1 2 3] [0 5 10 5 0]" {
		t.Errorf("%+v", mean)
	}
}

// A return counts as reached when two evaluations in a row are not below it.
func TestReached(t *testing.T) {
	s := &series{labels: map[string]string{"task": "A"},
		columns: map[string][]float64{"x": {0, 10, 20, 30, 40, 50, 60}, "y": {0, 7, 3, 5, 6, 8, 2}}}
	for goal, want := range map[float64]float64{0: 0, 3: 10, 4: 30, 5: 30, 6: 40, 7: math.Inf(1), 9: math.Inf(1)} {
		q := quantity{Column: "y", When: "x", Reduce: "reach", Goals: map[string]float64{"A": goal}}
		if got := q.values(s)[0]; got != want {
			t.Errorf("%g is reached at %g, want %g", goal, got, want)
		}
	}
	if got := (quantity{Column: "y", When: "x", Reduce: "reach"}).values(s)[0]; !math.IsNaN(got) {
		t.Errorf("without a goal %g", got)
	}
}

// A median is of what is known, which may be that a return was never reached.
func TestMiddle(t *testing.T) {
	for want, values := range map[float64][]float64{110: {math.NaN(), 120, math.NaN(), 100, 110},
		math.Inf(1): {1, math.Inf(1), math.Inf(1)}} {
		if got := middle(values); got != want {
			t.Errorf("%v: %v, want %v", values, got, want)
		}
	}
	if got := middle([]float64{math.NaN()}); !math.IsNaN(got) {
		t.Errorf("of nothing that is known %v", got)
	}
}

// What is published of each gradient tells the covariance's trace and the mean's norm, with any gradient left out.
func TestMoments(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n, p = 5, 7
	gradients, sum := make([][]float64, n), make([]float64, p)
	for i := range gradients {
		for range p {
			gradients[i] = append(gradients[i], rng.NormFloat64()+1)
		}
		floats.Add(sum, gradients[i])
	}
	s := &series{columns: map[string][]float64{}}
	for _, g := range gradients {
		s.columns["norm"] = append(s.columns["norm"], floats.Norm(g, 2))
		s.columns["along"] = append(s.columns["along"], floats.Dot(g, sum)/floats.Norm(sum, 2))
	}
	for without := -1; without < n; without++ {
		wantTrace, wantSquare := slowMoments(gradients, without)
		trace, square := moments(s, without)
		if math.Abs(trace-wantTrace) > 1e-12*wantTrace || math.Abs(square-wantSquare) > 1e-12*wantSquare {
			t.Errorf("without %d: trace %v, |mean|² %v; want %v, %v", without, trace, square, wantTrace, wantSquare)
		}
	}
}

// slowMoments sums over components.
func slowMoments(gradients [][]float64, without int) (trace, square float64) {
	for k := range gradients[0] {
		var x []float64
		for i, g := range gradients {
			if i != without {
				x = append(x, g[k])
			}
		}
		mean := stats.Mean(x)
		for _, v := range x {
			trace += (v - mean) * (v - mean) / float64(len(x)-1)
		}
		square += mean * mean
	}
	return trace, square
}

// Contenders whose numbers are known differ by what is known: the first is more accurate by 0.2, and scatters half as
// much.
func TestContrast(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	of := func(size string) *series {
		return &series{labels: map[string]string{"size": size}, columns: map[string][]float64{}}
	}
	var one, other []*series
	for _, size := range []string{"1", "2"} {
		a, b := of(size), of(size)
		for range 6 {
			x, y := rng.NormFloat64(), rng.NormFloat64()
			for s, row := range map[*series][4]float64{a: {0.7 + 0.05*x, 1.5, 1.4, 0.5 + y},
				b: {0.5 + 0.1*x, 3, 2.8, y}} {
				for i, name := range []string{"cosine", "norm", "along", "gain"} {
					s.columns[name] = append(s.columns[name], row[i])
				}
			}
		}
		one, other = append(one, a), append(other, b)
	}
	compare := func(as, column, mean string) stats.Estimate {
		return cell{As: as, Mean: mean, Strata: "size"}.of(quantity{Column: column}, one, other)
	}
	for want, got := range map[float64]stats.Estimate{0.5: compare("paired", "gain", "mean"),
		1:           compare("ratio", "along", "variance"),
		0.5 + 1e-15: compare("ratio", "cosine", "deviation"), 1 + 1e-15: compare("ratio", "gain", "deviation")} {
		if math.Abs(got.Value-want) > 1e-12 {
			t.Errorf("%v, want %v", got, want)
		}
	}
	if c := compare("paired", "cosine", "mean"); !(c.Low < 0.2 && 0.2 < c.High && c.Low > 0.1) {
		t.Errorf("cosine %v", c)
	}
	if c := compare("ratio", "cosine", "deviation"); math.Abs(c.High-0.5) > 1e-12 {
		t.Errorf("spread %v", c)
	}
}
