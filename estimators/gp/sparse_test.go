package gp

import (
	"slices"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/computetest"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
)

// Outside the grid points that reach says, no value from least to greatest has a weight.
func TestReachHoldsAllWeights(t *testing.T) {
	rng, g := seeded(t, 50), grid()
	onBackend(t, computetest.Naive(), func(t *testing.T, s *compute.Scope) {
		eye, b := s.Identity(g.Size), s.Backend()
		for range 50 {
			z := []float64{Bound * (2*rng.Float64() - 1), -Bound, g.Low + g.Step*float64(1+rng.IntN(g.Size-2))}[rng.IntN(3)]
			values := []float64{z, min(Bound, z+rng.ExpFloat64())}
			r, weights := reach(g, slices.Min(values), slices.Max(values)), s.New(2, g.Size)
			if r.from < 0 || r.to > g.Size || r.to-r.from < 4 {
				t.Fatalf("%v reach %v of %d points", values, r, g.Size)
			}
			b.Interpolate(false, weights, s.FromSlice(2, 1, values), eye, g)
			compute.Fill(b, weights.ColRange(r.from, r.to), 0)
			if left := b.Dot(weights, weights); left != 0 {
				t.Errorf("%v have weights outside %v", values, r)
			}
		}
	})
}

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
				f := p.state.(*sparseFactor)
				all := &directPosterior{inputs: p.inputs, scope: s, fisher: p.fisher, state: f.whole()}
				if err := all.condition(p.gram.fisherFisher); err != nil {
					t.Fatal(err)
				}
				if err := all.solve(); err != nil {
					t.Fatal(err)
				}
				if most := all.state.cols(); f.cols() > 3*most/4 || p.Size() != all.order() {
					t.Errorf("%d columns of %d; size %d, want %d", f.cols(), most, p.Size(), all.order())
				}
				numbers := func(p *directPosterior) []float64 {
					features := s.New(x.n, x.d)
					hyper, err := p.Gradient(features)
					if err != nil {
						t.Fatal(err)
					}
					return slices.Concat([]float64{p.value, hyper.OutputScale, hyper.FisherVariance, hyper.Noise}, hyper.Base,
						compute.ToSlice(s.Backend(), p.alpha), compute.ToSlice(s.Backend(), features))
				}
				wantNear(t, "all that a fit says", numbers(p), numbers(all), 1e-9)
			})
		})
	}
}
