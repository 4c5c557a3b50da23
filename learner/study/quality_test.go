package study

import (
	"errors"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
)

// qualityArguments measure gradients of tiny runs on tiny batches.
func qualityArguments(out, at string, more ...string) []string {
	return append([]string{"gradient-quality", "--out", out, "--at", at, "--sizes", "100,200",
		"--repeats", "3", "--reference", "1000"}, more...)
}

// training lets gradient-quality train its own run.
var training = []string{"--env", "Hopper-v2", "--set", "batch=300", "--set", "rank=8"}

// The study trains a run, measures it, and measures nothing again; given the run by its directory it finds the same. The
// page follows from what is published.
func TestQuality(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	mustStudy(t, qualityArguments(out, "0,2", training...)...)
	all := len(estimations())
	for _, name := range []string{"iteration-0.csv", "iteration-2.csv"} {
		if got, want := len(rows(t, out, "data", "Hopper-v2", name)), 2*3*all; got != want {
			t.Errorf("%s has %d rows, want %d", name, got, want)
		}
	}
	// Two sizes, two kinds of targets, two posteriors, eight directions: the damping adds to the predictions.
	uncertain := rows(t, out, "data", "Hopper-v2", "uncertainty-2.csv")
	if len(uncertain) != 2*2*2*8 {
		t.Errorf("uncertainty-2.csv has %d rows", len(uncertain))
	}
	for _, row := range uncertain {
		var x [3]float64
		for i := range x {
			x[i], _ = strconv.ParseFloat(row[3+i], 64)
		}
		if !(x[0] > x[1] && x[1] > 0 && x[2] > 0) {
			t.Errorf("predicted, undamped, measured: %v", row)
		}
	}
	cells := rows(t, out, "quality.csv")
	if len(cells) != 2*2*all {
		t.Errorf("quality.csv has %d rows", len(cells))
	}
	for _, cell := range cells {
		accuracy, err := strconv.ParseFloat(cell[7], 64)
		if err != nil || accuracy <= -1 || accuracy >= 1 {
			t.Errorf("accuracy %q in %v", cell[7], cell)
		}
		if cell[8] != "" || cell[9] != "" {
			t.Errorf("three repeats have an interval: %v", cell)
		}
		if variance, err := strconv.ParseFloat(cell[10], 64); err != nil || variance <= 0 {
			t.Errorf("variance %q in %v", cell[10], cell)
		}
		if gain, err := strconv.ParseFloat(cell[16], 64); err != nil || math.Abs(gain) > 1.5 {
			t.Errorf("gain %q in %v", cell[16], cell)
		}
	}
	for _, name := range []string{"accuracy", "variance"} {
		pictures(t, filepath.Join(out, name))
	}
	page := read(t, out, pageName)
	contains(t, page, "# Quality of the gradients", "at the start of training DBQPG", "once kernels are learned", "is considerably lower", "| later, more accurate | **too few repeats** (1) |",
		"drop by a factor of 3", "--reference 1000", "| Hopper-v2, 2 |")

	before := changed(t, out)
	mustStudy(t, qualityArguments(out, "0,2", training...)...)
	requireUnchanged(t, filepath.Join(out, "units"), before)
	requireUnchanged(t, filepath.Join(out, "runs"), before)

	// A chunk that is missing is measured again with the baselines of those before it.
	lost := filepath.Join(out, "units", "Hopper-v2", "iteration-2", "reference-002.safetensors")
	chunk := read(t, lost)
	if err := os.Remove(lost); err != nil {
		t.Fatal(err)
	}
	mustStudy(t, qualityArguments(out, "0,2", training...)...)
	if read(t, lost) != chunk {
		t.Error("a chunk of the reference came out otherwise the second time")
	}

	run, elsewhere := filepath.Join(out, "runs", "Hopper-v2", "trpo-dbqpg", "s1"), filepath.Join(t.TempDir(), "elsewhere")
	mustStudy(t, qualityArguments(elsewhere, "0,2", "--run", run)...)
	if got, want := read(t, elsewhere, "quality.csv"), read(t, out, "quality.csv"); got != want {
		t.Errorf("by its directory the run has\n%s\nnot\n%s", got, want)
	}

	for more, want := range map[string]string{
		"--at 1,7":          "has checkpoints of the iterations [0 1 2], but none of [7]: train a run with --keep-checkpoints",
		"--reference 500":   "samples was 500 and is now 250",
		"--sampling-seed 2": "sampling_seed was 1 and is now 2",
		"--run " + run:      "is a run of the same name",
	} {
		at, more := "0,2", strings.Fields(more)
		if more[0] == "--at" {
			at, more = more[1], nil
		}
		err := study(t, qualityArguments(elsewhere, at, append(more, "--run", run)...)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", more, err, want)
		}
	}

	for _, place := range []string{"units", "runs", "quality.csv"} {
		if err := os.RemoveAll(filepath.Join(out, place)); err != nil {
			t.Fatal(err)
		}
	}
	mustStudy(t, qualityArguments(out, "0,2", append(training, "--only-report")...)...)
	if read(t, out, pageName) != page {
		t.Error("from the data alone the page is another")
	}
	write(t, filepath.Join(out, "data", "Hopper-v2", "iteration-2.csv"), "size,samples,targets,estimator,posterior,cosine,norm,along,gain\n100,100,returns,mc,,1,1,1,1\n")
	if err := study(t, qualityArguments(out, "0,2", "--only-report")...); err == nil || !strings.Contains(err.Error(), "has 1 batch of size 100") {
		t.Errorf("of a table cut short: %v", err)
	}
}

