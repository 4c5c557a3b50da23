// Package stats summarises a handful of runs: robust means, with intervals that claim no more than the runs support.
//
// A few training runs scatter widely and have outliers, so that their plain mean says little and its usual error bar
// less. Following Agarwal, Schwarzer, Castro, Courville and Bellemare, "Deep Reinforcement Learning at the Edge of the
// Statistical Precipice", NeurIPS 2021 (their package is rliable), runs are summarised by the interquartile mean [IQM],
// which drops the lowest and the highest quarter, and its uncertainty by a stratified bootstrap [Bootstrap]: runs are
// drawn again with replacement within each task, many times, and the interval is where the middle 95 % of the
// statistic's values lie. A method's performance profile is the share of its runs above each score ([Above]); two
// methods are compared by the probability that a run of one is above a run of the other ([ProbabilityOfImprovement]).
//
// For a ratio of quadratic forms, such as a variance over a squared mean, drawing with replacement is biased, because a
// measurement that is drawn twice agrees with itself; there the jackknife [Jackknife] leaves one measurement out at a
// time instead.
package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Mean returns the mean of x, NaN if x is empty. (gonum's stat.Mean adds in an order that depends on where in memory x
// lies, so that its last bits may differ from one run of a program to the next.)
func Mean(x []float64) float64 { return floats.SumCompensated(x) / float64(len(x)) }

// MeanStdDev returns the mean of x and its standard deviation, with n-1: NaN for a single value.
func MeanStdDev(x []float64) (mean, deviation float64) {
	n := float64(len(x))
	mean = Mean(x)
	return mean, math.Sqrt(stat.MomentAbout(2, x, mean, nil) * n / (n - 1))
}

// StdDev returns the standard deviation of x, with n-1.
func StdDev(x []float64) float64 {
	_, deviation := MeanStdDev(x)
	return deviation
}

// IQM returns the interquartile mean: the mean of x without its lowest and highest quarter, each rounded down to whole
// values, as in rliable (scipy.stats.trim_mean with 0.25). It is NaN if x is empty or has a NaN.
func IQM(x []float64) float64 {
	if floats.HasNaN(x) {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(x))
	cut := len(x) / 4
	return Mean(sorted[cut : len(x)-cut])
}

// Quantile returns the value below which the share p of x lies, interpolated linearly between neighbours (numpy's
// default).
func Quantile(x []float64, p float64) float64 {
	if len(x) == 0 || p < 0 || p > 1 {
		panic(fmt.Sprintf("stats: quantile %v of %d values", p, len(x)))
	}
	sorted := slices.Sorted(slices.Values(x))
	place := p * float64(len(x)-1)
	i := min(int(place), len(x)-2)
	if i < 0 {
		return sorted[0]
	}
	return sorted[i] + (place-float64(i))*(sorted[i+1]-sorted[i])
}

// Estimate is a statistic and the 95 % interval around it.
type Estimate struct{ Value, Low, High float64 }

// confidence is the share of the resampled values in an interval.
const confidence = 0.95

// Bootstrap returns the statistic of the strata with its percentile interval over resamples, each of which draws every
// stratum from itself with replacement. A stratum of one value never varies: an interval from such strata alone has no
// width, and no meaning. The statistic must not keep its argument.
func Bootstrap(strata [][]float64, resamples int, rng *rand.Rand, statistic func(strata [][]float64) float64) Estimate {
	drawn := make([][]float64, len(strata))
	for i, stratum := range strata {
		drawn[i] = make([]float64, len(stratum))
	}
	values := make([]float64, resamples)
	for r := range values {
		for i, stratum := range strata {
			for j := range drawn[i] {
				drawn[i][j] = stratum[rng.IntN(len(stratum))]
			}
		}
		values[r] = statistic(drawn)
	}
	return Estimate{
		Value: statistic(strata),
		Low:   Quantile(values, (1-confidence)/2),
		High:  Quantile(values, (1+confidence)/2),
	}
}

// Pooled makes a statistic of all strata together of one of values.
func Pooled(statistic func([]float64) float64) func([][]float64) float64 {
	return func(strata [][]float64) float64 { return statistic(slices.Concat(strata...)) }
}

// Difference makes a statistic of two strata, the first's value less the second's, of one of values.
func Difference(statistic func([]float64) float64) func([][]float64) float64 {
	return func(strata [][]float64) float64 { return statistic(strata[0]) - statistic(strata[1]) }
}

// ProbabilityOfImprovement returns the probability that a run of the first method is above one of the second on the
// same task, averaged over the tasks: the share of the pairs of runs in which it is, equal ones counting half (Mann and
// Whitney's U). The strata are the first method's tasks, then the second's. It is NaN if a run's value is.
func ProbabilityOfImprovement(strata [][]float64) float64 {
	tasks := len(strata) / 2
	if tasks == 0 || len(strata) != 2*tasks {
		panic(fmt.Sprintf("stats: probability of improvement of %d strata", len(strata)))
	}
	sum := 0.0
	for _, stratum := range strata {
		if floats.HasNaN(stratum) {
			return math.NaN()
		}
	}
	for task, first := range strata[:tasks] {
		second, wins := strata[tasks+task], 0.0
		for _, a := range first {
			for _, b := range second {
				switch {
				case a > b:
					wins++
				case a == b:
					wins += 0.5
				}
			}
		}
		sum += wins / float64(len(first)*len(second))
	}
	return sum / float64(tasks)
}

// Above makes a statistic of all runs: the share of them above a threshold, a point of their performance profile.
func Above(threshold float64) func([]float64) float64 {
	return func(x []float64) float64 {
		n := 0.0
		for _, v := range x {
			if v > threshold {
				n++
			}
		}
		return n / float64(len(x))
	}
}

// Jackknife returns the geometric mean of independent positive statistics, one a stratum, with the interval of its
// logarithm's jackknife deviation under a normal distribution. A stratum's part is
//
//	s² = (n-1)/n sum_i (log theta_i - mean)²,  theta_i the statistic without measurement i
//
// (Efron and Stein 1981) from n measurements, at least two.
func Jackknife(values []float64, without [][]float64) Estimate {
	center, variance := 0.0, 0.0
	for k, value := range values {
		n := float64(len(without[k]))
		if n < 2 {
			panic(fmt.Sprintf("stats: jackknife of %v values", n))
		}
		logs := make([]float64, len(without[k]))
		for i, v := range without[k] {
			logs[i] = math.Log(v)
		}
		variance += (n - 1) * (n - 1) / n * math.Pow(StdDev(logs), 2)
		center += math.Log(value)
	}
	center /= float64(len(values))
	half := distuv.UnitNormal.Quantile((1+confidence)/2) * math.Sqrt(variance) / float64(len(values))
	return Estimate{math.Exp(center), math.Exp(center - half), math.Exp(center + half)}
}

// Line is the straight line y = Intercept + Slope x through some points, and how much of their variance it explains.
type Line struct{ Intercept, Slope, R2 float64 }

// Fit returns the line of least squares through at least two points.
func Fit(x, y []float64) Line {
	if len(x) != len(y) || len(x) < 2 {
		panic(fmt.Sprintf("stats: a line through %d, %d values", len(x), len(y)))
	}
	intercept, slope := stat.LinearRegression(x, y, nil, false)
	return Line{intercept, slope, stat.RSquared(x, y, nil, intercept, slope)}
}

// RunningMean returns the mean of the last width values at each place, of fewer at the beginning.
func RunningMean(x []float64, width int) []float64 {
	out := make([]float64, len(x))
	for i := range x {
		out[i] = Mean(x[max(0, i+1-width) : i+1])
	}
	return out
}

// TrimmedMean returns the mean of x without its lowest and its highest share trim (0 for the mean, 0.25 for the
// interquartile mean, each rounded down to whole values), with its t interval: the standard error is that of the
// winsorized sample (Tukey and McLaughlin 1963),
//
//	s_w / ((1 - 2 g/n) sqrt(n)),  with n - 2g - 1 degrees of freedom,
//
// where g values are dropped at each end. It takes no resampling, and so suits hundreds of points at a time. With a
// single value left there is no interval: its ends are NaN. All are NaN if x is empty.
func TrimmedMean(x []float64, trim float64) Estimate {
	n := len(x)
	if trim < 0 || trim >= 0.5 {
		panic(fmt.Sprintf("stats: a mean trimmed by %v", trim))
	}
	if n == 0 {
		return Estimate{math.NaN(), math.NaN(), math.NaN()}
	}
	g := int(trim * float64(n))
	sorted := x
	if g > 0 {
		sorted = slices.Sorted(slices.Values(x))
	}
	e := Estimate{Mean(sorted[g : n-g]), math.NaN(), math.NaN()}
	left := n - 2*g
	if left < 2 {
		return e
	}
	winsorized := slices.Concat(sorted[g : n-g])
	for range g {
		winsorized = append(winsorized, sorted[g], sorted[n-g-1])
	}
	half := tQuantile(left-1) * StdDev(winsorized) * float64(n) / float64(left) / math.Sqrt(float64(n))
	e.Low, e.High = e.Value-half, e.Value+half
	return e
}

// tQuantile returns the quantile of Student's t distribution that bounds the central share confidence.
func tQuantile(degrees int) float64 {
	const tabulated = 200
	if degrees > tabulated { // where the two differ by less than a percent
		return distuv.UnitNormal.Quantile((1 + confidence) / 2)
	}
	return tQuantiles()[degrees-1]
}

var tQuantiles = sync.OnceValue(func() []float64 {
	all := make([]float64, 200)
	for i := range all {
		all[i] = distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(i + 1)}.Quantile((1 + confidence) / 2)
	}
	return all
})
