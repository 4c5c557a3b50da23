package tasks

import (
	"flag"
	"math"
	"path/filepath"
	"testing"

	"github.com/dbqpg/dbqpg/internal/npz"
	"github.com/dbqpg/dbqpg/sim"
)

// traces holds each task's trace as Gymnasium plays it, recorded by scripts/record_trace.py: init_qpos and init_qvel
// (the engine's positions and velocities), actions (T x action), observations (T+1 x observation, the first at the
// initial state), rewards (T) and terminated (T; the trace continues after termination).
var traces = flag.String("traces", "testdata", "directory of traces to compare with")

// Every task answers as Gymnasium does, to 1e-9 along the whole trace (relative where a value is above 1).
func TestGoldenTraces(t *testing.T) {
	for _, spec := range sim.Tasks() {
		t.Run(spec.Name, func(t *testing.T) {
			trace, err := npz.ReadFile(filepath.Join(*traces, spec.Name+".npz"))
			if err != nil {
				t.Fatal(err)
			}
			compare(t, open(t, spec.Name), trace)
		})
	}
}

// compare plays a trace's actions from its initial state.
func compare(t *testing.T, e *env, trace npz.Arrays) {
	t.Helper()
	array := func(name string, shape ...int) []float64 {
		values, err := trace.Float64s(name, shape...)
		if err != nil {
			t.Fatal(err)
		}
		return values
	}
	o, a := e.spec.ObservationDim, e.spec.ActionDim
	rewards := array("rewards", -1)
	steps := len(rewards)
	actions, observations := array("actions", steps, a), array("observations", steps+1, o)
	terminated, err := trace.Bools("terminated", steps)
	if err != nil || steps == 0 {
		t.Fatalf("%d steps, %v", steps, err)
	}
	worst := 0.0
	differ := func(got, want float64) { worst = max(worst, math.Abs(got-want)/max(1, math.Abs(want))) }
	observation := make([]float64, o)
	observed := func(step int) {
		for i, want := range observations[step*o : (step+1)*o] {
			differ(observation[i], want)
		}
	}
	if err := e.SetState(array("init_qpos", -1), array("init_qvel", -1), observation); err != nil {
		t.Fatal(err)
	}
	observed(0)
	for step := range steps {
		reward, ended, err := e.Step(actions[step*a:(step+1)*a], observation)
		if err != nil || ended != terminated[step] {
			t.Fatalf("step %d: terminated is %v, want %v; error %v", step, ended, terminated[step], err)
		}
		differ(reward, rewards[step])
		observed(step + 1)
	}
	if !(worst <= 1e-9) { // max keeps a NaN
		t.Errorf("observations and rewards differ by up to %.3g", worst)
	}
}
