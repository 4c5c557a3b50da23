package runs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/config/configtest"
	"github.com/dbqpg/dbqpg/internal/progress"
	"github.com/dbqpg/dbqpg/internal/tensorboard"
)

func testSettings(t testing.TB, directory string) *config.Settings {
	t.Helper()
	s, err := configtest.Authors("Swimmer-v2", config.NPG, config.UAPG)
	if err != nil {
		t.Fatal(err)
	}
	s.RunDir = directory
	return &s
}

func mustOpen(t *testing.T, s *config.Settings) (*Run, *State, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	run, state, err := Open(s, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { run.Close() })
	return run, state, &log
}

// train does iterations of something that depends on all iterations before, as training does.
func train(run *Run, state *State, to uint64) error {
	if state == nil {
		state = &State{Arrays: map[string][]float64{"x": {0.5, 3}}}
		if err := run.Start(state, evaluated(state)); err != nil {
			return err
		}
	}
	for state.Iteration < to {
		x := state.Arrays["x"][0]
		row := NewRow()
		row.Iteration = state.Iteration
		state.Iteration++
		state.Steps += 15000
		state.Elapsed++
		state.Arrays["x"][0] = 3.9 * x * (1 - x)
		row.Steps, row.ReturnMean, row.SecondsElapsed = state.Steps, x, state.Elapsed.Seconds()
		if err := run.Commit(state, row, evaluated(state)); err != nil {
			return err
		}
	}
	return nil
}

// evaluated returns the evaluation of every third state.
func evaluated(state *State) *Evaluation {
	if state.Iteration%3 != 0 {
		return nil
	}
	return &Evaluation{Iteration: state.Iteration, Steps: state.Steps, Episodes: 10, MeanReturn: state.Arrays["x"][0]}
}

func mustTrain(t *testing.T, run *Run, state *State, to uint64) {
	t.Helper()
	if err := train(run, state, to); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestStartAndResume(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "runs", "one")
	s := testSettings(t, directory)
	run, state, _ := mustOpen(t, s)
	if state != nil {
		t.Errorf("a new run has the state %+v", state)
	}
	mustTrain(t, run, nil, 3)
	if read(t, directory, "config.yaml") != s.YAML() {
		t.Error("config.yaml is not the settings")
	}
	if rows := strings.Count(read(t, directory, "progress.csv"), "\n"); rows != 4 {
		t.Errorf("progress.csv has %d lines, want 4", rows)
	}
	if err := run.Close(); err != nil {
		t.Fatal(err)
	}

	s.Resume, s.Iterations = config.ResumeYes, 2000
	run, state, log := mustOpen(t, s)
	if state == nil || state.Iteration != 3 {
		t.Fatalf("resumed at %+v", state)
	}
	mustTrain(t, run, state, 5)
	if read(t, directory, "config.yaml") != s.YAML() {
		t.Error("config.yaml does not have the new number of iterations")
	}
	if rows := strings.Count(read(t, directory, "progress.csv"), "\n"); rows != 6 || log.Len() > 0 {
		t.Errorf("progress.csv has %d lines, want 6; log %q", rows, log)
	}
}

func TestBestIsThePolicyThatPlayedTheBatch(t *testing.T) {
	directory := t.TempDir()
	run, _, _ := mustOpen(t, testSettings(t, directory))
	state := &State{Arrays: map[string][]float64{"version": {0}}}
	if err := run.Start(state, nil); err != nil {
		t.Fatal(err)
	}
	for i, value := range []float64{1, 5, 5, 2} {
		row := NewRow()
		row.Iteration, row.ReturnMean = state.Iteration, value
		state.Iteration++
		state.Arrays["version"][0] = float64(state.Iteration)
		if err := run.Commit(state, row, nil); err != nil {
			t.Fatal(i, err)
		}
	}
	best, _, err := Decode([]byte(read(t, directory, "checkpoints", "best.safetensors")))
	if err != nil {
		t.Fatal(err)
	}
	if best.Arrays["version"][0] != 1 || best.Iteration != 1 {
		t.Errorf("the best policy is version %v of checkpoint %d, want the one that played iteration 1's batch", best.Arrays["version"], best.Iteration)
	}
	want := Best{Return: 5, Iteration: 1}
	for what, got := range map[string]*Best{"the newest": state.Best, "the best": best.Best} {
		if got == nil || *got != want {
			t.Errorf("according to %s checkpoint the best is %+v, want %+v", what, got, want)
		}
	}
}

