package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/learner/runs"
)

// writeEvaluations writes the table of a run whose return rises by a constant with each of 50 evaluations, beginning at
// 0, up to a million steps, and takes a second of processor time for each thousand steps and half as many again by the
// clock.
func writeEvaluations(t *testing.T, out, directory, algorithm string, seed int, rise float64) {
	t.Helper()
	var table strings.Builder
	table.WriteString("task,algorithm,seed,steps,seconds,cpu_seconds,episodes,return,sampled_return\n")
	for k := range 51 {
		steps := 20000 * k
		fmt.Fprintf(&table, "Hopper-v5,%s,%d,%d,%g,%g,5,%g,%g\n", algorithm, seed, steps, float64(steps)*1.5e-3,
			float64(steps)*1e-3, rise*float64(k), rise*float64(k)/2)
	}
	write(t, filepath.Join(out, directory, "Hopper-v5", fmt.Sprintf("%s-s%d.csv", algorithm, seed)), table.String())
}

// The page has what can be computed by hand of made-up runs, those that failed too, and does not change when it is
// rebuilt.
func TestBest(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "best")
	for seed := 601; seed <= 605; seed++ {
		writeEvaluations(t, out, "data", "trpo-uapg-best", seed, 60+float64(seed-601))
		writeEvaluations(t, out, "baselines", "trpo", seed, 80)
	}
	for seed := 601; seed <= 604; seed++ {
		writeEvaluations(t, out, "data", "trpo-mc-best", seed, 60)
	}
	writeEvaluations(t, out, "data", "trpo-mc-best", 605, -1)
	writeEvaluations(t, out, "data", "trpo-mc-best_gamma=0.9", 601, 70)
	write(t, filepath.Join(out, "baselines", "Hopper-v5", "trpo-s601.yaml"),
		"versions: {torch: 1.2.3, gymnasium: 4.5.6}\nprocessor: a processor\nsettings: {gamma: 0.9, policy_kwargs: "+
			"{net_arch: [64, 64]}}\n")
	write(t, filepath.Join(out, "baselines", "Hopper-v5", "short.csv"),
		"task,algorithm,seed,steps,seconds,cpu_seconds,return\nHopper-v5,trpo,9,0,0,0,1\n")
	mustStudy(t, "best", "--out", out)

	// The last tenth are evaluations 46 to 50: 48 on average. UAPG's differences are 0, 48, 96, 144 and 64 x 48 + 48.
	page := read(t, out, pageName)
	contains(t, page,
		"| Hopper-v5 | UAPG | 5 | 2976 [", "| 2880 (601), 2928 (602), 2976 (603), 3024 (604), 3072 (605) |",
		"| Hopper-v5 | MC | 5 | 2880 [", "-48 (605) |", "| Hopper-v5 | trpo-mc-best_gamma=0.9 | 1 | 3360 | 3360 "+
			"(601) |",
		"| Hopper-v5 | UAPG − MC | +96 [", "| Hopper-v5 | UAPG − TRPO (sb3-contrib) | -864 [",
		// 62 x 49 > 3000, not 60 x 50 in a row
		"| Hopper-v5 | UAPG | 980 s (3 of 5) | 980k (3 of 5) | 1000 s | 1500 s |",
		"| Hopper-v5 | MC | not by most (0 of 5) |", "| Hopper-v5 | TRPO (sb3-contrib) | 760 s (5 of 5) | 760k (5 of "+
			"5) |",
		"gymnasium 4.5.6, torch 1.2.3", "a processor", "go run ./learner/study best --out")
	finals := rows(t, out, "finals.csv")
	const want = "Hopper-v5,trpo-uapg-best,605,1000000,3072,1536,1500,1000,940000,940"
	if len(finals) != 16 || strings.Join(finals[15], ",") != want {
		t.Errorf("finals.csv has %d rows, the last is %v", len(finals), finals[len(finals)-1])
	}
	for _, name := range []string{"best", "time"} {
		pictures(t, filepath.Join(out, name))
	}
	names := []string{pageName, "finals.csv", "best.svg"}
	var before []string
	for _, name := range names {
		before = append(before, read(t, out, name))
	}
	mustStudy(t, "best", "--out", out, "--only-report")
	for i, name := range names {
		if read(t, out, name) != before[i] {
			t.Errorf("%s has changed", name)
		}
	}
}

