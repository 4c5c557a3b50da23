package study

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// report runs `learner report` and returns what it prints.
func report(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	cmd := ReportCommand()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetArgs(arguments)
	err := cmd.Execute()
	return out.String(), err
}

// Runs that differ in the seed alone are one row, others have one each, which names the difference. A reference has a row for
// each of its labels on the runs' tasks.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	run := func(name, settings, returns string) string {
		path := filepath.Join(dir, name)
		write(t, filepath.Join(path, "config.yaml"), "env: A\n"+settings)
		write(t, filepath.Join(path, "progress.csv"), "iteration,steps,return_mean\n"+returns)
		return path
	}
	first := run("a", "estimator: mc\nseed: 1\ngamma: 0.9\nactors: 1\n", "0,10,5\n1,20,7\n2,30,9\n")
	second := run("b", "estimator: mc\nseed: 2\ngamma: 0.9\nactors: 2\n", "0,11,5\n1,21,3\n2,31,5\n")
	other := run("c", "estimator: mc\nseed: 1\ngamma: 0.8\n", "0,10,1\n1,20,2\n2,30,4\n")
	write(t, filepath.Join(dir, "authors.csv"),
		"env,algorithm,estimator,seed,iteration,avg_return\nA,NPG,MC,7,1,3\nB,NPG,MC,7,1,99\nA,NPG,MC,7,2,5\nA,NPG,MC,8,1,4\nA,NPG,MC,8,2,4\nA,NPG,MC,8,3,4\n")
	write(t, filepath.Join(dir, "ours.csv"), "label,steps,return\nPPO,100,3\nPPO,200,4\n")

	out, err := report(t, "--last", "2", "--reference", filepath.Join(dir, "authors.csv"), "--reference", "baselines="+filepath.Join(dir, "ours.csv"),
		"--out", filepath.Join(dir, "plot"), first, second, other)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| A | MC, gamma=0.9 | 3 | 8 (1), 4 (2) | 6 | 5.67 |", "| A | MC, gamma=0.8 | 3 | 3 (1) | 3 | 2.33 |",
		"| A | NPG, MC, authors | 2 | 4 (7), 4 (8) | 4 | 4 |", "| A | PPO, baselines | 2 | 3.5 (0) | 3.5 | 3.5 |"} {
		if !strings.Contains(out, want) {
			t.Errorf("no row %q in:\n%s", want, out)
		}
	}
	pictures(t, filepath.Join(dir, "plot"))

	if _, err := report(t, "--axis", "steps", "--reference", filepath.Join(dir, "ours.csv"), "--out", filepath.Join(dir, "steps"), first, second, other); err != nil {
		t.Error(err)
	}
	pictures(t, filepath.Join(dir, "steps"))
	short := run("d", "estimator: mc\nseed: 3\ngamma: 0.8\n", "0,10,1\n1,20,2\n")
	if out, err = report(t, "--last", "1", other, short); err != nil {
		t.Fatal(err)
	}
	contains(t, out, "| A | MC, first 2 iterations | 2 | 2 (1), 2 (3) |")
	// The last iterations are a group's own, whatever others of the task are shorter, and of batches in which an episode ended.
	if out, err = report(t, "--last", "2", first, run("e", "estimator: uapg\nseed: 1\ngamma: 0.8\n", "0,10,1\n")); err != nil {
		t.Fatal(err)
	}
	contains(t, out, "| A | MC | 3 | 8 (1) | 8 | 7 |", "| A | UAPG | 1 | 1 (1) | 1 | 1 |")
	if out, err = report(t, "--last", "2", run("f", "estimator: mc\nseed: 1\ngamma: 0.8\n", "0,10,\n1,20,4\n2,30,\n")); err != nil {
		t.Fatal(err)
	}
	contains(t, out, "| A | MC | 3 | 4 (1) | 4 | 4 |")
	for _, c := range []struct {
		want      string
		arguments []string
	}{
		{"same settings and the same seed, 1", []string{first, other, first}},
		{"there is no column steps", []string{"--axis", "steps", "--out", filepath.Join(dir, "x"), "--reference", filepath.Join(dir, "authors.csv"), first}},
		{"--axis time", []string{"--axis", "time", first}},
		{"has no column return, return_mean, avg_return", []string{"--reference", filepath.Join(second, "config.yaml"), first}},
	} {
		if _, err := report(t, c.arguments...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("report %v: %v, want %q", c.arguments, err, c.want)
		}
	}
}

// What trained the runs is said if it is not the same program.
func TestReportOfSeveralPrograms(t *testing.T) {
	dir := t.TempDir()
	for seed, program := range []string{"commit a", "commit b"} {
		path := filepath.Join(dir, fmt.Sprintf("npg-mc-s%d", seed))
		write(t, filepath.Join(path, "progress.csv"), "iteration,steps,return_mean\n0,10,5\n")
		write(t, filepath.Join(path, "builds.yaml"), "- iteration: 0\n  program: "+program+"\n  machine: one\n")
	}
	out, err := report(t, filepath.Join(dir, "npg-mc-s0"), filepath.Join(dir, "npg-mc-s1"))
	if err != nil {
		t.Fatal(err)
	}
	contains(t, out, "**Trained by several programs**", "1 run by commit a; 1 run by commit b. one.")
}