// Once a policy has been evaluated, evaluations choose the best, however high the returns of training are.
func TestBestIsChosenByEvaluations(t *testing.T) {
	directory := t.TempDir()
	run, _, _ := mustOpen(t, testSettings(t, directory))
	state := &State{Arrays: map[string][]float64{"version": {0}}}
	if err := run.Start(state, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		trained   float64  // return of the iteration's batch
		evaluated *float64 // of the state after it
		want      Best
	}{
		{90, nil, Best{Return: 90, Iteration: 0}},
		{80, number(7), Best{Return: 7, Iteration: 2, Evaluated: true}},
		{100, number(7), Best{Return: 7, Iteration: 2, Evaluated: true}},
		{100, number(9), Best{Return: 9, Iteration: 4, Evaluated: true}},
		{200, nil, Best{Return: 9, Iteration: 4, Evaluated: true}},
	} {
		row := NewRow()
		row.Iteration, row.ReturnMean = state.Iteration, c.trained
		state.Iteration++
		state.Arrays["version"][0] = float64(state.Iteration)
		var evaluation *Evaluation
		if c.evaluated != nil {
			evaluation = &Evaluation{Iteration: state.Iteration, MeanReturn: *c.evaluated, SampledReturn: 1000}
		}
		if err := run.Commit(state, row, evaluation); err != nil {
			t.Fatal(err)
		}
		best, _, err := Decode([]byte(read(t, directory, "checkpoints", "best.safetensors")))
		if err != nil {
			t.Fatal(err)
		}
		if *state.Best != c.want || *best.Best != c.want || best.Iteration != c.want.Iteration || best.Arrays["version"][0] != float64(c.want.Iteration) {
			t.Errorf("after iteration %d the best is %+v, and best.safetensors of checkpoint %d, %+v; want %+v", row.Iteration, *state.Best, best.Iteration, *best.Best, c.want)
		}
	}
}

func number(x float64) *float64 { return &x }

// A resumed run still has the evaluation of the checkpoint that it resumes from, and none of later ones.
func TestEvaluationsFollowCheckpoints(t *testing.T) {
	s := testSettings(t, filepath.Join(t.TempDir(), "run"))
	makeRun(t, s, 0)
	s.Resume = config.ResumeYes
	run, state, _ := mustOpen(t, s) // from checkpoint 0
	mustTrain(t, run, state, 3)
	run.Close()
	whole := read(t, s.RunDir, "evaluations.csv")
	if lines := strings.Split(whole, "\n"); len(lines) != 4 || !strings.HasPrefix(lines[2], "3,45000,10,") {
		t.Errorf("evaluations.csv is\n%s", whole)
	}
	for _, damaged := range []bool{false, true} { // resumed from checkpoint 3, and from 2
		if damaged {
			if err := os.Truncate(filepath.Join(s.RunDir, "checkpoints", "iteration-00000003.safetensors"), 100); err != nil {
				t.Fatal(err)
			}
		}
		run, state, _ := mustOpen(t, s)
		mustTrain(t, run, state, 3)
		run.Close()
		if got := read(t, s.RunDir, "evaluations.csv"); got != whole {
			t.Errorf("evaluations.csv is\n%s, want\n%s", got, whole)
		}
		if got, want := eventSteps(t, s.RunDir), []int64{0, 0, 1, 2, 3}; !slices.Equal(got, want) {
			t.Errorf("TensorBoard's steps are %v, want %v", got, want)
		}
		if got, want := eventSteps(t, filepath.Join(s.RunDir, stepsName)), []int64{0, 15000, 30000, 45000, 45000}; !slices.Equal(got, want) {
			t.Errorf("TensorBoard's environment steps are %v, want %v", got, want)
		}
	}
}

