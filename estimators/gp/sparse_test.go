package gp

import (
	"slices"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
)

// The columns of grid points that no sample reaches change nothing, and are left out.
func TestColumnsThatNoSampleReaches(t *testing.T) {
	x := newBatch(seeded(t, 51), 60, 3, 4)
	for i := range x.features {
		x.features[i] *= []float64{1, 0.2, 0.5}[i%3]
	}
	for _, name := range []string{"matern12", "matern32", "matern52", "piecewise-polynomial"} {
		t.Run(name, func(t *testing.T) {
			onBackend(t, cpu.New(2), func(t *testing.T, s *compute.Scope) {
				p := fit(t, s, withBase(someKernel(), name), x.upload(s)).(*directPosterior)
				all, err := p.whole()
				if err != nil {
					t.Fatal(err)
				}
				if err := all.solve(); err != nil {
					t.Fatal(err)
				}
				if some, most := p.state.Cols(), all.state.Cols(); some > 3*most/4 || p.Size() != all.order() {
					t.Errorf("%d columns of %d; size %d, want %d", some, most, p.Size(), all.order())
				}
				numbers := func(p *directPosterior) []float64 {
					features := s.New(x.n, x.d)
					hyper, err := p.Gradient(features)
					if err != nil {
						t.Fatal(err)
					}
					return slices.Concat([]float64{p.value, hyper.OutputScale, hyper.FisherVariance, hyper.Noise},
						hyper.Base,
						compute.ToSlice(s.Backend(), p.alpha), compute.ToSlice(s.Backend(), features))
				}
				wantNear(t, "all that a fit says", numbers(p), numbers(all), 1e-9)
			})
		})
	}
}
