package train

import (
	"math"
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
	"github.com/dbqpg/dbqpg/sim"
)

// Calibration looks on: with it and without it an update is the same bits. It tells nothing
// of Monte Carlo, of a single episode, or by conjugate gradients, and of a rough kernel in
// one iteration of ten.
func TestCalibrationChangesNothing(t *testing.T) {
	task, err := sim.Lookup("Hopper-v2")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		estimator config.Estimator
		solver    config.Solver
		base      string
		steps     int // in episodes of 100
		iteration uint64
		tells     bool
	}{
		{"usual", config.UAPG, config.Direct, "rbf", 1200, 2, true},
		{"Monte Carlo", config.MonteCarlo, config.Direct, "rbf", 600, 1, false},
		{"one episode", config.UAPG, config.Direct, "rbf", 100, 1, false},
		{"conjugate gradients", config.UAPG, config.ConjugateGradient, "rbf", 600, 1, false},
		{"rough, first iteration", config.UAPG, config.Direct, "matern12", 600, 0, true},
		{"rough, tenth", config.UAPG, config.Direct, "matern12", 600, 9, false},
		{"rough, eleventh", config.UAPG, config.Direct, "matern12", 600, 10, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			settings, err := configtest.Authors(task.Name, config.NPG, c.estimator)
			if err != nil {
				t.Fatal(err)
			}
			settings.Targets, settings.Solver, settings.BaseKernel = config.GAE, c.solver, c.base
			var params [2][]float64
			var row [2]runs.Row
			for i := range params {
				b := computetest.Opaque(cpu.New(2))
				learner, rng, scope := New(b, &settings, task), rand.New(rand.NewPCG(1, 2)), compute.NewScope(b)
				row[i] = runs.NewRow()
				row[i].Iteration = c.iteration
				x := NewSamples(scope, randomEpisodes(rng, task, c.steps), nil, policy.Identity(task.ObservationDim, 5))
				update := func() error { return learner.Update(x, scope, NewRandom(1, 1), &row[i], nil) }
				if i == 1 {
					update = func() error { return uncalibrated(learner, x, scope, NewRandom(1, 1), &row[i]) }
				}
				if err := update(); err != nil {
					t.Fatal(err)
				}
				params[i] = learner.Params
				scope.Release()
				if live := b.Live(); live != 0 {
					t.Errorf("%d buffers are left", live)
				}
			}
			if !slices.Equal(params[0], params[1]) {
				t.Error("calibration changes the policy")
			}
			if told := !math.IsNaN(row[0].Coverage50) && !math.IsNaN(row[0].Coverage90); told != c.tells {
				t.Errorf("coverage %v and %v", row[0].Coverage50, row[0].Coverage90)
			}
			if !math.IsNaN(row[1].Coverage50) {
				t.Error("the coverage does not come from the stage that was left out")
			}
		})
	}
}

// uncalibrated is an update without the calibration, which must not affect the other results.
func uncalibrated(l *Learner, x Samples, s *compute.Scope, r Random, row *runs.Row) error {
	u := l.update(x, s, r, row, nil)
	return u.each(stage{"scores", u.scores}, stage{"targets", u.targets}, stage{"decomposition", u.decomposition},
		stage{"kernel step", u.kernelStep}, stage{"estimate", u.integrate}, stage{"policy step", u.improve})
}