// Open handles existing directories as it should, and Plan predicts it.
func TestPlanAndOpen(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(t *testing.T, s *config.Settings)
		want   string // Plan's sentence, or the error's; DIR is the directory
		state  uint64 // iteration of the state that Open returns
	}{
		{"new", func(*testing.T, *config.Settings) {}, "would start a run in DIR", 0},
		{"empty", func(t *testing.T, s *config.Settings) { mkdir(t, s.RunDir) }, "would start a run in DIR", 0},
		{"killed at once", func(t *testing.T, s *config.Settings) {
			mkdir(t, s.RunDir)
			for _, name := range []string{progress.LockName, "config.yaml.tmp"} {
				if err := os.WriteFile(filepath.Join(s.RunDir, name), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}, "would start a run in DIR", 0},
		{"somebody's files", func(t *testing.T, s *config.Settings) {
			mkdir(t, filepath.Join(s.RunDir, "thesis"))
			s.Force = true
		}, "DIR is not empty and contains no run: choose another --run-dir", 0},
		{"a run", func(t *testing.T, s *config.Settings) { makeRun(t, s, 4) },
			"DIR already contains a run, which has completed 4 iterations: --resume continues it, --force starts over and keeps it aside, " +
				"--seed or --run-dir starts another", 0},
		{"a complete run", func(t *testing.T, s *config.Settings) { s.Iterations = 4; makeRun(t, s, 4) },
			"DIR already contains a run, which has completed 4 iterations: --resume --iterations 8 continues it, --force starts over", 0},
		{"a run of so many steps", func(t *testing.T, s *config.Settings) {
			s.Length = config.Length{Steps: 50_000}
			makeRun(t, s, 4)
		}, "DIR already contains a run, which has completed 4 iterations: --resume --steps 100000 continues it", 0},
		{"a run in segments with less than a batch left", func(t *testing.T, s *config.Settings) {
			s.Targets, s.Batch, s.Segment = config.GAE, 15000, 100
			s.Length = config.Length{Steps: 60_000}
			makeRun(t, s, 4)
			s.Resume, s.Steps = config.ResumeYes, 70_000
		}, "--steps 70000: the run has 60000, and its next batch 15000 more; give 75000 or more", 0},
		{"a run to resume", func(t *testing.T, s *config.Settings) { makeRun(t, s, 4); s.Resume = config.ResumeYes },
			"would resume the run in DIR, which has completed 4 iterations", 4},
		{"a run to resume if there is one", func(t *testing.T, s *config.Settings) { makeRun(t, s, 4); s.Resume = config.ResumeAuto },
			"would resume the run in DIR, which has completed 4 iterations", 4},
		{"a run to resume with other settings", func(t *testing.T, s *config.Settings) {
			makeRun(t, s, 4)
			s.Resume, s.Gamma = config.ResumeAuto, 0.9
		}, "DIR/checkpoints/iteration-00000004.safetensors: made with other settings: gamma was 0.995 and is now 0.9", 0},
		{"no run to resume", func(_ *testing.T, s *config.Settings) { s.Resume = config.ResumeYes }, "--resume: there is no run in DIR", 0},
		{"no run to resume if there is one", func(_ *testing.T, s *config.Settings) { s.Resume = config.ResumeAuto }, "would start a run in DIR", 0},
		{"a run killed before its first checkpoint", func(t *testing.T, s *config.Settings) {
			run, _, _ := mustOpen(t, s)
			run.Close()
			s.Resume = config.ResumeYes
		}, "would resume the run in DIR, which has no checkpoint yet", 0},
		{"a run that has lost its checkpoints", func(t *testing.T, s *config.Settings) {
			makeRun(t, s, 4)
			remove(t, s.RunDir, "checkpoints/iteration-*")
			s.Resume = config.ResumeAuto
		}, "DIR has rows of 4 iterations and no checkpoint", 0},
		{"a run that has lost its settings", func(t *testing.T, s *config.Settings) {
			makeRun(t, s, 4)
			remove(t, s.RunDir, "config.yaml")
			s.Resume = config.ResumeYes
		}, "would resume the run in DIR, which has completed 4 iterations", 4},
		{"a run that has lost its settings, with others", func(t *testing.T, s *config.Settings) {
			makeRun(t, s, 4)
			remove(t, s.RunDir, "config.yaml")
			s.Resume, s.Gamma = config.ResumeYes, 0.9
		}, "DIR/checkpoints/iteration-00000004.safetensors: made with other settings: gamma was 0.995 and is now 0.9", 0},
		{"a run to start over", func(t *testing.T, s *config.Settings) {
			mkdir(t, filepath.Join(filepath.Dir(s.RunDir), "."+filepath.Base(s.RunDir)+".1"))
			makeRun(t, s, 4)
			s.Force = true
		}, "would move DIR, which has completed 4 iterations, to PARENT/.BASE.2 and start a new run", 0},
		{"a file", func(t *testing.T, s *config.Settings) {
			mkdir(t, filepath.Dir(s.RunDir))
			if err := os.WriteFile(s.RunDir, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}, "look into the run directory: ", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := testSettings(t, filepath.Join(t.TempDir(), "runs", "one"))
			c.before(t, s)
			want := strings.NewReplacer("DIR", s.RunDir, "PARENT", filepath.Dir(s.RunDir), "BASE", filepath.Base(s.RunDir)).Replace(c.want)
			sentence, planError := Plan(s)
			run, state, err := Open(s, slog.New(slog.DiscardHandler))
			if err == nil {
				defer run.Close()
			}
			if !strings.HasPrefix(want, "would") {
				for _, err := range []error{planError, err} {
					if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
						t.Errorf("error %v, want one line with %q", err, want)
					}
				}
				return
			}
			if sentence != want || planError != nil || err != nil {
				t.Fatalf("plan %q, %v, %v; want %q", sentence, planError, err, want)
			}
			if state == nil && c.state != 0 || state != nil && state.Iteration != c.state {
				t.Errorf("state %+v, want that of iteration %d", state, c.state)
			}
		})
	}
}

