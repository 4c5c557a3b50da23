package statekernel

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/estimators/gp/kernels"
	"github.com/dbqpg/dbqpg/estimators/linop/linoptest"
)

// seeded returns a generator whose seed the test's log shows.
func seeded(t *testing.T, seed uint64) *rand.Rand {
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// Outside the grid points that reach says, no value from least to greatest has a weight.
func TestReachHoldsAllWeights(t *testing.T) {
	rng, g := seeded(t, 50), grid()
	linoptest.EachBackend(t, func(t *testing.T, b compute.Backend) {
		s := compute.NewScope(b)
		defer s.Release()
		eye := s.Identity(g.Size)
		for range 50 {
			z := []float64{Bound * (2*rng.Float64() - 1), -Bound,
				g.Low + g.Step*float64(1+rng.IntN(g.Size-2))}[rng.IntN(3)]
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

// A state kernel of too many columns is an error, not a day's work.
func TestTooManyColumns(t *testing.T) {
	base, err := kernels.Lookup("matern12")
	if err != nil {
		t.Fatal(err)
	}
	rough, rng := Kernel{Base: base, Hyper: []float64{0.4}, Scale: 0.7}, seeded(t, 36)
	linoptest.EachBackend(t, func(t *testing.T, b compute.Backend) {
		s := compute.NewScope(b)
		defer s.Release()
		for _, c := range []struct {
			features int
			fits     bool
		}{{64, true}, {65, false}} {
			if columns := Columns(rough.Base, c.features); columns != 128*c.features {
				t.Errorf("%d features: %d columns", c.features, columns)
			}
			scaled := s.New(5, c.features)
			if _, err := Scale(b, scaled, s.FromSlice(5, c.features, linoptest.Normal(rng, 5*c.features))); err != nil {
				t.Fatal(err)
			}
			_, err := rough.Factor(s, scaled, nil)
			var e *TooManyColumnsError
			if errors.As(err, &e) == c.fits {
				t.Errorf("%d features: error %v", c.features, err)
			}
			if _, err := rough.Factor(s, scaled, []int{1, 3}); err != nil {
				t.Errorf("%d features with inducing points: %v", c.features, err)
			}
		}
	})
}

// Each further point is drawn by its squared distance from the nearest before it: of
// points at 0, 1 and 3, pairs have the probabilities worked out by hand.
func TestChooseInducingDrawsBySquaredDistance(t *testing.T) {
	const draws = 20000
	rng := seeded(t, 34)
	b := cpu.New(1)
	s := compute.NewScope(b)
	defer s.Release()
	features := s.FromSlice(3, 1, []float64{0, 1, 3})
	counts := map[[2]int]float64{}
	for range draws {
		pair, err := ChooseInducing(b, features, 2, rng)
		if err != nil {
			t.Fatal(err)
		}
		counts[[2]int(pair)]++
	}
	for pair, want := range map[[2]int]float64{
		{0, 1}: 1. / 10, {0, 2}: 9. / 10, {1, 0}: 1. / 5, {1, 2}: 4. / 5, {2, 0}: 9. / 13, {2, 1}: 4. / 13,
	} {
		want /= 3
		if deviation := math.Sqrt(want * (1 - want) / draws); math.Abs(counts[pair]/draws-want) > 5*deviation {
			t.Errorf("%v is drawn in %.4f of all cases, want %.4f", pair, counts[pair]/draws, want)
		}
	}
}

func TestChooseInducing(t *testing.T) {
	x := linoptest.Normal(seeded(t, 35), 50*3)
	copy(x[3:], slices.Repeat(x[:3], 20)) // rows 0 to 20 are equal
	linoptest.EachBackend(t, func(t *testing.T, b compute.Backend) {
		s := compute.NewScope(b)
		defer s.Release()
		features := s.FromSlice(50, 3, x)
		choose := func(m int, seed uint64) []int {
			rows, err := ChooseInducing(b, features, m, rand.New(rand.NewPCG(seed, 0)))
			if err != nil {
				t.Fatal(err)
			}
			return rows
		}
		if !slices.Equal(choose(10, 1), choose(10, 1)) || slices.Equal(choose(10, 1), choose(10, 2)) {
			t.Error("the choice is not a function of the seed")
		}
		for _, m := range []int{1, 30, 31, 50} {
			rows := choose(m, 3)
			equal := 0
			for _, row := range rows {
				if row <= 20 {
					equal++
				}
			}
			slices.Sort(rows)
			if len(slices.Compact(rows)) != m {
				t.Errorf("%d rows, some of them twice: %v", m, rows)
			}
			if m <= 30 && equal > 1 {
				t.Errorf("%d of %d rows are equal, though others are left", equal, m)
			}
		}
		var e *InducingError
		for _, m := range []int{0, 51} {
			if _, err := ChooseInducing(b, features, m, rand.New(rand.NewPCG(1, 0))); !errors.As(err, &e) {
				t.Errorf("%d of 50 rows: error %v", m, err)
			}
		}
	})
}

// The two factors' products at n = 15,000 and 10 features, for grid matrices of some
// ranks: what the constant rough is chosen by.
func BenchmarkFactor(b *testing.B) {
	const n, d = 15000, 10
	for _, k := range []int{30, 140} {
		for _, l := range []float64{0.693, 0.3, 0.15, 0.1} {
			s := compute.NewScope(cpu.New(0))
			rng := rand.New(rand.NewPCG(1, 0))
			features := linoptest.Normal(rng, n*d)
			for i, x := range features {
				features[i] = math.Tanh(x)
			}
			scaled, dst := s.New(n, d), s.New(n, d)
			if _, err := Scale(s.Backend(), scaled, s.FromSlice(n, d, features)); err != nil {
				b.Fatal(err)
			}
			targets, fisher := s.FromSlice(n, 1, linoptest.Normal(rng, n)),
				s.FromSlice(n, k, linoptest.Normal(rng, n*k))
			spectrum := newSpectrum(Kernel{Base: kernels.Default(), Hyper: []float64{l}, Scale: 1})
			ski := interpolated{backend: s.Backend(), grid: grid(), scaled: scaled, spectrum: spectrum,
				table: upload(s, spectrum.factor(1))}.withAllColumns()
			q := ski.Cols()
			in := Gradient{targets, s.New(q, 1), s.New(q, q), fisher, s.New(k, q), 1}
			for name, build := range map[string]func(*compute.Scope) Factor{
				"dense":  func(s *compute.Scope) Factor { return newDenseFactor(s, ski) },
				"sparse": func(*compute.Scope) Factor { return newSparseFactor(ski) },
			} {
				b.Run(fmt.Sprintf("rank=%d/k=%d/%s", spectrum.rank(), k, name), func(b *testing.B) {
					for b.Loop() {
						scope := compute.NewScope(s.Backend())
						f := build(scope)
						f.Gram(scope.New(f.Cols(), f.Cols()))
						f.MulTransTo(scope.New(f.Cols(), k), fisher)
						f.MulTransTo(scope.New(f.Cols(), 1), targets)
						f.AddTo(targets, 0, in.C.RowRange(0, f.Cols()))
						f.Gradient(dst, in)
						scope.Release()
					}
				})
			}
			s.Release()
		}
	}
}

// A spectrum is remembered by the base kernel and the values of its hyperparameters, and for as long as it is among the
// last used.
func TestSpectrumOf(t *testing.T) {
	of := func(l float64) *spectrum {
		return spectrumOf(Kernel{Base: kernels.Default(), Hyper: []float64{l}, Scale: 1})
	}
	hyper := []float64{0.4}
	first := spectrumOf(Kernel{Base: kernels.Default(), Hyper: hyper, Scale: 1})
	hyper[0] = 0.5 // the caller's, who may go on using it
	if of(0.4) != first || of(0.5) == first {
		t.Error("a spectrum is not that of its hyperparameters")
	}
	if want := newSpectrum(Kernel{Base: kernels.Default(), Hyper: []float64{0.4}}); !mat.Equal(first.root, want.root) {
		t.Error("the spectrum has changed since it was made")
	}
	other, err := kernels.Lookup("matern52")
	if err != nil {
		t.Fatal(err)
	}
	if spectrumOf(Kernel{Base: other, Hyper: []float64{0.4}, Scale: 1}) == first {
		t.Error("two kernels have a spectrum in common")
	}
	for i := range mostRecent {
		of(0.6 + float64(i)/10)
	}
	if of(0.4) == first {
		t.Errorf("more than %d spectra are remembered", mostRecent)
	}
}