// Curves begin at iteration 0, however the table's rows are numbered: earlier builds' begin at 1.
func TestCurvesBeginAtIteration0(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "npg-mc-s1", "progress.csv"), "iteration,steps,return_mean\n1,10,5\n2,20,7\n3,30,9\n")
	write(t, filepath.Join(dir, "npg-uapg-s2", "progress.csv"), "iteration,steps,return_mean\n0,20,5\n1,30,7\n2,40,9\n")
	r, err := readRuns([]string{filepath.Join(dir, "npg-mc-s1"), filepath.Join(dir, "npg-uapg-s2")})
	if err != nil {
		t.Fatal(err)
	}
	figure, err := (&reportOptions{axis: byIterations}).figure(r, new(results))
	if err != nil {
		t.Fatal(err)
	}
	for _, series := range figure[0][0].Series {
		if got := fmt.Sprint(series.X, series.Y); got != "[0 1 2] [5 7 9]" {
			t.Errorf("curve of %s: %s", series.Name, got)
		}
	}
}

func TestReportNamesWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "npg-mc-s1", "progress.csv"), "iteration,steps\n1,10\n")
	write(t, filepath.Join(dir, "npg-mc-s2", "progress.csv"), "steps,return_mean\n1,ten\n")
	write(t, filepath.Join(dir, "npg-mc-s3", "progress.csv"), "steps,return_mean\n")
	write(t, filepath.Join(dir, "half", "config.yaml"), "estimator: mc\n")
	write(t, filepath.Join(dir, "odd", "config.yaml"), "estimator: mc\nseed: x\n")
	for run, want := range map[string]string{
		"npg-mc-s1": `no column "return_mean"`,
		"npg-mc-s2": "progress.csv:2",
		"npg-mc-s3": "no finished iteration",
		"npg-mc-s4": "no such file",
		"results":   "results is no run",
		"half":      "half/config.yaml: no estimator, or no seed",
		"odd":       `the seed is "x"`,
	} {
		if _, err := readRuns([]string{filepath.Join(dir, run)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", run, err, want)
		}
	}
}

func TestReadColumns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress.csv")
	write(t, path, "iteration,noise,return_mean\n1,,5\n2,0.5,7\n")
	columns, err := readColumns(path, "return_mean", "noise")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(columns); got != "[[5 7] [NaN 0.5]]" {
		t.Errorf("columns %s", got)
	}
	write(t, path, "noise\nx\n")
	if _, err := readColumns(path, "noise"); err == nil || !strings.Contains(err.Error(), "progress.csv:2: noise") {
		t.Errorf("error %v", err)
	}
}

// Beside learning curves a reference is with the runs of its task and algorithm, and has as many iterations as they have.
func TestReferencesBesideCurves(t *testing.T) {
	path := filepath.Join(t.TempDir(), "theirs.csv")
	write(t, path, "env,algorithm,estimator,seed,iteration,avg_return\nA,TRPO,UAPG,7,1,3\nA,TRPO,UAPG,7,2,5\nA,TRPO,UAPG,7,3,99\n"+
		"A,TRPO,UAPG,8,1,4\nA,SAC,MC,7,1,99\nB,NPG,MC,7,1,99\nA,NPG,another,7,1,5\n")
	runs := &results{last: 1}
	for _, algorithm := range []string{"npg", "trpo"} {
		runs.groups = append(runs.groups, &group{setting: setting{"A", algorithm, ""}, variant: aware, seeds: []uint{1}, steps: [][]float64{{10, 20}}, returns: [][]float64{{1, 2}}})
	}
	o := compareOptions{references: []string{"theirs=" + path}}
	if err := o.refer(runs); err != nil {
		t.Fatal(err)
	}
	if len(runs.references.groups) != 2 {
		t.Fatalf("%d groups", len(runs.references.groups))
	}
	if other := runs.references.groups[1]; other.algorithm != "npg" || other.variant.name != "another, theirs" || other.variant.color != 0 {
		t.Errorf("%v, %q, colour %d", other.setting, other.variant.name, other.variant.color)
	}
	g := runs.references.groups[0]
	if g.algorithm != "trpo" || g.variant.name != "UAPG, theirs" || g.variant.color != aware.color || !reflect.DeepEqual(g.returns, [][]float64{{3}, {4}}) {
		t.Errorf("%v, %q, colour %d: %v", g.setting, g.variant.name, g.variant.color, g.returns)
	}
	for i, want := range map[string]string{path + "x": "no such file", "x=" + filepath.Join("testdata", "none.csv"): "no such file"} {
		o := compareOptions{references: []string{i}}
		if err := o.refer(runs); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--reference") {
			t.Errorf("%s: %v", i, err)
		}
	}
}