// remove removes the files of a directory that match a pattern.
func remove(t *testing.T, directory, pattern string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(directory, filepath.FromSlash(pattern)))
	if err != nil || len(paths) == 0 {
		t.Fatalf("nothing matches %s: %v", pattern, err)
	}
	for _, path := range paths {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// A complete run keeps its settings, though it is resumed with fewer iterations or steps.
func TestShorter(t *testing.T) {
	for _, shorter := range []config.Length{{Iterations: 3}, {Steps: 45_000}} {
		s := testSettings(t, filepath.Join(t.TempDir(), "run"))
		s.Iterations = 4
		makeRun(t, s, 4)
		before := read(t, s.RunDir, config.FileName)
		s.Length, s.Resume = shorter, config.ResumeYes
		run, _, _ := mustOpen(t, s)
		run.Close()
		if after := read(t, s.RunDir, config.FileName); after != before {
			t.Errorf("%+v: the settings have become\n%s", shorter, after)
		}
	}
}

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

func makeRun(t *testing.T, s *config.Settings, iterations uint64) {
	t.Helper()
	run, _, _ := mustOpen(t, s)
	mustTrain(t, run, nil, iterations)
	run.Close()
}

func TestComplete(t *testing.T) {
	s := testSettings(t, filepath.Join(t.TempDir(), "run"))
	s.Iterations, s.KeepCheckpoints = 4, []uint64{0, 2}
	want := func(want bool) {
		t.Helper()
		if done, all, err := Done(s); done >= all != want || err != nil {
			t.Errorf("%d of %d, %v; complete: %v", done, all, err, want)
		}
	}
	want(false)
	run, _, _ := mustOpen(t, s)
	mustTrain(t, run, nil, 4)
	want(true)
	if got, err := Iterations(Checkpoints(s.RunDir)); err != nil || !slices.Equal(got, []uint64{0, 2, 3, 4}) {
		t.Errorf("checkpoints of iterations %v, %v", got, err)
	}
	s.Iterations = 5
	want(false)
	s.Length = config.Length{Steps: 60_000}
	want(true)
	s.Steps++
	want(false)
	s.Gamma = 0.5
	if _, _, err := Done(s); err == nil || !strings.Contains(err.Error(), "gamma was 0.995 and is now 0.5") {
		t.Errorf("a run with other settings: %v", err)
	}
}

// A run keeps how it ended until it is resumed, and its log.
func TestOutcome(t *testing.T) {
	s := testSettings(t, filepath.Join(t.TempDir(), "run"))
	for i, c := range []struct {
		err  error
		want progress.Outcome
	}{
		{errors.New("the disk is full"), progress.Outcome{State: "failed", Reason: "the disk is full"}},
		{fmt.Errorf("iteration 7: %w", context.Canceled), progress.Outcome{State: "stopped"}},
		{nil, progress.Outcome{State: "done"}},
	} {
		run, _, _ := mustOpen(t, s)
		s.Resume = config.ResumeYes
		if o, err := Outcome(s.RunDir); err != nil || o != (progress.Outcome{}) {
			t.Errorf("while it trains: %+v, %v", o, err)
		}
		fmt.Fprintln(run.Log, "line", i)
		if err := errors.Join(run.End(c.err), run.Close()); err != nil {
			t.Fatal(err)
		}
		if o, err := Outcome(s.RunDir); err != nil || o != c.want {
			t.Errorf("%+v, %v, want %+v", o, err, c.want)
		}
	}
	if got := read(t, s.RunDir, progress.LogName); got != "line 0\nline 1\nline 2\n" {
		t.Errorf("the log is %q", got)
	}
	if err := os.WriteFile(filepath.Join(s.RunDir, progress.LogName), bytes.Repeat([]byte("a line\n"), maxLog/6), 0o644); err != nil {
		t.Fatal(err)
	}
	run, _, _ := mustOpen(t, s)
	run.Close()
	if got := read(t, s.RunDir, progress.LogName); len(got) > maxLog || !strings.HasPrefix(got, "a line\n") {
		t.Errorf("a long log has %d bytes", len(got))
	}
}

// A resumed run whose best checkpoint is damaged or gone says so, and chooses the best again from those left.
func TestBestIsMended(t *testing.T) {
	for name, c := range map[string]struct {
		harm  func(path string) error
		aside bool
	}{
		"damaged": {func(path string) error { return os.Truncate(path, 300) }, true},
		"removed": {os.Remove, false},
	} {
		for _, keep := range [][]uint64{nil, {0, 3}} {
			s := testSettings(t, filepath.Join(t.TempDir(), "run"))
			s.KeepCheckpoints = keep
			run, _, _ := mustOpen(t, s)
			mustTrain(t, run, nil, 5)
			run.Close()
			path := filepath.Join(Checkpoints(s.RunDir), BestName)
			if err := c.harm(path); err != nil {
				t.Fatal(err)
			}
			s.Resume = config.ResumeYes
			run, state, log := mustOpen(t, s)
			if !strings.Contains(log.String(), "best checkpoint is damaged or missing") {
				t.Errorf("%s: the log is %q", name, log)
			}
			best, err := OpenCheckpoint(t.Context(), s.RunDir, BestCheckpoint)
			if keep == nil {
				if state.Best != nil || err == nil {
					t.Errorf("%s: nothing evaluated is left, and the best is %+v, %v", name, state.Best, err)
				}
			} else if err != nil || *best.State.Best != *state.Best || best.State.Iteration != state.Best.Iteration ||
				!slices.Contains(keep, state.Best.Iteration) {
				t.Errorf("%s: the best is %+v, %v", name, state.Best, err)
			}
			if _, err := os.Stat(path + ".corrupt"); (err == nil) != c.aside {
				t.Errorf("%s: set aside: %v", name, err)
			}
			mustTrain(t, run, state, 7) // which evaluates the next
			if _, err = OpenCheckpoint(t.Context(), s.RunDir, BestCheckpoint); err != nil {
				t.Errorf("%s: after the next evaluation: %v", name, err)
			}
		}
	}
}

func TestForceKeepsTheOldRun(t *testing.T) {
	s := testSettings(t, filepath.Join(t.TempDir(), "run"))
	makeRun(t, s, 2)
	before := read(t, s.RunDir, "progress.csv")
	s.Force = true
	run, _, _ := mustOpen(t, s)
	mustTrain(t, run, nil, 1)
	if got := read(t, filepath.Join(filepath.Dir(s.RunDir), ".run.1"), "progress.csv"); got != before {
		t.Errorf("the old run's progress is %q, want %q", got, before)
	}
	if rows := strings.Count(read(t, s.RunDir, "progress.csv"), "\n"); rows != 2 {
		t.Errorf("the new run's progress has %d lines, want 2", rows)
	}
}

func TestOneLearnerADirectory(t *testing.T) {
	s := testSettings(t, filepath.Join(t.TempDir(), "run"))
	run, _, _ := mustOpen(t, s)
	mustTrain(t, run, nil, 1)
	for _, change := range []func(*config.Settings){
		func(s *config.Settings) { s.Resume = config.ResumeYes },
		func(s *config.Settings) { s.Force = true },
	} {
		other := *s
		change(&other)
		if _, _, err := Open(&other, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "another learner is using") {
			t.Errorf("a second learner got %v", err)
		}
	}
	mustTrain(t, run, nil, 2) // undisturbed
}

func TestResumeWithOtherSettings(t *testing.T) {
	s := testSettings(t, filepath.Join(t.TempDir(), "run"))
	makeRun(t, s, 2)
	before := read(t, s.RunDir, "config.yaml")
	s.Resume, s.Batch, s.Gamma = config.ResumeYes, 16000, 0.99
	_, _, err := Open(s, slog.New(slog.DiscardHandler))
	var mismatch *MismatchError
	want := "batch was 15000 and is now 16000, gamma was 0.995 and is now 0.99; resume without changing them"
	if !errors.As(err, &mismatch) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	if read(t, s.RunDir, "config.yaml") != before {
		t.Error("config.yaml was changed")
	}
}

func TestResumeWithCorruptCheckpoints(t *testing.T) {
	s := testSettings(t, filepath.Join(t.TempDir(), "run"))
	makeRun(t, s, 5)
	whole := read(t, s.RunDir, "progress.csv")
	s.Resume = config.ResumeYes
	damage := func(name string) {
		if err := os.Truncate(filepath.Join(s.RunDir, "checkpoints", name), 100); err != nil {
			t.Fatal(err)
		}
	}
	damage("iteration-00000005.safetensors")
	run, state, log := mustOpen(t, s)
	if state.Iteration != 4 || !strings.Contains(log.String(), "corrupt") {
		t.Errorf("resumed at iteration %d, log %q", state.Iteration, log)
	}
	mustTrain(t, run, state, 5)
	if got := read(t, s.RunDir, "progress.csv"); got != whole {
		t.Errorf("progress is\n%s, want\n%s", got, whole)
	}
	run.Close()
	damage("iteration-00000004.safetensors")
	damage("iteration-00000005.safetensors")
	if _, _, err := Open(s, slog.New(slog.DiscardHandler)); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "--force") {
		t.Errorf("with no whole checkpoint: %v", err)
	}
}

