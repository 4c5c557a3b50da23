package train_test

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/internal/config"
)

// More samples of the Fisher matrix change the step and nothing else: the gradient's batch,
// what the critic learns of it and the normaliser are those of a run without, bit for bit;
// and all steps are counted.
func TestFisherSamples(t *testing.T) {
	for _, c := range []struct {
		algorithm config.Algorithm
		estimator config.Estimator
		gradient  bool // depends on the Fisher matrix too
	}{
		{config.NPG, config.MonteCarlo, false},
		{config.Vanilla, config.DBQPG, true},
		{config.TRPO, config.UAPG, true},
	} {
		t.Run(string(c.algorithm)+"-"+string(c.estimator), func(t *testing.T) {
			s := settings(t, "Hopper-v2", c.algorithm, c.estimator)
			s.Batch, s.Rank, s.Iterations, s.Targets = 300, 15, 1, config.GAE
			usual := trainSerially(t, s)
			s.FisherSamples = 2.5
			more := trainSerially(t, s)

			row, before := more.rows[0], more.states[0]
			if steps := row.Steps - before.Steps; steps < 750 || steps > 1000 ||
				row.Episodes <= usual.rows[0].Episodes {
				t.Errorf("%d steps, want those of 2.5 batches of 300; %d episodes in all", steps, row.Episodes)
			}
			for _, name := range []string{
				"normalizer.count", "normalizer.mean", "normalizer.m2", "critic.value.first",
			} {
				requireBits(t, name, more.states[1].Arrays[name], usual.states[1].Arrays[name])
			}
			if got, want := more.rows[0].ValueLoss, usual.rows[0].ValueLoss; got != want {
				t.Errorf("value loss %v, want %v", got, want)
			}
			// The policy is evaluated on all samples at once, which rounds the first ones' means differently.
			norm, usualNorm := more.rows[0].GradientNorm, usual.rows[0].GradientNorm
			if changes := math.Abs(norm-usualNorm) > 1e-12*usualNorm; changes != c.gradient {
				t.Errorf("the gradient's norm is %v, and %v with one batch's samples", norm, usualNorm)
			}
			if floats.Distance(more.states[1].Arrays["policy.params"], usual.states[1].Arrays["policy.params"],
				2) == 0 {
				t.Error("the step is the same")
			}
		})
	}
}
