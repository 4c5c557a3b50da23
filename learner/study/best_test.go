package study

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/learner/session"
)

// writeEvaluations writes the table of a run whose return rises by a constant with each of 50 evaluations, beginning at 0, up to
// a million steps, and takes a second of processor time for each thousand steps and half as many again by the clock.
func writeEvaluations(t *testing.T, out, directory, task, algorithm string, seed int, rise float64) {
	t.Helper()
	var table strings.Builder
	table.WriteString("task,algorithm,seed,steps,seconds,cpu_seconds,episodes,return,sampled_return\n")
	for k := range 51 {
		steps := 20000 * k
		fmt.Fprintf(&table, "%s,%s,%d,%d,%g,%g,5,%g,%g\n", task, algorithm, seed, steps, float64(steps)*1.5e-3, float64(steps)*1e-3, rise*float64(k), rise*float64(k)/2)
	}
	write(t, filepath.Join(out, directory, task, fmt.Sprintf("%s-s%d.csv", algorithm, seed)), table.String())
}

// The page has what can be computed by hand of made-up runs, says what is missing, and does not change when it is rebuilt.
func TestBest(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "best")
	for seed := 1; seed <= 5; seed++ {
		writeEvaluations(t, out, "data", "Hopper-v4", "trpo-uapg-best", seed, 60)
		writeEvaluations(t, out, "baselines", "Hopper-v4", "trpo", seed, 40)
	}
	writeEvaluations(t, out, "data", "Hopper-v4", "trpo-mc-best", 1, 50)
	writeEvaluations(t, out, "data", "Hopper-v4", "trpo-uapg-best_gamma=0.9", 1, 10)
	writeEvaluations(t, out, "data", "Hopper-v4", "trpo-uapg-best_gamma=0.8", 6, 10) // a seed that UAPG has not
	writeEvaluations(t, out, "data", "Hopper-v4", "trpo-mc-best_gamma=0.9", 1, 55)
	write(t, filepath.Join(out, "baselines", "Hopper-v4", "trpo-s1.yaml"), "versions: {torch: 1.2.3, gymnasium: 4.5.6}\nprocessor: a processor\nsettings: {gamma: 0.9, policy_kwargs: {net_arch: [64, 64]}}\n")
	mustStudy(t, "best", "--out", out)

	// The last tenth are evaluations 46 to 50: 48 on average.
	page := read(t, out, pageName)
	contains(t, page,
		"| Hopper-v4 | 2880 (5 of 10) | 2400 (1 of 10) | 1920 (5 of 5) | missing (0 of 5) |",
		"| Walker2d-v4 | missing (0 of 10) | missing (0 of 10) | missing (0 of 5) | missing (0 of 5) |",
		"| Hopper-v4 | 1440 (5 of 10) | 1200 (1 of 10) | +240 |", // with sampled actions
		"| Hopper-v4 | 1000 s (1500 s) | 1000 s (1500 s) | 1000 s (1500 s) | missing |",
		"| Hopper-v4 | 1000 | 340k (5 of 5) | 400k (1 of 1) | 500k (5 of 5) | missing |", // 60 x 17 = 1020, 50 x 20, 40 x 25
		"| Hopper-v4 | 2000 | 680k (5 of 5) | 800k (1 of 1) | not by most (0 of 5) | missing |",
		"| Hopper-v4 | 1000 | 340 s (5 of 5) |",
		"| Hopper-v4 | +960 | missing | +480 | 1 |",
		"UAPG above TRPO (sb3-contrib) on 7 of 7 tasks: **not known yet**; it is on 1 of 1 compared, on 1 beyond the scatter of the runs. Not compared, because runs are missing: Swimmer-v4, Walker2d-v4,",
		"In a tenth of the processor time of TRPO (sb3-contrib), on all tasks: **not reached**; on 0 of 1 compared.",
		"## Returns after 3 million steps No run has come so far.", "## Steps to a return, within 1 million",
		"| Hopper-v4 | trpo-uapg-best_gamma=0.9 | 480 (1 of 1) | -2400 (UAPG) | 1000 s |",
		"| Hopper-v4 | trpo-uapg-best_gamma=0.8 | 480 (1 of 1) | missing | 1000 s |",
		"| Hopper-v4 | trpo-mc-best_gamma=0.9 | 2640 (1 of 1) | +240 (MC) | 1000 s |",
		"gymnasium 4.5.6, torch 1.2.3 on a processor", "go run ./learner study best --out")
	if n := len(rows(t, out, "finals.csv")); n != 14 {
		t.Errorf("finals.csv has %d rows, want one a run", n)
	}
	if n := len(rows(t, out, "thresholds.csv")); n != 3*11 {
		t.Errorf("thresholds.csv has %d rows, want three a run of a contender", n)
	}
	pictures(t, filepath.Join(out, "best"))

	names := []string{pageName, "finals.csv", "thresholds.csv", "best.svg"}
	var before []string
	for _, name := range names {
		before = append(before, read(t, out, name))
	}
	mustStudy(t, "best", "--out", out)
	for i, name := range names {
		if read(t, out, name) != before[i] {
			t.Errorf("%s has changed", name)
		}
	}
}