func TestMissingRowsAreReported(t *testing.T) {
	s := testSettings(t, filepath.Join(t.TempDir(), "run"))
	makeRun(t, s, 5)
	if err := os.Remove(filepath.Join(s.RunDir, "progress.csv")); err != nil {
		t.Fatal(err)
	}
	s.Resume = config.ResumeYes
	run, state, log := mustOpen(t, s)
	if !strings.Contains(log.String(), "rows are missing") {
		t.Errorf("log is %q", log)
	}
	mustTrain(t, run, state, 6)
}

// A disk that fills up costs no iteration but the one it happens in.
func TestCommitToFullDisk(t *testing.T) {
	s := testSettings(t, filepath.Join(t.TempDir(), "run"))
	run, _, _ := mustOpen(t, s)
	mustTrain(t, run, nil, 3)
	full := filepath.Join(s.RunDir, "checkpoints", "iteration-00000004.safetensors"+atomicfile.Suffix)
	if err := os.Symlink("/dev/full", full); err != nil {
		t.Fatal(err)
	}
	state, err := run.checkpoints.Load()
	if err != nil {
		t.Fatal(err)
	}
	err = train(run, state, 4)
	if !errors.Is(err, syscall.ENOSPC) || !strings.HasSuffix(err.Error(), "checkpoint 3 is safe: fix this, then continue with --resume") {
		t.Errorf("error %v", err)
	}
	run.Close()
	s.Resume = config.ResumeYes
	run, state, _ = mustOpen(t, s)
	mustTrain(t, run, state, 5)

	undisturbed := testSettings(t, filepath.Join(t.TempDir(), "run"))
	makeRun(t, undisturbed, 5)
	if got, want := read(t, s.RunDir, "progress.csv"), read(t, undisturbed.RunDir, "progress.csv"); got != want {
		t.Errorf("progress is\n%s, want\n%s", got, want)
	}
}

