package study

import (
	"fmt"
	"os"
	"path/filepath"
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

func TestReportOfTwoRuns(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "npg-mc-s1", "progress.csv"), "iteration,steps,return_mean\n1,10,5\n2,20,7\n3,30,9\n")
	write(t, filepath.Join(dir, "npg-uapg-s2", "progress.csv"), "iteration,steps,return_mean\n1,10,1\n2,20,2\n")
	write(t, filepath.Join(dir, "reference.csv"),
		"env,algorithm,estimator,seed,iteration,wall_s,avg_return\nA,NPG,MC,7,1,0,3\nB,NPG,MC,7,1,0,99\nA,NPG,MC,7,2,0,5\n")
	cmd := ReportCommand()
	var out strings.Builder
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--env", "A", "--last", "2", "--reference", filepath.Join(dir, "reference.csv"),
		"--out", filepath.Join(dir, "plot"), filepath.Join(dir, "npg-mc-s1"), filepath.Join(dir, "npg-uapg-s2")})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| MC | 8 (1) | 4 |", "| DBQPG |  |  |", "| UAPG | 2 (2) |  |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no row %q in:\n%s", want, out.String())
		}
	}
	for _, suffix := range []string{".svg", ".png"} {
		if info, err := os.Stat(filepath.Join(dir, "plot"+suffix)); err != nil || info.Size() == 0 {
			t.Errorf("plot%s: %v, %v", suffix, info, err)
		}
	}
}

// Curves begin at iteration 0, however the table's rows are numbered: earlier builds' begin at 1.
func TestCurvesBeginAtIteration0(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "npg-mc-s1", "progress.csv"), "iteration,steps,return_mean\n1,10,5\n2,20,7\n3,30,9\n")
	write(t, filepath.Join(dir, "npg-mc-s2", "progress.csv"), "iteration,steps,return_mean\n0,20,5\n1,30,7\n2,40,9\n")
	var runs []curve
	for _, name := range []string{"npg-mc-s1", "npg-mc-s2"} {
		run, err := readRun(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
	}
	for i, series := range curvesFigure("", runs, nil)[0][0].Series {
		if got := fmt.Sprint(series.X, runs[i].returns); got != "[0 1 2] [5 7 9]" {
			t.Errorf("curve of run %d: %s", i+1, got)
		}
	}
}

// A run keeps its settings in config.yaml, whatever --run-dir called the directory.
func TestReportOfARunByAnotherName(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run-b")
	write(t, filepath.Join(dir, "config.yaml"), "# What is learned\nestimator: dbqpg\nseed: 7\n")
	write(t, filepath.Join(dir, "progress.csv"), "steps,return_mean\n10,5\n")
	curve, err := readRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	if curve.estimator != "DBQPG" || curve.seed != "7" || len(curve.returns) != 1 {
		t.Errorf("read %+v, want DBQPG's run of seed 7 with one return", curve)
	}
}

func TestReportNamesWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "npg-mc-s1", "progress.csv"), "iteration,steps\n1,10\n")
	write(t, filepath.Join(dir, "npg-mc-s2", "progress.csv"), "steps,return_mean\n1,ten\n")
	write(t, filepath.Join(dir, "npg-mc-s3", "progress.csv"), "steps,return_mean\n")
	write(t, filepath.Join(dir, "half", "config.yaml"), "estimator: mc\n")
	for run, want := range map[string]string{
		"npg-mc-s1": `no column "return_mean"`,
		"npg-mc-s2": "progress.csv:2",
		"npg-mc-s3": "no finished iteration",
		"npg-mc-s4": "no such file",
		"results":   "results is no run",
		"half":      "half/config.yaml: no estimator, or no seed",
	} {
		if _, err := readRun(filepath.Join(dir, run)); err == nil || !strings.Contains(err.Error(), want) {
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