// Runs that have no steps in common, and times that are not known, make a page too.
func TestBestWithGaps(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	write(t, filepath.Join(out, "baselines", "Hopper-v4", "a.csv"), strings.Join([]string{"task,algorithm,seed,steps,seconds,cpu_seconds,return",
		"Hopper-v4,trpo,1,0,0,0,1", "Hopper-v4,trpo,2,2000,,,3", "Hopper-v4,trpo,2,1000000,,,4", "Hopper-v4,ppo,1,0,,,3", "Hopper-v4,ppo,1,5,,,4", ""}, "\n"))
	mustStudy(t, "best", "--out", out)
	contains(t, read(t, out, pageName), "| Hopper-v4 | missing (0 of 10) | missing (0 of 10) | 4 (1 of 5) | missing (0 of 5) |", "| Hopper-v4 | missing | missing | - s (- s) | missing |")
}

// Variants alone make a page without a figure.
func TestBestOfVariants(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	writeEvaluations(t, out, "data", "Hopper-v4", "trpo-uapg-best_gamma=0.9", 1, 10)
	mustStudy(t, "best", "--out", out)
	page := read(t, out, pageName)
	contains(t, page, "| Hopper-v4 | trpo-uapg-best_gamma=0.9 | 480 (1 of 1) | missing | 1000 s |", "What made the runs is not recorded")
	if strings.Contains(page, "With sampled actions") {
		t.Error("a table without a row")
	}
}

// A threshold counts as reached when two evaluations in a row, within the steps, are not below it.
func TestReached(t *testing.T) {
	e := &evaluated{steps: []float64{0, 10, 20, 30, 40, 50, 60, 70, 80}, returns: []float64{0, 7, 3, 5, 6, 8, 2, 9, 9}}
	for least, want := range map[float64]int{0: 0, 3: 1, 4: 3, 5: 3, 6: 4, 7: -1, 9: -1} {
		if got := e.reached(least, 60); got != want {
			t.Errorf("%g is reached at %d, want %d", least, got, want)
		}
	}
}

