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
)

// qualityArguments measure gradients of tiny runs on tiny batches.
func qualityArguments(out, at string, more ...string) []string {
	return append([]string{"gradient-quality", "--out", out, "--at", at, "--sizes", "100,200",
		"--repeats", "3", "--reference", "1000"}, more...)
}

// training lets gradient-quality train its own run.
var training = []string{"--env", "Hopper-v2", "--set", "batch=300", "--set", "rank=8"}

// The study trains a run, measures it, and measures nothing again; given the run by its directory it finds the same.
func TestQuality(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	mustStudy(t, qualityArguments(out, "0,2", training...)...)
	if got, want := len(rows(t, out, "gradients.csv")), 2*2*3*3; got != want {
		t.Errorf("gradients.csv has %d rows, want %d", got, want)
	}
	cells := rows(t, out, "quality.csv")
	if len(cells) != 2*2*3 {
		t.Errorf("quality.csv has %d rows", len(cells))
	}
	for _, cell := range cells {
		accuracy, err := strconv.ParseFloat(cell[4], 64)
		if err != nil || accuracy <= -1 || accuracy >= 1 {
			t.Errorf("accuracy %q in %v", cell[4], cell)
		}
		if variance, err := strconv.ParseFloat(cell[7], 64); err != nil || variance <= 0 {
			t.Errorf("variance %q in %v", cell[7], cell)
		}
	}
	pictures(t, filepath.Join(out, qualityName))
	page := read(t, out, pageName)
	contains(t, page, "# Quality of the gradients", "at the start of training DBQPG", "once kernels are learned", "is considerably lower",
		"drop by a factor of 3", "--reference 1000", "- s1, iteration 0:", "the baseline took away")

	before := changed(t, out)
	mustStudy(t, qualityArguments(out, "0,2", training...)...)
	requireUnchanged(t, filepath.Join(out, "units"), before)
	requireUnchanged(t, filepath.Join(out, "runs"), before)

	// A chunk that is missing is measured again with the baselines of those before it.
	lost := filepath.Join(out, "units", "s1", "iteration-2", "reference-002.safetensors")
	chunk := read(t, lost, "")
	if err := os.Remove(lost); err != nil {
		t.Fatal(err)
	}
	mustStudy(t, qualityArguments(out, "0,2", training...)...)
	if read(t, lost, "") != chunk {
		t.Error("a chunk of the reference came out otherwise the second time")
	}

	run, elsewhere := filepath.Join(out, "runs", "Hopper-v2", "vanilla-dbqpg", "s1"), filepath.Join(t.TempDir(), "elsewhere")
	mustStudy(t, qualityArguments(elsewhere, "0,2", "--run", run)...)
	if got, want := read(t, elsewhere, "quality.csv"), read(t, out, "quality.csv"); got != want {
		t.Errorf("by its directory the run has\n%s\nnot\n%s", got, want)
	}

	for more, want := range map[string]string{
		"--at 1,7":          "has checkpoints of the iterations [0 1 2], but none of [7]: train a run with --keep-checkpoints",
		"--reference 500":   "samples was 500 and is now 250",
		"--freeze":          "freeze was false and is now true",
		"--sampling-seed 2": "sampling_seed was 1 and is now 2",
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
}

// A run of Monte Carlo has no kernel to measure.
func TestQualityOfMonteCarlo(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	mustStudy(t, append([]string{"curves"}, tiny(out, "1", "--estimator", "mc", "--algorithm", "vanilla")...)...)
	err := study(t, qualityArguments(filepath.Join(out, "quality"), "0,2", "--run", filepath.Join(out, "runs", "Hopper-v2", "vanilla-mc", "s1"))...)
	if err == nil || !strings.Contains(err.Error(), "has learned no kernel") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(filepath.Join(out, "quality", "units")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was measured: %v", err)
	}
}

// A gram matrix tells what the covariance matrix does, with any gradient left out.
func TestGram(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n, p = 5, 7
	batches := make([]batch, n)
	for i := range batches {
		g := make([]float64, p)
		for k := range g {
			g[k] = rng.NormFloat64() + 1
		}
		batches[i] = batch{gradients: measured{"mc": g}}
	}
	g := gramOf(batches, monteCarlo)
	for without := -1; without < n; without++ {
		wantTrace, wantSquare := slowMoments(batches, without)
		trace, square := g.moments(without)
		if math.Abs(trace-wantTrace) > 1e-12*wantTrace || math.Abs(square-wantSquare) > 1e-12*wantSquare {
			t.Errorf("without %d: trace %v, |mean|² %v; want %v, %v", without, trace, square, wantTrace, wantSquare)
		}
	}
}

// slowMoments sums over components.
func slowMoments(batches []batch, without int) (trace, square float64) {
	for k := range batches[0].gradients["mc"] {
		var x []float64
		for i, b := range batches {
			if i != without {
				x = append(x, b.gradients["mc"][k])
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