func TestCommitPanicsOnAnotherIterationsRow(t *testing.T) {
	run, _, _ := mustOpen(t, testSettings(t, t.TempDir()))
	defer func() {
		if recover() == nil {
			t.Error("Commit did not panic")
		}
	}()
	row := NewRow()
	row.Iteration = 2 // the state after it is 3
	_ = run.Commit(&State{Counters: Counters{Iteration: 2}}, row, nil)
}

func expectEqual(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// A run that comes without its event files gets them again, from its rows.
func TestEventsComeFromRows(t *testing.T) {
	s := testSettings(t, filepath.Join(t.TempDir(), "run"))
	makeRun(t, s, 3)
	files := func() []string {
		found, err := filepath.Glob(filepath.Join(s.RunDir, tensorboard.Pattern))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	whole := read(t, files()[0])
	if err := os.Remove(files()[0]); err != nil {
		t.Fatal(err)
	}
	s.Resume = config.ResumeYes
	mustOpen(t, s)
	// One step after the other is there; wall clocks, and what the file begins with, differ.
	if got := read(t, files()[0]); len(files()) != 1 || strings.Count(got, "return/mean") != strings.Count(whole, "return/mean") || !strings.Contains(got, "return/mean") {
		t.Errorf("%q has %d points, want %d", files(), strings.Count(got, "return/mean"), strings.Count(whole, "return/mean"))
	}
}