// Evaluations of a complete run are published as they were measured, with the time until each; others are refused.
func TestBestPublishes(t *testing.T) {
	t.Parallel()
	directory, out := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "best")
	settings, err := resolve([]assignment{{"env", "Hopper-v4"}, papers, {"algorithm", "trpo"}, {"estimator", "mc"},
		{"seed", "3"}, {"iterations", "3"}, {"batch", "300"}, {"evaluate_every", "2"}, {"run_dir", directory}}...)
	if err != nil {
		t.Fatal(err)
	}
	silent, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	training := session.Config{Settings: settings, Display: runs.NewDisplay(silent), Log: slog.New(slog.DiscardHandler)}
	if err := session.Train(t.Context(), training); err != nil {
		t.Fatal(err)
	}
	mustStudy(t, "best", "--out", out, directory)
	got := rows(t, out, "data", "Hopper-v4", "trpo-mc-paper_batch=300-s3.csv")
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
		want := []string{"Hopper-v4", "trpo-mc-paper_batch=300", "3", fmt.Sprint(evaluations[i].Steps), short(seconds, otherDigits), short(processor, otherDigits), short(evaluations[i].MeanReturn, returnDigits), short(evaluations[i].SampledReturn, returnDigits)}
		if strings.Join(got[i], ",") != strings.Join(want, ",") {
			t.Errorf("row %d: %q, want %q", i, got[i], want)
		}
	}
	write(t, filepath.Join(directory, "config.yaml"), strings.Replace(read(t, directory, "config.yaml"), "iterations: 3", "iterations: 4", 1))
	if err := study(t, "best", "--out", out, directory); err == nil || !strings.Contains(err.Error(), "is not complete") {
		t.Errorf("an incomplete run: %v", err)
	}
}

// Tables that are no evaluations are errors that name the place.
func TestBestErrors(t *testing.T) {
	t.Parallel()
	const header = "task,algorithm,seed,steps,seconds,cpu_seconds,return\n"
	for text, want := range map[string]string{
		"":                                       "there are no evaluations",
		"task,algorithm\nHopper-v4,trpo\n":       `no column "seed"`,
		header + "Hopper-v9,trpo,1,0,0,0,1\n":    "there are no evaluations",
		header + "Hopper-v4,trpo,x,0,0,0,1\n":    "a.csv:2: seed",
		header + "Hopper-v4,trpo,1,0,0,0,high\n": "a.csv:2: return",
		header + "Hopper-v4,trpo,1,0,0,0,\n":     "a.csv:2: the steps or the return",
		header + "Hopper-v4,trpo,1,inf,0,0,1\n":  "a.csv:2: the steps or the return",
		header + "Hopper-v4,trpo,1,5,0,0,1\nHopper-v4,trpo,1,5,0,0,1\n":                           "a.csv:3: steps do not increase",
		header + "Hopper-v4,trpo,1,5,0,0,1\nHopper-v4,trpo,2,5,0,0,1\nHopper-v4,trpo,1,6,0,0,1\n": "a.csv:4: trpo on Hopper-v4 with seed 1 is in another place",
	} {
		out := t.TempDir()
		if text != "" {
			write(t, filepath.Join(out, "baselines", "Hopper-v4", "a.csv"), text)
		}
		if err := study(t, "best", "--out", out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if err := study(t, "best", "--out", t.TempDir(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "is no run's directory") {
		t.Errorf("no run: %v", err)
	}
}

func TestOutcomeOfGoals(t *testing.T) {
	for _, c := range []struct {
		have, beyond, missing, want int
		settled                     bool
		is                          string
	}{
		{5, 5, 0, 5, true, "**reached**"}, {7, 4, 0, 5, true, "**so far, but within the scatter of the runs**"},
		{5, 5, 0, 5, false, "**so far, but on too few runs**"}, {3, 3, 1, 5, true, "**not reached**"},
		{3, 0, 1, 5, false, "**not so far, on too few runs**"}, {3, 3, 2, 5, true, "**not known yet**"},
	} {
		if got := outcomeOf(c.have, c.beyond, c.missing, c.want, c.settled); got != c.is {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// A median is of what is known, which may be that a return was never reached.
func TestMiddle(t *testing.T) {
	for want, values := range map[float64][]float64{110: {math.NaN(), 120, math.NaN(), 100, 110}, math.Inf(1): {1, math.Inf(1), math.Inf(1)}} {
		if got := middle(values); got != want {
			t.Errorf("%v: %v, want %v", values, got, want)
		}
	}
	if got := middle([]float64{math.NaN()}); !math.IsNaN(got) {
		t.Errorf("of nothing that is known %v", got)
	}
}
