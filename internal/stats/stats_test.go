package stats

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// normal is the 97.5 % quantile of the standard normal distribution.
const normal = 1.959963984540054

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// What scipy.stats.trim_mean(x, 0.25), which is rliable's, gives.
func TestIQM(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want float64
	}{
		{[]float64{3}, 3},
		{[]float64{1, 5}, 3},
		{[]float64{1, 2, 30}, 11},      // a quarter of three is less than one
		{[]float64{100, 3, -50, 5}, 4}, // one of each end goes
		{[]float64{9, 1, 2, 3, 4}, 3},
		{[]float64{8, 7, 6, 5, 4, 3, 2, 1000}, 5.5},
	} {
		before := slices.Clone(c.x)
		near(t, "IQM", IQM(c.x), c.want, 1e-12)
		if !slices.Equal(c.x, before) {
			t.Errorf("IQM has sorted its argument")
		}
	}
	if !math.IsNaN(IQM(nil)) {
		t.Error("the IQM of nothing is a number")
	}
	if got := IQM([]float64{1, math.NaN(), 2, 3, 4}); !math.IsNaN(got) {
		t.Errorf("of values of which one is unknown %v", got)
	}
}

// numpy.quantile.
func TestQuantile(t *testing.T) {
	x := []float64{4, 1, 3, 2}
	for p, want := range map[float64]float64{0: 1, 1: 4, 0.5: 2.5, 0.1: 1.3, 0.975: 3.925} {
		near(t, "quantile", Quantile(x, p), want, 1e-12)
	}
	near(t, "quantile of one", Quantile([]float64{7}, 0.3), 7, 0)
}

// The bootstrap of the mean of many values is the normal interval, with the n deviation.
func TestBootstrapOfAMean(t *testing.T) {
	const n = 200
	x, squares := make([]float64, n), 0.0
	for i := range x {
		x[i] = float64(i)
		squares += math.Pow(float64(i)-(n-1)/2.0, 2)
	}
	half := normal * math.Sqrt(squares/n) / math.Sqrt(n)
	e := Bootstrap([][]float64{x}, 20000, rand.New(rand.NewPCG(1, 2)), Pooled(Mean))
	near(t, "mean", e.Value, (n-1)/2.0, 1e-12)
	near(t, "low", e.Low, e.Value-half, 0.03*half)
	near(t, "high", e.High, e.Value+half, 0.03*half)
}

// Within each stratum values are drawn from that stratum alone: constant strata leave nothing to chance, however far
// apart they are.
func TestBootstrapIsStratified(t *testing.T) {
	strata := [][]float64{{0, 0, 0}, {100, 100}}
	e := Bootstrap(strata, 500, rand.New(rand.NewPCG(1, 2)), Pooled(Mean))
	if e != (Estimate{40, 40, 40}) {
		t.Errorf("interval %+v, want 40 alone", e)
	}
	e = Bootstrap([][]float64{{1, 3}, {0, 0}}, 2000, rand.New(rand.NewPCG(1, 2)), Difference(Mean))
	if e != (Estimate{2, 1, 3}) { // a quarter of the resamples each are at the ends
		t.Errorf("difference %+v, want 2 in [1, 3]", e)
	}
}

// 95 % intervals hold the truth nearly as often as they claim to, for IQMs of normal values.
func TestBootstrapCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const trials, n = 400, 40
	covered := 0
	for range trials {
		x := make([]float64, n)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		if e := Bootstrap([][]float64{x}, 400, rng, Pooled(IQM)); e.Low <= 0 && 0 <= e.High {
			covered++
		}
	}
	near(t, "coverage", float64(covered)/trials, 0.94, 0.035)
}

// The same stream gives the same interval.
func TestBootstrapRepeats(t *testing.T) {
	x := [][]float64{{1, 2, 5, 9}}
	a := Bootstrap(x, 100, rand.New(rand.NewPCG(5, 6)), Pooled(IQM))
	if b := Bootstrap(x, 100, rand.New(rand.NewPCG(5, 6)), Pooled(IQM)); a != b {
		t.Errorf("%+v, then %+v", a, b)
	}
}

// The jackknife deviation of the mean is the classical standard error; values near 1 have logarithms near their
// differences from 1.
func TestJackknife(t *testing.T) {
	x := []float64{1.0001, 0.9999, 1.0003, 0.9997, 1.0002}
	n := float64(len(x))
	var without []float64
	sum, squares := 0.0, 0.0
	for _, v := range x {
		sum += v
	}
	for _, v := range x {
		without = append(without, (sum-v)/(n-1))
		squares += (v - sum/n) * (v - sum/n)
	}
	e := Jackknife([]float64{sum / n}, [][]float64{without})
	half := normal * math.Sqrt(squares/(n-1)/n)
	near(t, "high", e.High, sum/n+half, 1e-3*half)
	near(t, "low", e.Low, sum/n-half, 1e-3*half)

	// Four independent strata halve the deviation.
	four := Jackknife([]float64{2, 2, 8, 8}, [][]float64{without, without, without, without})
	near(t, "geometric mean", four.Value, 4, 1e-12)
	near(t, "half width", math.Log(four.High/four.Value), half/2, 1e-3*half)
}

