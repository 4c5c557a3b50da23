package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/internal/stats"
	"github.com/dbqpg/dbqpg/internal/streams"
)

// quantity reduces the rows of a series to numbers.
type quantity struct {
	Column string
	Reduce string             // rows (""): each row's; mean; tail: mean of the last rows; last: of the last row; reach
	From   int                // first row that counts
	Goals  map[string]float64 // of reach: the return to be reached, by task
	When   string             // of reach: the column that says when
}

// values returns a series' numbers: one, or one a row.
func (q quantity) values(s *series) []float64 {
	x := s.columns[q.Column]
	x = x[min(q.From, len(x)):]
	switch q.Reduce {
	case "":
		return x
	case "mean":
		return []float64{stats.Mean(known(x))}
	case "tail":
		return []float64{stats.Mean(known(x[len(x)-min(s.tail, len(x)):]))}
	case "last":
		return x[len(x)-min(1, len(x)):]
	case "reach":
		return []float64{q.reached(s)}
	}
	panic(fmt.Sprintf("quantity of %s: no reduction is called %q", q.Column, q.Reduce))
}

// reached returns when a run comes to the goal of its task: at the first of two rows in a row that are not below it,
// since one evaluation of few episodes may be luck. It is infinite if there are none, NaN if the task has no goal.
func (q quantity) reached(s *series) float64 {
	goal, ok := q.Goals[s.labels["task"]]
	if !ok {
		return math.NaN()
	}
	x := s.columns[q.Column]
	for i := range len(x) - 1 {
		if x[i] >= goal && x[i+1] >= goal {
			return s.columns[q.When][i]
		}
	}
	return math.Inf(1)
}

// pooled returns the numbers of all series.
func (q quantity) pooled(group []*series) (all []float64) {
	for _, s := range group {
		all = append(all, q.values(s)...)
	}
	return all
}

// Resamples of a bootstrap; of each point of a curve there are fewer.
const (
	resamples      = 10000
	curveResamples = 1000
)

// enough is the least number of runs that intervals are given for. A bootstrap of fewer covers far less than its
// nominal 95 %: their values are shown one by one, and settle no claim.
const enough = 5

// interval returns a statistic of strata with its interval, whose ends are NaN if a stratum has fewer than enough.
func interval(strata [][]float64, resamples int, statistic func([][]float64) float64) stats.Estimate {
	if slices.ContainsFunc(strata, func(x []float64) bool { return len(x) < enough }) {
		return value(statistic(strata))
	}
	return stats.Bootstrap(strata, resamples, streams.New(0, streams.Study), statistic)
}

// value is an estimate without an interval.
func value(x float64) stats.Estimate {
	return stats.Estimate{Value: x, Low: math.NaN(), High: math.NaN()}
}

// iqm returns the interquartile mean of runs.
func iqm(x []float64, resamples int) stats.Estimate {
	return interval([][]float64{x}, resamples, stats.Pooled(stats.IQM))
}

// statistics summarise a quantity over a group of series.
var statistics = map[string]func(group []*series, q quantity) stats.Estimate{
	"iqm": func(group []*series, q quantity) stats.Estimate { return iqm(q.pooled(group), resamples) },
	"mean": func(group []*series, q quantity) stats.Estimate {
		return interval([][]float64{q.pooled(group)}, curveResamples, stats.Pooled(stats.Mean))
	},
	"average": func(group []*series, q quantity) stats.Estimate { return value(stats.Mean(q.pooled(group))) },
	"median":  func(group []*series, q quantity) stats.Estimate { return value(middle(q.pooled(group))) },
	"count":   func(group []*series, _ quantity) stats.Estimate { return value(float64(len(group))) },
	"rows":    func(group []*series, _ quantity) stats.Estimate { return value(float64(group[0].rows())) },
	"variance": func(group []*series, q quantity) stats.Estimate {
		s := group[0]
		return jackknife([]int{s.rows()}, []func(int) float64{spreads["variance"](s, q)})
	},
	"normalised": func(group []*series, q quantity) stats.Estimate {
		return value(spreads["variance"](group[0], q)(-1))
	},
	"trace": func(group []*series, _ quantity) stats.Estimate {
		trace, _ := moments(group[0], -1)
		return value(trace)
	},
	"norm": func(group []*series, _ quantity) stats.Estimate {
		_, square := moments(group[0], -1)
		return value(math.Sqrt(square))
	},
	"signal": func(group []*series, _ quantity) stats.Estimate { // trace over an unbiased squared norm of the mean
		trace, square := moments(group[0], -1)
		signal := trace / (square - trace/float64(group[0].rows()))
		if signal < 0 {
			signal = math.NaN()
		}
		return value(signal)
	},
	// the share of the variance of lambda-returns that values explain, given its part in each batch and the rest's root
	"explained": func(group []*series, q quantity) stats.Estimate {
		unexplained, total := 0.0, 0.0
		for _, s := range group {
			for i, deviation := range s.columns[q.Column] {
				rest := deviation * deviation
				all := rest / (1 - s.columns["explained_variance"][i])
				if !math.IsNaN(all) && !math.IsInf(all, 0) { // lambda-returns that vary
					unexplained, total = unexplained+rest, total+all
				}
			}
		}
		return value(1 - unexplained/total)
	},
}

// spreads are positive statistics of a series' rows without one of them (-1: of all), which the jackknife compares.
var spreads = map[string]func(s *series, q quantity) func(without int) float64{
	"variance": func(s *series, _ quantity) func(int) float64 { // the paper's normalised variance
		return func(without int) float64 {
			trace, square := moments(s, without)
			return trace / square
		}
	},
	"deviation": func(s *series, q quantity) func(int) float64 {
		x := q.values(s)
		return func(without int) float64 {
			if without < 0 {
				return stats.StdDev(x)
			}
			return stats.StdDev(slices.Delete(slices.Clone(x), without, without+1))
		}
	},
	"value": func(s *series, q quantity) func(int) float64 {
		return func(int) float64 { return stats.Mean(q.values(s)) }
	},
}

