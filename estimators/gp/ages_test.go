package gp

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/computetest"
)

// newAged draws a batch of three ages.
func newAged(t *testing.T, seed uint64, n int) batch {
	x := newBatch(seeded(t, seed), n, 3, 4)
	x.ages = []Age{{n / 2, 1}, {n / 3, 2.5}, {n - n/2 - n/3, 0.4}}
	return x
}

func TestAgedGradientByFiniteDifferences(t *testing.T) {
	x := newAged(t, 62, 25)
	for _, name := range []string{"rbf", "matern12"} {
		k := withBase(someKernel(), name)
		value := func(k Kernel) float64 { return newTwin(x, k, true).value }
		wantHyper, wantFeatures := hyperDifferences(k, value), featureDifferences(x, func() float64 { return value(k) })
		backends(t, func(t *testing.T, s *compute.Scope) {
			features := s.New(x.n, x.d)
			hyper, err := fit(t, s, k, x.upload(s)).Gradient(features)
			if err != nil {
				t.Fatal(err)
			}
			compareHyper(t, hyper, wantHyper, 1e-5)
			wantNear(t, "features", compute.ToSlice(s.Backend(), features), wantFeatures, 2e-5)
		})
	}
}

// Samples of an age are left out as if the process had been fitted to the others.
func TestAgesLeaveOut(t *testing.T) {
	x := newAged(t, 63, 60)
	backends(t, func(t *testing.T, s *compute.Scope) {
		for _, k := range []Kernel{someKernel(), withBase(someKernel(), "matern12")} {
			data := x.upload(s)
			const lo, hi = 32, 45 // of the second age
			given := append(span(0, lo), span(hi, x.n)...)
			var targets []float64
			m := mat.NewSymDense(len(given), nil)
			twin := newTwin(x, k, true)
			for a, i := range given {
				targets = append(targets, x.targets[i])
				for b, j := range given[:a+1] {
					m.SetSym(a, b, twin.k.At(i, j))
				}
			}
			var factor mat.Cholesky
			if !factor.Factorize(m) {
				t.Fatal("the twin's matrix is not positive definite")
			}
			var alpha mat.VecDense
			if err := factor.SolveVecTo(&alpha, mat.NewVecDense(len(targets), targets)); err != nil {
				t.Fatal(err)
			}
			var want []float64
			for i := lo; i < hi; i++ {
				sum := 0.0
				for a, j := range given {
					sum += twin.k.At(i, j) * alpha.AtVec(a)
				}
				want = append(want, sum)
			}
			mean, _ := leaveOut(t, s, fit(t, s, k, data), lo, hi, data.Points())
			wantNear(t, "predictions", mean[lo:hi], want, 1e-6)
		}
	})
}

// No step of expectation maximisation lowers the likelihood, and where the steps end, no other noise of any age is more likely.
func TestLearnNoise(t *testing.T) {
	x, k := newAged(t, 64, 90), someKernel()
	rng := seeded(t, 65)
	for i := 45; i < 75; i++ { // the second age
		x.targets[i] += rng.NormFloat64()
	}
	value := func(noise []float64) float64 {
		for i := range x.ages {
			x.ages[i].Noise = noise[i] / k.Noise
		}
		return newTwin(x, k, true).value
	}
	onBackend(t, computetest.Naive(), func(t *testing.T, s *compute.Scope) {
		learn := func(start []float64, steps int) []float64 {
			noise, err := fit(t, s, k, x.upload(s)).(NoiseLearner).LearnNoise(start, steps)
			if err != nil {
				t.Fatal(err)
			}
			return noise
		}
		noise := []float64{5, 0.01, 1}
		for range 10 {
			before := value(noise)
			noise = learn(noise, 1)
			if after := value(noise); !(after >= before) {
				t.Fatalf("a step lowers the log likelihood from %.17g to %.17g", before, after)
			}
		}
		noise = learn(noise, 2000)
		for i := range noise {
			const h = 1e-4
			up, down := slices.Clone(noise), slices.Clone(noise)
			up[i] *= 1 + h
			down[i] *= 1 - h
			if slope := (value(up) - value(down)) / (2 * h); math.Abs(slope) > 1e-5 {
				t.Errorf("noise %v: the log likelihood's slope in that of age %d is %g", noise, i, slope)
			}
		}
		if !(noise[1] > 2*noise[0]) {
			t.Errorf("noise %v, and the second age has the most", noise)
		}
	})
}
