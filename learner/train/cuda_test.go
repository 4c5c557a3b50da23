//go:build gpu

package train

import (
	"math"
	"os"
	"slices"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute/computetest"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/estimators/compute/cuda"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/config/configtest"
	"github.com/dbqpg/dbqpg/sim"
)

// Ten updates on a GPU move the policy to where ten updates on the processor do, to 1e-9
// of the way; they are the same bits when repeated, and leave no buffer behind. The
// processor's backend is opaque, for it then ends conjugate gradients where a distant
// device does.
func TestTenUpdatesOnGPU(t *testing.T) {
	const updates, tolerance = 10, 1e-9
	emulated := os.Getenv("CUDA_EMULATOR") != ""
	b, err := cuda.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, c := range []struct {
		task      string
		algorithm config.Algorithm
		estimator config.Estimator
		steps     int
		learning  config.Learning
		long      bool // the emulator takes minutes
	}{
		{"Swimmer-v2", config.NPG, config.UAPG, 200, config.Step, false},
		{"Swimmer-v2", config.Vanilla, config.MonteCarlo, 200, config.Step, false},
		{"Swimmer-v2", config.Vanilla, config.MonteCarlo, 400, config.Converge, false},
		{"Hopper-v2", config.Vanilla, config.UAPG, 600, config.Step, true},
		{"Hopper-v2", config.TRPO, config.DBQPG, 600, config.Step, true},
		{"Hopper-v2", config.NPG, config.UAPG, 2600, config.Step, true}, // decomposed by sketches
		{"Hopper-v2", config.TRPO, config.UAPG, 2600, config.Converge, true},
	} {
		if emulated && c.long {
			continue
		}
		task, err := sim.Lookup(c.task)
		if err != nil {
			t.Fatal(err)
		}
		settings, err := configtest.Authors(task.Name, c.algorithm, c.estimator)
		if err != nil {
			t.Fatal(err)
		}
		settings.Targets, settings.ValueLearning = config.GAE, c.learning
		want := updated(t, computetest.Opaque(cpu.New(2)), &settings, task, c.steps, updates)
		got := updated(t, b, &settings, task, c.steps, updates)
		difference := relativeDifference(got, want, updated(t, b, &settings, task, c.steps, 0))
		t.Logf("%s, %s, %s, %d steps: relative difference %.1e", c.task, c.algorithm, c.estimator, c.steps, difference)
		if !(difference <= tolerance) {
			t.Errorf("%s, %s, %s, %d steps: relative difference %.2g", c.task, c.algorithm, c.estimator, c.steps,
				difference)
		}
		kept := b.Memory().InUse // the groups of the last sketch among it
		if !slices.Equal(updated(t, b, &settings, task, c.steps, updates), got) {
			t.Errorf("%s, %s, %s, %d steps: other bits when repeated", c.task, c.algorithm, c.estimator, c.steps)
		}
		if held := b.Memory().InUse - kept; held != 0 {
			t.Errorf("%s, %s, %s, %d steps: %d bytes were not released", c.task, c.algorithm, c.estimator, c.steps,
				held)
		}
	}
}

// relativeDifference returns the distance of got from want, relative to that of want from start.
func relativeDifference(got, want, start []float64) float64 {
	var difference, moved float64
	for i, w := range want {
		difference += (got[i] - w) * (got[i] - w)
		moved += (w - start[i]) * (w - start[i])
	}
	return math.Sqrt(difference / moved)
}