// A run of Monte Carlo has no kernel to measure, one of other settings no learned posterior.
func TestQualityOfOtherRuns(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	mustStudy(t, append([]string{"curves"}, tiny(out, "1", "--estimator", "mc,dbqpg", "--algorithm", "vanilla")...)...)
	for run, want := range map[string]string{"vanilla-mc": "has no value function of its own", "vanilla-dbqpg": "such as --preset best"} {
		err := study(t, qualityArguments(filepath.Join(out, "quality"), "0,2", "--run", filepath.Join(out, "runs", "Hopper-v2", run, "s1"))...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(out, "quality", "units")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was measured: %v", err)
	}
	if err := study(t, qualityArguments(filepath.Join(out, "nothing"), "0", "--only-report")...); err == nil || !strings.Contains(err.Error(), "nothing is measured yet") {
		t.Errorf("error %v", err)
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
	var r repeated
	for _, g := range gradients {
		r = append(r, estimated{norm: floats.Norm(g, 2), along: floats.Dot(g, sum) / floats.Norm(sum, 2)})
	}
	for without := -1; without < n; without++ {
		wantTrace, wantSquare := slowMoments(gradients, without)
		trace, square := r.moments(without)
		if math.Abs(trace-wantTrace) > 1e-12*wantTrace || math.Abs(square-wantSquare) > 1e-12*wantSquare {
			t.Errorf("without %d: trace %v, |mean|² %v; want %v, %v", without, trace, square, wantTrace, wantSquare)
		}
	}
}

// Contenders whose numbers are known differ by what is known: the first is more accurate by 0.2, and scatters half as much.
func TestContrast(t *testing.T) {
	one, other := estimation{lessValues, "uapg", learned}, estimation{lessValues, "dbqpg", learned}
	q := &quality{sizes: []uint{1, 2}, batches: map[estimation]map[uint][]estimated{one: {}, other: {}}}
	rng := rand.New(rand.NewPCG(3, 4))
	for _, size := range q.sizes {
		for range 6 {
			x, y := rng.NormFloat64(), rng.NormFloat64()
			q.batches[one][size] = append(q.batches[one][size], estimated{cosine: 0.7 + 0.05*x, norm: 1.5, along: 1.4, gain: 0.5 + y})
			q.batches[other][size] = append(q.batches[other][size], estimated{cosine: 0.5 + 0.1*x, norm: 3, along: 2.8, gain: y})
		}
	}
	c := q.compare(one, other)
	for what, pair := range map[string][2]float64{
		"gain": {c.gain.Value, 0.5}, "its spread": {c.gainSpread.Value, 1}, "spread": {c.cosineSpread.Value, 0.5}, "variance": {c.variance.Value, 1},
	} {
		if math.Abs(pair[0]-pair[1]) > 1e-12 {
			t.Errorf("%s: %v, want %v", what, pair[0], pair[1])
		}
	}
	if !(c.cosine.Low < 0.2 && 0.2 < c.cosine.High && c.cosine.Low > 0.1) || math.Abs(c.cosineSpread.High-0.5) > 1e-12 {
		t.Errorf("cosine %v, spread %v", c.cosine, c.cosineSpread)
	}
	for _, x := range []struct {
		m    measure
		r    relation
		want outcome
	}{
		{accuracyMeasure, above, agrees}, {accuracyMeasure, alike, contradicts}, {spreadMeasure, above, agrees},
		{gainMeasure, above, agrees}, {varianceMeasure, alike, agrees}, {gainSpread, alike, agrees},
	} {
		if got := x.m.judge(x.r, c); got != x.want {
			t.Errorf("%s: %v, want %v", x.m.name, got, x.want)
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
		mean := 0.0
		for _, v := range x {
			mean += v / float64(len(x))
		}
		for _, v := range x {
			trace += (v - mean) * (v - mean) / float64(len(x)-1)
		}
		square += mean * mean
	}
	return trace, square
}
