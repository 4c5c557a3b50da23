package train

import (
	"math/rand/v2"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/sim"
)

// Footprint is the peak memory of a backend's blocks during an update if all rows are one panel, as a linear function
// of the number of steps in a batch.
type Footprint struct {
	Fixed   float64 // bytes
	PerStep float64 // bytes
}

// Fits returns the number of steps whose blocks fit into that many bytes.
func (f Footprint) Fits(bytes float64) int { return max(0, int((bytes-f.Fixed)/f.PerStep)) }

// MeasureFootprint measures two updates on synthetic episodes, large enough that the stage with the peak is the same as
// for larger ones.
func MeasureFootprint(settings *config.Settings, task sim.Spec) (Footprint, error) {
	const small, large = 8000, 16000
	few, err := peak(settings, task, small)
	if err != nil {
		return Footprint{}, err
	}
	many, err := peak(settings, task, large)
	slope := float64(many-few) / (large - small)
	return Footprint{Fixed: float64(few) - slope*small, PerStep: slope}, err
}

// peak returns the peak size in bytes of the blocks of an update on so many steps.
func peak(settings *config.Settings, task sim.Spec, steps int) (int64, error) {
	b := &meter{Backend: cpu.New(1)}
	learner, row, rng := New(b, settings, task), runs.NewRow(), rand.New(rand.NewPCG(1, streams.Sketch))
	scope := compute.NewScope(b)
	defer scope.Release()
	further := int(float64(steps) * (settings.FisherSamples - 1))
	samples := NewSamples(scope, madeUp(task, steps, rng), madeUp(task, further, rng),
		policy.Identity(task.ObservationDim, settings.Clip))
	err := learner.Update(samples, scope, NewRandom(settings.Seed, 1), &row, nil)
	return b.peak, err
}

// madeUp returns episodes of noise, each but the last of 1,000 steps.
func madeUp(task sim.Spec, steps int, rng *rand.Rand) (episodes []*proto.Episode) {
	noise := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	for ; steps > 0; steps -= 1000 {
		length := min(steps, 1000)
		e := &proto.Episode{
			Observations: noise(length * task.ObservationDim), FinalObservation: noise(task.ObservationDim),
			Actions: noise(length * task.ActionDim), Rewards: make([]float64, length),
		}
		for i := range e.Rewards {
			e.Rewards[i] = rng.NormFloat64()
		}
		episodes = append(episodes, e)
	}
	return episodes
}

// meter counts a backend's allocations. Like a GPU it treats all rows as one panel.
type meter struct {
	compute.Backend
	live, peak int64
}

func (m *meter) Distant() bool { return true }

func (m *meter) NumPanels(int) int { return 1 }

func (m *meter) Panels(rows int, body func(b compute.Backend, panel, lo, hi int)) {
	body(m, 0, 0, rows)
}

func (m *meter) Alloc(n int) compute.Buffer {
	m.live += 8 * int64(n)
	m.peak = max(m.peak, m.live)
	return m.Backend.Alloc(n)
}

func (m *meter) Release(x compute.Buffer) {
	m.live -= 8 * int64(x.Len())
	m.Backend.Release(x)
}
