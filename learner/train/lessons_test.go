package train

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/learner/critic"
	"github.com/dbqpg/dbqpg/learner/progress"
	"github.com/dbqpg/dbqpg/sim"
)

// With --value-samples of three batches the value function learns from the last three as a twin does that is given them one after
// another, with lambda-returns from its values before it learns and under today's normaliser, in as many passes as make
// --value-epochs in three iterations. The gradient is the newest batch's alone.
func TestValueFunctionLearnsFromEarlierBatches(t *testing.T) {
	task, err := sim.Lookup("Hopper-v2")
	if err != nil {
		t.Fatal(err)
	}
	settings, err := config.ForTask(task.Name, config.TRPO, config.MonteCarlo, config.Best)
	if err != nil {
		t.Fatal(err)
	}
	settings.Batch, settings.ValueSamples, settings.ValueEpochs = 400, 1100, 5
	b := cpu.New(2)
	s := compute.NewScope(b)
	defer s.Release()
	l, rng := New(b, &settings, task), rand.New(rand.NewPCG(31, 0))
	twin := critic.NewValueFunction(task.ObservationDim, rng)

	var earlier []Samples
	passes := []float64{5, 3, 2, 2} // of one, two and three batches
	for iteration, want := range passes {
		episodes, n := randomEpisodes(rng, task, 400), policy.Identity(task.ObservationDim, 5)
		for _, e := range episodes[:iteration] {
			e.Terminated = true
		}
		if err := twin.Restore(l.Value.State()); err != nil {
			t.Fatal(err)
		}
		earlier = append([]Samples{NewSamples(s, episodes, nil, n)}, earlier[:min(len(earlier), 2)]...)
		var observations, targets []float64
		for _, x := range earlier {
			values := twin.Values(s, x.observations)
			x.trajectories.Bootstrap = twin.Values(s, s.FromSlice(len(x.terminated), task.ObservationDim, x.final))
			for i, terminated := range x.terminated {
				if terminated {
					x.trajectories.Bootstrap[i] = 0
				}
			}
			observations = append(observations, compute.ToSlice(b, x.observations)...)
			targets = append(targets, x.trajectories.LambdaReturns(values, settings.Gamma, settings.GAELambda)...)
		}
		if _, err := twin.Learn(b, s.FromSlice(len(targets), task.ObservationDim, observations), targets, 400, int(want)); err != nil {
			t.Fatal(err)
		}

		x, row := l.Reuse.samples(s, episodes, nil, n), progress.NewRow()
		if x.ages != nil || x.size() != 400 || x.lessons.size() != len(targets) {
			t.Fatalf("iteration %d: the gradient's batch has %d samples, the value function's %d, want 400 and %d", iteration, x.size(), x.lessons.size(), len(targets))
		}
		if err := l.Update(x, s, NewRandom(31, uint64(iteration)), &row, nil); err != nil {
			t.Fatal(err)
		}
		l.Reuse.keep(episodes)
		if row.ValuePasses > want || iteration == 0 && row.ValuePasses != want {
			t.Errorf("iteration %d: %v passes, want at most %v", iteration, row.ValuePasses, want)
		}
		for name, values := range twin.State() {
			if !slices.Equal(l.Value.State()[name], values) {
				t.Fatalf("iteration %d: the value function's %s differ from the twin's", iteration, name)
			}
		}
	}
}
