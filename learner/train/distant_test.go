package train

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/config/configtest"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/sim"
)

// distant counts how often the host waits for a backend that is as far away as a GPU.
type distant struct {
	compute.Backend
	waits int
}

func (d *distant) Distant() bool { return true }

func (d *distant) NumPanels(int) int { return 1 }

func (d *distant) Panels(rows int, body func(b compute.Backend, panel, lo, hi int)) {
	body(d, 0, 0, rows)
}

func (d *distant) Download(dst []float64, src compute.Block) {
	d.waits++
	d.Backend.Download(dst, src)
}

func (d *distant) Dot(x, y compute.Block) float64 {
	d.waits++
	return d.Backend.Dot(x, y)
}

func (d *distant) Extremes(x compute.Block) (low, high compute.Extreme) {
	d.waits++
	return d.Backend.Extremes(x)
}

// TestUpdateSeldomWaits bounds the round trips to a device in an update: some tens, each of 10 to 20 microseconds on a
// GPU, and as many for every number of samples and conjugate gradients' every eighth iteration.
func TestUpdateSeldomWaits(t *testing.T) {
	const most = 50
	task, err := sim.Lookup("Swimmer-v2")
	if err != nil {
		t.Fatal(err)
	}
	for _, algorithm := range []config.Algorithm{config.Vanilla, config.NPG} {
		settings, err := configtest.Authors(task.Name, algorithm, config.UAPG)
		if err != nil {
			t.Fatal(err)
		}
		var waits []int
		for _, steps := range []int{3000, 6000} {
			b := &distant{Backend: cpu.New(0)}
			learner, row, rng := New(b, &settings, task), runs.NewRow(), rand.New(rand.NewPCG(1, 0))
			scope := compute.NewScope(b)
			samples := NewSamples(scope, randomEpisodes(rng, task, steps), nil,
				policy.Identity(task.ObservationDim, settings.Clip))
			if err := learner.Update(samples, scope, NewRandom(1, 1), &row, nil); err != nil {
				t.Fatal(err)
			}
			if !math.IsNaN(row.CGIterations) {
				b.waits -= (int(row.CGIterations) + 7) / 8
			}
			waits = append(waits, b.waits)
		}
		if waits[0] > most || waits[0] != waits[1] {
			t.Errorf("%s: the host waits %d times for 3,000 samples and %d times for 6,000; want the same, at most %d",
				algorithm, waits[0], waits[1], most)
		}
		t.Logf("%s: %d round trips", algorithm, waits[0])
	}
}