// Evaluations of a complete run are published as they were measured, with the time until each; others are refused.
func TestBestPublishes(t *testing.T) {
	t.Parallel()
	directory, out := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "best")
	mustStudy(t, "train", "--env=Hopper-v5", "--preset=paper", "--algorithm=trpo", "--estimator=mc", "--seed=3",
		"--iterations=3", "--batch=300",
		"--evaluate-every=2", "--run-dir="+directory)
	if err := study(t, "best", "--out", out, directory); err == nil ||
		!strings.Contains(err.Error(), "there are no evaluations of a million steps") {
		t.Errorf("of a short run: %v", err)
	}
	got := rows(t, out, "data", "Hopper-v5", "trpo-mc-paper_batch=300-s3.csv")
	evaluations, err := runs.ReadCSV[runs.Evaluation](runs.Evaluations(directory))
	if err != nil {
		t.Fatal(err)
	}
	times, err := runs.ReadCSV[runs.Row](runs.ProgressFile(directory))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || len(evaluations) != 3 { // of checkpoints 0, 2 and 3
		t.Fatalf("%d rows of %d evaluations, want 3", len(got), len(evaluations))
	}
	for i, done := range []int{0, 2, 3} {
		seconds, processor := 0.0, 0.0
		for _, row := range times[:done] {
			seconds, processor = seconds+row.SecondsSampling+row.SecondsUpdating, processor+row.SecondsProcessor
		}
		if done > 0 && processor <= 0 {
			t.Errorf("%d iterations took %g s of the processor", done, processor)
		}
		want := []string{"Hopper-v5", "trpo-mc-paper_batch=300", "3", fmt.Sprint(evaluations[i].Steps),
			rounded(seconds, 4), rounded(processor, 4),
			rounded(evaluations[i].MeanReturn, 6), rounded(evaluations[i].SampledReturn, 6)}
		if strings.Join(got[i], ",") != strings.Join(want, ",") {
			t.Errorf("row %d: %q, want %q", i, got[i], want)
		}
	}
	write(t, filepath.Join(directory, "config.yaml"), strings.Replace(read(t, directory, "config.yaml"),
		"iterations: 3", "iterations: 4", 1))
	if err := study(t, "best", "--out", out, directory); err == nil ||
		!strings.Contains(err.Error(), "is not complete") {
		t.Errorf("an incomplete run: %v", err)
	}
}

