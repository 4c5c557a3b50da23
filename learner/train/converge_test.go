package train

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/computetest"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/config/configtest"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/sim"
)

// converged makes an update from random episodes of Hopper whose rewards are multiplied by unit, and returns what it
// has learned, and the policy's change.
func converged(t *testing.T, algorithm config.Algorithm, steps int, unit float64) (*Learner, runs.Row, []float64) {
	t.Helper()
	task, err := sim.Lookup("Hopper-v2")
	if err != nil {
		t.Fatal(err)
	}
	settings, err := configtest.Authors(task.Name, algorithm, config.UAPG)
	if err != nil {
		t.Fatal(err)
	}
	settings.KernelLearning = config.Converge
	b := computetest.Opaque(cpu.New(2))
	learner, scope, row := New(b, &settings, task), compute.NewScope(b), runs.NewRow()
	episodes := randomEpisodes(rand.New(rand.NewPCG(1, 2)), task, steps)
	for _, e := range episodes {
		for i := range e.Rewards {
			e.Rewards[i] *= unit
		}
	}
	before := slices.Clone(learner.Params)
	x := NewSamples(scope, episodes, nil, policy.Identity(task.ObservationDim, 5))
	if err := learner.Update(x, scope, NewRandom(1, 1), &row, nil); err != nil {
		t.Fatal(err)
	}
	scope.Release()
	if live := b.Live(); live != 0 {
		t.Errorf("%d buffers are left", live)
	}
	return learner, row, floats.SubTo(before, learner.Params, before)
}

// The unit of rewards changes nothing but the gradient's scale: the hyperparameters are those of standardised targets.
func TestConvergeWithoutUnits(t *testing.T) {
	one, row, step := converged(t, config.TRPO, 1200, 1)
	thousand, scaled, sameStep := converged(t, config.TRPO, 1200, 1000)
	x, y := one.Critic.Hyper(), thousand.Critic.Hyper()
	for name, pair := range map[string][2]float64{
		"lengthscale": {x.Base[0], y.Base[0]}, "output scale": {x.OutputScale, y.OutputScale},
		"Fisher variance": {x.FisherVariance, y.FisherVariance},
		"noise":           {x.Noise, y.Noise}, "gradient": {row.GradientNorm, scaled.GradientNorm / 1000},
		"likelihood":          {row.HeldOutLogLikelihood, scaled.HeldOutLogLikelihood + math.Log(1000)},
		"marginal likelihood": {row.LogLikelihood, scaled.LogLikelihood + math.Log(1000)},
		"Gaussian":            {row.GaussianLogLikelihood, scaled.GaussianLogLikelihood + math.Log(1000)},
	} {
		if !(math.Abs(pair[0]-pair[1]) <= 1e-4*math.Abs(pair[0])) {
			t.Errorf("%s: %g, and in thousandths %g", name, pair[0], pair[1])
		}
	}
	if d := floats.Distance(step, sameStep, 2) / floats.Norm(step, 2); !(d < 1e-3) {
		t.Errorf("steps differ by %g of their length", d)
	}
	t.Logf("coverage %.2f and %.2f, log likelihood %.3f, of a Gaussian %.3f", row.Coverage50, row.Coverage90,
		row.HeldOutLogLikelihood, row.GaussianLogLikelihood)
	if !(math.Abs(row.Coverage90-0.9) < 0.1) {
		t.Errorf("90 %% intervals hold %.2f of the held-out targets", row.Coverage90)
	}
	if !(math.Abs(row.NormalCoverage90-0.9) < 0.1 && row.NormalCoverage50 < row.NormalCoverage90) {
		t.Errorf("the normal distributions' 50 and 90 %% intervals hold %.2f and %.2f of the held-out targets",
			row.NormalCoverage50, row.NormalCoverage90)
	}
}

// A single episode cannot be held out: the kernel and the features remain as they are.
func TestConvergeNeedsTwoEpisodes(t *testing.T) {
	learner, row, step := converged(t, config.NPG, 100, 1)
	if h := learner.Critic.Hyper(); math.Abs(h.OutputScale-math.Ln2) > 1e-15 || !math.IsNaN(row.Coverage50) ||
		floats.Norm(step, 2) == 0 {
		t.Errorf("hyperparameters %+v, coverage %v, step %v", h, row.Coverage50, floats.Norm(step, 2))
	}
}
