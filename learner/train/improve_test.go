package train_test

import (
	"slices"
	"testing"

	"github.com/dbqpg/dbqpg/internal/config"
)

// Further steps from a batch are taken while the process is sure enough of them: all with the paper's noise of 1e-4, which it takes
// for nearly none, and none where the targets are all but noise. Each ends at the trust region's edge, so that
// several go further than one.
func TestPolicySteps(t *testing.T) {
	for _, c := range []struct {
		noise  float64
		reuse  int
		beyond bool
	}{{1e-4, 1, true}, {1e-4, 2, true}, {1e6, 1, false}} {
		s := settings(t, "Hopper-v2", config.TRPO, config.UAPG)
		s.Batch, s.Iterations, s.Noise, s.Completion, s.PolicySteps, s.Reuse = 600, 2, c.noise, true, 3, c.reuse
		for _, row := range trainSerially(t, s).rows {
			if beyond := row.KL > 1.5*s.MaxKL; beyond != c.beyond || (row.PolicySteps > 1) != c.beyond {
				t.Errorf("noise %g, iteration %d: %v steps, divergence %v; each step is at most %v",
					c.noise, row.Iteration, row.PolicySteps, row.KL, s.MaxKL)
			}
		}
	}
}

// Further steps move the mean of the policy alone.
func TestFurtherStepsKeepTheDeviation(t *testing.T) {
	after := func(steps int) (mean, logStd []float64) {
		s := settings(t, "Hopper-v2", config.TRPO, config.UAPG)
		s.Batch, s.Iterations, s.Completion, s.PolicySteps = 600, 1, true, steps
		params := trainSerially(t, s).states[1].Arrays["policy.params"]
		const actions = 3
		return params[:len(params)-actions], params[len(params)-actions:]
	}
	one, logStdOfOne := after(1)
	three, logStdOfThree := after(3)
	if slices.Equal(one, three) {
		t.Error("three steps lead where one does")
	}
	requireBits(t, "log_std after three steps", logStdOfThree, logStdOfOne)
}