// Tables that are no evaluations are errors that name the place.
func TestBestErrors(t *testing.T) {
	t.Parallel()
	const header = "task,algorithm,seed,steps,seconds,cpu_seconds,return\n"
	for text, want := range map[string]string{
		"":                                       "there are no evaluations",
		"task,algorithm\nHopper-v5,trpo\n":       `no column "seed"`,
		header + "Hopper-v5,trpo,1,0,0,0,high\n": "a.csv:2: return",
		header + "Hopper-v5,trpo,1,0,0,0,\n":     "a.csv: row 1: the steps or the return",
		header + "Hopper-v5,trpo,1,inf,0,0,1\n":  "a.csv: row 1: the steps or the return",
		header + "Hopper-v5,trpo,1,5,0,0,1\nHopper-v5,trpo,1,5,0,0,1\n": "a.csv: row 2: steps do not increase",
	} {
		out := t.TempDir()
		if text != "" {
			write(t, filepath.Join(out, "baselines", "Hopper-v5", "a.csv"), text)
		}
		if err := study(t, "best", "--out", out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	out := t.TempDir()
	for _, name := range []string{"a", "b"} {
		write(t, filepath.Join(out, "baselines", "Hopper-v5", name+".csv"), header+"Hopper-v5,trpo,1,5,0,0,1\n")
	}
	if err := study(t, "best", "--out", out); err == nil ||
		!strings.Contains(err.Error(), "b.csv: trpo, Hopper-v5, 1 has a table of its own already") {
		t.Errorf("two tables of a run: %v", err)
	}
}

// The page has what can be computed by hand of a made-up run, does not change when it is rebuilt, and is not made of
// too little.
func TestCalibration(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	rows := []string{"iteration,steps,coverage_50,coverage_90,held_out_log_likelihood,gaussian_log_likelihood"}
	for i := range 120 { // the first 20 do not count; the next 50 are at 0.40 and 0.90, the last 50 at 0.56 and 0.80
		first, second, held := 0.1, 0.2, -9.0
		switch {
		case i >= 70:
			first, second, held = 0.56, 0.8, -1
		case i >= 20:
			first, second, held = 0.4, 0.9, -1.5
		}
		rows = append(rows, fmt.Sprintf("%d,%d,%g,%g,%g,-2", i, 2000*(i+1), first, second, held))
	}
	path := filepath.Join(out, "data", "Hopper-v5", "trpo-uapg-best-s1.csv")
	write(t, path, strings.Join(rows, "\n")+"\n")
	mustStudy(t, "calibration", "--out", out)
	page := read(t, out, pageName)
	contains(t, page, "| Hopper-v5 | trpo-uapg-best-s1 | 48 % (40 to 56) | 85 % (80 to 90) | not recorded | not "+
		"recorded | 0.75 (0.5 to 1) |")
	pictures(t, filepath.Join(out, "calibration"))
	mustStudy(t, "calibration", "--out", out)
	if read(t, out, pageName) != page {
		t.Error("the page has changed")
	}

	// The normal distributions' coverage, if there is one, and but for a batch of which nothing is known.
	normal := []string{rows[0] + ",normal_coverage_50,normal_coverage_90"}
	for i, row := range rows[1:] {
		if i == 100 {
			row = "100,202000,,,,,,"
		} else {
			row += ",0.6,0.9"
		}
		normal = append(normal, row)
	}
	write(t, path, strings.Join(normal, "\n")+"\n")
	mustStudy(t, "calibration", "--out", out)
	contains(t, read(t, out, pageName), "| 60 % (60 to 60) | 90 % (90 to 90) | 0.747 (0.5 to 1) |")

	// A value function leaves 1 of 10 in all batches of the first four fifths and in half of the last one's; in the
	// others, with next to nothing to explain, 0.9 of 1. Another seed leaves 5 of 10 in all of its batches: 118.8 of
	// 1092 and 600 of 1200.
	lasting, other := []string{rows[0] + ",target_std,explained_variance"},
		[]string{rows[0] + ",target_std,explained_variance"}
	for i, row := range rows[1:] {
		other = append(other, row+",2.236068,0.5")
		if i >= 96 && i%2 == 0 {
			row += ",0.9486833,0.1"
		} else {
			row += ",1,0.9"
		}
		lasting = append(lasting, row)
	}
	write(t, path, strings.Join(lasting, "\n")+"\n")
	mustStudy(t, "calibration", "--out", out)
	contains(t, read(t, out, pageName), "| Hopper-v5 | trpo-uapg-best | 0.891 |")
	write(t, filepath.Join(out, "data", "Hopper-v5", "trpo-uapg-best-s2.csv"), strings.Join(other, "\n")+"\n")
	mustStudy(t, "calibration", "--out", out)
	contains(t, read(t, out, pageName), "| Hopper-v5 | trpo-uapg-best | 0.686 |")
	write(t, path, strings.Join(rows[:20], "\n")+"\n")
	if err := study(t, "calibration", "--out", out); err == nil ||
		!strings.Contains(err.Error(), "from iteration 20 on") {
		t.Errorf("a run of 19 iterations: %v", err)
	}
}

// The page's numbers on a golden batch at the paper's noise: the plain integral of a truncated kernel is far from the
// exact gradient, the completed one close.
func TestIntegrals(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "integrals")
	mustStudy(t, "integrals", "--out", out, "--batch", "../../estimators/testdata/swimmer_returns.npz", "--noises",
		"1e-4", "--ranks", "10")
	for _, c := range []struct {
		state, integral string
		low, high       float64
	}{{"1", "plain", -1, 0.5}, {"1", "completed", 0.99, 1}, {"0", "plain", -1, 0.5},
		{"0", "completed", 0.999, 1 + 1e-12}} {
		found := false
		for _, row := range rows(t, out, "cosines.csv") {
			if row[1] == c.state && row[3] == c.integral && row[4] == "10" {
				x, err := strconv.ParseFloat(row[5], 64)
				if found = true; err != nil || x < c.low || x > c.high {
					t.Errorf("c1 %s, %s: cosine %s, want between %g and %g", c.state, c.integral, row[5], c.low, c.high)
				}
			}
		}
		if !found {
			t.Errorf("c1 %s, %s is missing", c.state, c.integral)
		}
	}
	contains(t, read(t, out, pageName), "| swimmer_returns | 1 | 0.0001 |")
	pictures(t, filepath.Join(out, "integrals"))
	for want, arguments := range map[string][]string{
		"--batch or --run":   {},
		"want positive":      {"--batch", "x.npz", "--noises", "0"},
		"--ranks: give some": {"--batch", "x.npz", "--ranks", "10,0"},
		"no such file":       {"--batch", "absent.npz"},
		"no run's directory": {"--run", t.TempDir()},
	} {
		err := study(t, append([]string{"integrals", "--out", filepath.Join(t.TempDir(), "out")}, arguments...)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want an error that says %q", arguments, err, want)
		}
	}
}

// qualityArguments measure gradients of tiny runs on tiny batches.
func qualityArguments(out, at string, more ...string) []string {
	return append([]string{"gradient-quality", "--out", out, "--at", at, "--sizes", "100,200",
		"--repeats", "3", "--reference", "1000"}, more...)
}

// ownRun lets gradient-quality train its own run.
var ownRun = []string{"--env", "Hopper-v2", "--set", "batch=300", "--set", "rank=8"}

// The study trains a run, measures it, and measures nothing again; given the run by its directory it finds the same.
// The page follows from what is published.
func TestQuality(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	mustStudy(t, qualityArguments(out, "0,2", ownRun...)...)
	const all = 3 * (1 + 2*2) // targets, MC, and DBQPG and UAPG with two posteriors
	for _, name := range []string{"iteration-0.csv", "iteration-2.csv"} {
		if got, want := len(rows(t, out, "data", "Hopper-v2", name)), 2*3*all; got != want {
			t.Errorf("%s has %d rows, want %d", name, got, want)
		}
	}
	// Two sizes, three kinds of targets, two posteriors, eight directions: the damping adds to the predictions.
	uncertain := rows(t, out, "data", "Hopper-v2", "uncertainty-2.csv")
	if len(uncertain) != 2*3*2*8 {
		t.Errorf("uncertainty-2.csv has %d rows", len(uncertain))
	}
	number := func(text string) float64 {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Error(err)
		}
		return x
	}
	for _, row := range uncertain {
		if x := []float64{number(row[3]), number(row[4]), number(row[5])}; !(x[0] > x[1] && x[1] > 0 && x[2] > 0) {
			t.Errorf("predicted, undamped, measured: %v", row)
		}
	}
	cells := rows(t, out, "quality.csv")
	if len(cells) != 2*2*all {
		t.Errorf("quality.csv has %d rows", len(cells))
	}
	for _, cell := range cells {
		if !(math.Abs(number(cell[7])) < 1 && number(cell[10]) > 0) {
			t.Errorf("accuracy and variance of %v", cell)
		}
		if cell[8] != "" || cell[9] != "" {
			t.Errorf("three repeats have an interval: %v", cell)
		}
	}
	// No step gains more than the reference's natural one but by the metric's noise; the plain one of the same gradient
	// gains another share, and that of training's targets is not that of lambda = 1.
	gains := map[string]bool{}
	for _, row := range rows(t, out, "efficiency.csv") {
		natural, plain := number(row[7]), number(row[10])
		if !(math.Abs(natural) < 1.5 && math.Abs(plain) < 1.5) || natural == plain || gains[row[7]] {
			t.Errorf("step efficiency of %v", row)
		}
		gains[row[7]] = true
	}
	if len(gains) != 2*2*all {
		t.Errorf("efficiency.csv has %d rows", len(gains))
	}
	for _, name := range []string{"accuracy", "variance", "efficiency"} {
		pictures(t, filepath.Join(out, name))
	}
	page := read(t, out, pageName)
	contains(t, page, "# Quality of the gradients", "at the start of training DBQPG", "once kernels are learned",
		"is considerably lower",
		"fewer than five: cannot tell |", "--reference 1000", "| Hopper-v2 | 2 |", "measured by")

	before := changed(t, out)
	mustStudy(t, qualityArguments(out, "0,2", ownRun...)...)
	requireUnchanged(t, filepath.Join(out, "data"), before)
	requireUnchanged(t, filepath.Join(out, "runs"), before)

	run, elsewhere := filepath.Join(out, "runs", "Hopper-v2", "trpo-dbqpg", "s1"),
		filepath.Join(t.TempDir(), "elsewhere")
	mustStudy(t, qualityArguments(elsewhere, "0,2", "--run", run)...)
	if got, want := read(t, elsewhere, "quality.csv"), read(t, out, "quality.csv"); got != want {
		t.Errorf("by its directory the run has\n%s\nnot\n%s", got, want)
	}

	for more, want := range map[string]string{
		"--at 1,7": "has checkpoints of the iterations [0 1 2], but none of [7]: train a run with " +
			"--keep-checkpoints",
		"--reference 500": "measurement was sizes [100 200], 3 repeats, reference 1000, sampling seed 1 and is now",
		"--run " + run:    "is a run of the same name",
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

	for _, place := range []string{"runs", "quality.csv"} {
		if err := os.RemoveAll(filepath.Join(out, place)); err != nil {
			t.Fatal(err)
		}
	}
	mustStudy(t, qualityArguments(out, "0,2", append(ownRun, "--only-report")...)...)
	if read(t, out, pageName) != page {
		t.Error("from the data alone the page is another")
	}
	write(t, filepath.Join(out, "data", "Hopper-v2", "iteration-2.csv"),
		"size,samples,targets,estimator,posterior,cosine,norm,along,gain\n100,100,returns,mc,,1,1,1,1\n")
	if err := study(t, qualityArguments(out, "0,2", "--only-report")...); err == nil ||
		!strings.Contains(err.Error(), "has 1 batch of size 100") {
		t.Errorf("of a table cut short: %v", err)
	}
}

// A run of Monte Carlo has no kernel to measure, one of other settings no learned posterior.
func TestQualityOfOtherRuns(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	mustStudy(t, append([]string{"curves"}, tiny(out, "1", "--estimator", "mc,dbqpg", "--algorithm", "vanilla")...)...)
	for run, want := range map[string]string{"vanilla-mc": "has no value function of its own",
		"vanilla-dbqpg": "such as --preset best"} {
		err := study(t, qualityArguments(filepath.Join(out, "quality"), "0,2", "--run",
			filepath.Join(out, "runs", "Hopper-v2", run, "s1"))...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(out, "quality", "data")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was measured: %v", err)
	}
	if err := study(t, qualityArguments(filepath.Join(out, "nothing"), "0", "--only-report")...); err == nil ||
		!strings.Contains(err.Error(), "nothing is measured yet") {
		t.Errorf("error %v", err)
	}
}