// moments returns the trace of the covariance, with n-1, and the squared norm of the mean, of all gradients but one
// (-1: of all), from the columns norm and along, the component along the mean. With their sum S = n m, m the mean
// component along S, |S - g|² = n² m² - 2 n m along(g) + |g|².
func moments(s *series, without int) (trace, square float64) {
	norms, along := s.columns["norm"], s.columns["along"]
	n, squares, m := float64(len(norms)), 0.0, stats.Mean(along)
	for _, norm := range norms {
		squares += norm * norm
	}
	square = m * m
	if without >= 0 {
		e := norms[without] * norms[without]
		square = max(0, n*n*m*m-2*n*m*along[without]+e) / ((n - 1) * (n - 1))
		squares -= e
		n--
	}
	return (squares - n*square) / (n - 1), square
}

// jackknife returns the geometric mean over strata of a positive statistic of n measurements each, as a function of the
// one left out, with its interval if there are enough of them.
func jackknife(n []int, statistics []func(without int) float64) stats.Estimate {
	var values []float64
	logarithms := 0.0
	for _, statistic := range statistics {
		values = append(values, statistic(-1))
		logarithms += math.Log(statistic(-1))
	}
	if slices.ContainsFunc(n, func(n int) bool { return n < enough }) {
		return value(math.Exp(logarithms / float64(len(values))))
	}
	without := make([][]float64, len(n))
	for k, statistic := range statistics {
		for i := range n[k] {
			without[k] = append(without[k], statistic(i))
		}
	}
	return stats.Jackknife(values, without)
}

// of compares two groups.
func (c cell) of(q quantity, first, second []*series) stats.Estimate {
	switch c.As {
	case "difference":
		return interval([][]float64{q.pooled(first), q.pooled(second)}, resamples, stats.Difference(means[c.Mean]))
	case "probability":
		return interval([][]float64{q.pooled(first), q.pooled(second)}, resamples, stats.ProbabilityOfImprovement)
	case "paired":
		var strata [][]float64
		for _, pair := range c.matched(first, second) {
			a, b := q.pooled(pair[0]), q.pooled(pair[1])
			if len(a) == len(b) {
				strata = append(strata, floats.SubTo(make([]float64, len(a)), a, b))
			}
		}
		if c.Strata == "seed" && len(strata) > 0 { // one number each: the pairs are the sample
			strata = [][]float64{slices.Concat(strata...)}
		}
		if len(strata) == 0 {
			return value(math.NaN())
		}
		return interval(strata, resamples, stats.Pooled(means[c.Mean]))
	case "ratio":
		var n []int
		var ratios []func(int) float64
		for _, pair := range c.matched(first, second) {
			a, b := spreads[c.Mean](pair[0][0], q), spreads[c.Mean](pair[1][0], q)
			n = append(n, pair[0][0].rows())
			ratios = append(ratios, func(without int) float64 { return a(without) / b(without) })
		}
		return jackknife(n, ratios)
	}
	panic(fmt.Sprintf("%s: no comparison is called %q", c.Head, c.As))
}

var means = map[string]func([]float64) float64{"iqm": stats.IQM, "mean": stats.Mean}

// matched pairs the series of two groups that have the same value of the strata's label.
func (c cell) matched(first, second []*series) (pairs [][2][]*series) {
	for _, a := range grouped(first, c.Strata) {
		b := matching(second, map[string][]string{c.Strata: {a[0].labels[c.Strata]}})
		if len(b) > 0 {
			pairs = append(pairs, [2][]*series{a, b})
		}
	}
	return pairs
}

// compared formats a comparison for readers.
func (c cell) compared(e stats.Estimate) string {
	switch c.As {
	case "ratio":
		return "x " + estimate(e)
	case "probability":
		return estimate(e)
	}
	return signed(e)
}

// The outcomes of a claim.
const (
	agrees      = "agrees"
	leans       = "leans that way" // the difference is as claimed, but its interval holds 0
	undecided   = "undecided"      // neither way
	contradicts = "disagrees"      // it is opposite to the claim, or too large to be alike
	unknown     = "fewer than five: cannot tell"
)

// judge compares an estimate with the claim. Groups are alike if they differ by less than the margin; of a ratio the
// smaller is above.
func (c cell) judge(e stats.Estimate, margin float64) string {
	if c.As == "ratio" {
		e = stats.Estimate{Value: -math.Log(e.Value), Low: -math.Log(e.High), High: -math.Log(e.Low)}
	}
	switch {
	case math.IsNaN(e.Low):
		return unknown
	case c.Claim == "alike" && -margin < e.Low && e.High < margin:
		return agrees
	case c.Claim == "alike" && (e.Low >= margin || e.High <= -margin):
		return contradicts
	case c.Claim == "alike":
		return undecided
	case e.Low > 0:
		return agrees
	case e.Value > 0:
		return leans
	case e.High >= 0:
		return undecided
	}
	return contradicts
}

// summary counts the outcomes of a claim, in words.
func summary(outcomes []string) string {
	if len(outcomes) == 0 {
		return "not compared: not all of these variants were run"
	}
	_, counts := counted(outcomes)
	var all []string
	for _, outcome := range []string{agrees, leans, undecided, contradicts, unknown} {
		if n := counts[outcome]; n > 0 {
			all = append(all, fmt.Sprintf("**%s** in %d", outcome, n))
		}
	}
	return strings.Join(all, ", ") + " of " + plural(len(outcomes), "comparison")
}
