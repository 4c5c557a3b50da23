package train

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/computetest"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/config/configtest"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/sim"
)

// Whatever grows with the batch goes through the backend: an update on memory that
// the host cannot read, poisoned before use, is the same bits as on the CPU's, and
// leaves no buffer behind.
func TestUpdateOnOpaqueMemory(t *testing.T) {
	task, err := sim.Lookup("Hopper-v2")
	if err != nil {
		t.Fatal(err)
	}
	for _, algorithm := range []config.Algorithm{config.Vanilla, config.NPG, config.TRPO} {
		for _, steps := range []int{600, 2600} { // decomposed exactly, and by sketches
			settings, err := configtest.Authors(task.Name, algorithm, config.UAPG)
			if err != nil {
				t.Fatal(err)
			}
			settings.Targets = config.GAE
			if algorithm == config.TRPO {
				settings.ValueLearning, settings.Bootstrap = config.Converge, true
			}
			plain := updated(t, cpu.New(2), &settings, task, steps, 2)
			opaque := computetest.Opaque(cpu.New(2))
			if got := updated(t, opaque, &settings, task, steps, 2); !slices.Equal(got, plain) {
				t.Errorf("%s, %d steps: the policies differ", algorithm, steps)
			}
			if live := opaque.Live(); live != 0 {
				t.Errorf("%s, %d steps: %d buffers are left", algorithm, steps, live)
			}
		}
	}
}

// updated returns the policy after a number of updates, each on a random batch.
func updated(t *testing.T, b compute.Backend, settings *config.Settings, task sim.Spec, steps, updates int) []float64 {
	t.Helper()
	learner := New(b, settings, task)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range updates {
		scope := compute.NewScope(b)
		x := NewSamples(scope, randomEpisodes(rng, task, steps), nil, policy.Identity(task.ObservationDim, 5))
		row := runs.NewRow()
		if err := learner.Update(x, scope, NewRandom(1, uint64(i)), &row, nil); err != nil {
			t.Fatal(err)
		}
		scope.Release()
	}
	return learner.Params
}

func randomEpisodes(rng *rand.Rand, task sim.Spec, steps int) []*proto.Episode {
	var episodes []*proto.Episode
	normals := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	const length = 100
	for range steps / length {
		e := &proto.Episode{
			Observations:     normals(length * task.ObservationDim),
			FinalObservation: normals(task.ObservationDim),
			Actions:          normals(length * task.ActionDim),
			Rewards:          make([]float64, length),
		}
		for i := range e.Rewards {
			e.Rewards[i] = float64(e.Observations[i*task.ObservationDim]) + rng.NormFloat64()
		}
		episodes = append(episodes, e)
	}
	return episodes
}
