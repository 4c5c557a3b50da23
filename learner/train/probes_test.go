package train_test

import (
	"math"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/learner/train"
)

// The probes that estimate log determinants are drawn anew by each iteration and each seed, and by nothing else:
// another update with the same ones has the same log likelihood, bit for bit, and one with any others has not.
func TestProbes(t *testing.T) {
	for _, kernel := range []config.FisherKernel{config.TruncatedSVD, config.Exact} {
		t.Run(string(kernel), func(t *testing.T) {
			s := settings(t, "Hopper-v2", config.NPG, config.UAPG)
			s.Batch, s.Rank, s.Iterations, s.Solver, s.FisherKernel = 200, 15, 2, config.ConjugateGradient, kernel
			j := trainSerially(t, s)
			const last = 2 // batch
			// likelihood is that of the last iteration, done again.
			likelihood := func(probes train.Random) float64 {
				collector := newSerial(t, s)
				run := newRun(t, s, collector, nil)
				if err := run.Resume(j.states[last-1], 2); err != nil {
					t.Fatal(err)
				}
				batch, err := collector.Collect(t.Context(), collect.Order{Policy: run.Policy(last), Steps: s.Batch})
				if err != nil {
					t.Fatal(err)
				}
				scope := compute.NewScope(run.Backend)
				defer scope.Release()
				random := train.Random{Sketch: train.NewRandom(s.Seed, last).Sketch, Probe: probes.Probe}
				row := runs.NewRow()
				if err := run.Update(train.NewSamples(scope, batch.Episodes, nil, run.Normalizer()), scope, random,
					&row, nil); err != nil {
					t.Fatal(err)
				}
				return row.LogLikelihood
			}
			want := j.rows[last-1].LogLikelihood
			if got := likelihood(train.NewRandom(s.Seed, last)); math.Float64bits(got) != math.Float64bits(want) {
				t.Errorf("log likelihood %v with the iteration's probes, in training it was %v", got, want)
			}
			for what, other := range map[string]train.Random{
				"the iteration before": train.NewRandom(s.Seed, last-1),
				"the one after":        train.NewRandom(s.Seed, last+1),
				"another seed":         train.NewRandom(s.Seed+1, last),
			} {
				if got := likelihood(other); got == want || math.IsNaN(got) {
					t.Errorf("log likelihood %v with the probes of %s too", got, what)
				}
			}
		})
	}
}