func TestFit(t *testing.T) {
	line := Fit([]float64{1, 2, 3}, []float64{5, 7, 9})
	near(t, "intercept", line.Intercept, 3, 1e-12)
	near(t, "slope", line.Slope, 2, 1e-12)
	near(t, "R²", line.R2, 1, 1e-12)
	line = Fit([]float64{0, 1, 2, 3}, []float64{0, 2, 1, 3}) // numpy.polyfit and corrcoef²
	near(t, "intercept", line.Intercept, 0.3, 1e-12)
	near(t, "slope", line.Slope, 0.8, 1e-12)
	near(t, "R²", line.R2, 0.64, 1e-12)
}

func TestRunningMean(t *testing.T) {
	if got := RunningMean([]float64{1, 2, 3, 4, 5}, 2); !slices.Equal(got, []float64{1, 1.5, 2.5, 3.5, 4.5}) {
		t.Errorf("running means %v", got)
	}
}

func TestMeanStdDev(t *testing.T) {
	mean, deviation := MeanStdDev([]float64{1, 2, 3, 6})
	near(t, "mean", mean, 3, 1e-15)
	near(t, "deviation", deviation, math.Sqrt(14./3), 1e-15)
	if _, deviation := MeanStdDev([]float64{5}); !math.IsNaN(deviation) {
		t.Errorf("the deviation of one value is %v", deviation)
	}
}

// The same numbers have the same mean and deviation to the last bit, wherever in memory they lie.
func TestMeanStdDevRepeats(t *testing.T) {
	const seed = 3
	rng := rand.New(rand.NewPCG(seed, 0))
	for n := 1; n < 40; n++ {
		room := make([]float64, n+2)
		aligned, shifted := room[:n:n], slices.Clone(room)[1:n+1]
		for i := range aligned {
			aligned[i] = rng.NormFloat64()
		}
		copy(shifted, aligned)
		mean, deviation := MeanStdDev(aligned)
		again, deviationAgain := MeanStdDev(shifted)
		if mean != again || n > 1 && deviation != deviationAgain {
			t.Errorf("%d values: mean %v, then %v; deviation %v, then %v", n, mean, again, deviation, deviationAgain)
		}
	}
}

// What rliable 1.2.0 gives for scores of six and five runs on three tasks, one run's equal: values to rounding,
// intervals, which are of 20,000 random resamples there, to theirs. In testdata x and y have a row a run, a column a
// task.
func TestRliable(t *testing.T) {
	data, err := os.ReadFile("testdata/rliable.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		X, Y             [][]float64
		IQM, Improvement [3]float64
		Thresholds       []float64
		Profile          []float64
		Low              []float64 `json:"profile_low"`
		High             []float64 `json:"profile_high"`
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	byTask := func(runs [][]float64) [][]float64 {
		tasks := make([][]float64, len(runs[0]))
		for _, run := range runs {
			for task, score := range run {
				tasks[task] = append(tasks[task], score)
			}
		}
		return tasks
	}
	same := func(what string, strata [][]float64, statistic func([][]float64) float64, value, low, high,
		tolerance float64) {
		t.Helper()
		e := Bootstrap(strata, 20000, rand.New(rand.NewPCG(1, 2)), statistic)
		near(t, what, e.Value, value, 1e-12)
		near(t, what+", low", e.Low, low, tolerance)
		near(t, what+", high", e.High, high, tolerance)
	}
	x, y := byTask(want.X), byTask(want.Y)
	same("IQM", x, Pooled(IQM), want.IQM[0], want.IQM[1], want.IQM[2], 0.01)
	same("probability of improvement", slices.Concat(x, y), ProbabilityOfImprovement, want.Improvement[0],
		want.Improvement[1], want.Improvement[2], 0.012)
	for i, threshold := range want.Thresholds {
		// of 18 runs
		same(fmt.Sprintf("profile at %g", threshold), x, Pooled(Above(threshold)), want.Profile[i], want.Low[i],
			want.High[i], 1e-9)
	}
}

// Without trimming the interval is Student's; with it, the value is the interquartile mean, and of normal numbers the
// interval covers their mean about as often as it says.
func TestTrimmedMean(t *testing.T) {
	x := []float64{1, 2, 4, 9}
	e := TrimmedMean(x, 0)
	near(t, "mean", e.Value, 4, 1e-12)
	// the t distribution with three degrees of freedom
	near(t, "half width", (e.High-e.Low)/2, 3.182446305*StdDev(x)/2, 1e-6)
	const trials, seed = 4000, 11
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, trim := range []float64{0, 0.25} {
		covered := 0
		for range trials {
			sample := make([]float64, 12)
			for i := range sample {
				sample[i] = rng.NormFloat64()
			}
			e := TrimmedMean(sample, trim)
			if trim > 0 {
				near(t, "interquartile mean", e.Value, IQM(sample), 1e-12)
			}
			if e.Low <= 0 && 0 <= e.High {
				covered++
			}
		}
		// it is an approximation
		near(t, fmt.Sprintf("coverage with %v trimmed", trim), float64(covered)/trials, 0.95, 0.02)
	}
	if e := TrimmedMean([]float64{3}, 0); e.Value != 3 || e.Low == e.Low {
		t.Errorf("of one value: %v", e)
	}
	if e := TrimmedMean(nil, 0.25); e.Value == e.Value {
		t.Errorf("of none: %v", e)
	}
}
