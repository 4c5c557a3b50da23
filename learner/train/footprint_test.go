package train

import (
	"math"
	"testing"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/config/configtest"
	"github.com/dbqpg/dbqpg/sim"
)

// TestFootprintIsAStraightLine measures a batch of another size than those that the
// line goes through.
func TestFootprintIsAStraightLine(t *testing.T) {
	task, err := sim.Lookup("Swimmer-v2")
	if err != nil {
		t.Fatal(err)
	}
	for _, estimator := range []config.Estimator{config.MonteCarlo, config.UAPG} {
		settings, err := configtest.Authors(task.Name, config.NPG, estimator)
		if err != nil {
			t.Fatal(err)
		}
		footprint, err := MeasureFootprint(&settings, task)
		if err != nil {
			t.Fatal(err)
		}
		const steps = 25000
		measured, err := peak(&settings, task, steps)
		if err != nil {
			t.Fatal(err)
		}
		need := footprint.Fixed + footprint.PerStep*steps
		if math.Abs(need/float64(measured)-1) > 0.02 {
			t.Errorf("%s: %d steps take %d bytes, and by %+v %.0f", estimator, steps, measured, footprint, need)
		}
		if fits := footprint.Fits(need); fits < steps-1 || fits > steps+1 {
			t.Errorf("%s: %d steps fit where %d do", estimator, fits, steps)
		}
		if fits := footprint.Fits(0); fits != 0 {
			t.Errorf("%s: %d steps fit in nothing", estimator, fits)
		}
		t.Logf("%s: %+v", estimator, footprint)
	}
}
