package trace

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/internal/npz"
	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/tasks"
)

// golden holds each task's trace as Gymnasium plays it, recorded by scripts/record_trace.py.
const golden = "../../sim/tasks/testdata/"

// run executes the command as a user would and returns what it wrote.
func run(t *testing.T, name, from string) (npz.Arrays, error) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "mine.npz")
	command := Command()
	command.SetArgs([]string{"--env", name, "--from", from, "--out", out})
	command.SilenceUsage, command.SilenceErrors = true, true
	if err := command.Execute(); err != nil {
		return nil, err
	}
	return npz.ReadFile(out)
}

// Every task answers as Gymnasium does, to 1e-9 along the whole trace (relative where a value is above 1).
func TestGoldenTraces(t *testing.T) {
	for _, spec := range sim.Tasks() {
		t.Run(spec.Name, func(t *testing.T) {
			want, err := npz.ReadFile(golden + spec.Name + ".npz")
			if err != nil {
				t.Fatal(err)
			}
			got, err := run(t, spec.Name, golden+spec.Name+".npz")
			if err != nil {
				t.Fatal(err)
			}
			compare(t, got, want, spec)
		})
	}
}

func compare(t *testing.T, got, want npz.Arrays, spec sim.Spec) {
	t.Helper()
	steps := len(want["rewards"].Floats)
	if steps == 0 || len(want["observations"].Floats) != (steps+1)*spec.ObservationDim {
		t.Fatalf("the recorded trace has %d steps, observations %v", steps, want["observations"].Shape)
	}
	for _, name := range []string{"init_qpos", "init_qvel", "actions", "observations", "rewards"} {
		a, err := got.Float64s(name, want[name].Shape...)
		if err != nil {
			t.Fatal(err)
		}
		worst := 0.0
		for i, b := range want[name].Floats {
			worst = math.Max(worst, math.Abs(a[i]-b)/math.Max(1, math.Abs(b)))
		}
		if !(worst <= 1e-9) {
			t.Errorf("%s differ by up to %.3g", name, worst)
		}
		t.Logf("%s: largest difference %.3g", name, worst)
	}
	terminated, err := got.Bools("terminated", steps)
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range want["terminated"].Bools {
		if terminated[i] != b {
			t.Errorf("step %d: terminated is %v, want %v", i, terminated[i], b)
		}
	}
}

func TestBadTraces(t *testing.T) {
	good := func() npz.Arrays {
		return npz.Arrays{
			"init_qpos": npz.Of(make([]float64, 5), 5),
			"init_qvel": npz.Of(make([]float64, 5), 5),
			"actions":   npz.Of([]float64{0.5, -0.5, 1, 2}, 2, 2),
		}
	}
	with := func(name string, array npz.Array) npz.Arrays {
		arrays := good()
		arrays[name] = array
		return arrays
	}
	nan := math.NaN()
	for _, c := range []struct {
		name   string
		arrays npz.Arrays
		want   string
	}{
		{"no actions", npz.Arrays{"init_qpos": good()["init_qpos"], "init_qvel": good()["init_qvel"]}, `"actions" is missing`},
		{"other task's actions", with("actions", npz.Of(make([]float64, 6), 1, 6)), "want [-1 2]"},
		{"short state", with("init_qpos", npz.Of(make([]float64, 4), 4)), "qpos has 4 numbers, want 5"},
		{"NaN state", with("init_qvel", npz.Of([]float64{0, 0, nan, 0, 0}, 5)), "qvel[2] is NaN"},
		{"NaN action", with("actions", npz.Of([]float64{0, 0, 0, nan}, 2, 2)), "step 1: action[1] is NaN"},
		{"flags for numbers", with("actions", npz.Of(make([]bool, 4), 2, 2)), "bool, not numbers"},
	} {
		path := filepath.Join(t.TempDir(), "trace.npz")
		if err := npz.WriteFile(path, c.arrays); err != nil {
			t.Fatal(err)
		}
		if _, err := run(t, "Swimmer-v2", path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := run(t, "Swimmer-v2", "no-such-file.npz"); err == nil {
		t.Error("missing file: no error")
	}
	if _, err := run(t, "Swimer-v2", golden+"Swimmer-v2.npz"); err == nil || !strings.Contains(err.Error(), "did you mean Swimmer-v2?") {
		t.Errorf("unknown task: error %v", err)
	}
}

// A trace without steps is one observation.
func TestEmptyTrace(t *testing.T) {
	env, err := tasks.New("Swimmer-v2")
	if err != nil {
		t.Fatal(err)
	}
	defer env.Close()
	got, err := Replay(env, npz.Arrays{
		"init_qpos": npz.Of([]float64{1, 2, 3, 0, 0}, 5),
		"init_qvel": npz.Of(make([]float64, 5), 5),
		"actions":   npz.Of([]float64{}, 0, 2),
	})
	if err != nil {
		t.Fatal(err)
	}
	if o, err := got.Float64s("observations", 1, 8); err != nil || o[0] != 3 {
		t.Errorf("observations %v, %v", o, err)
	}
}
