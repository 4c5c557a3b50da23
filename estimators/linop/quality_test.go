package linop_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/estimators/linop/linoptest"
)

// policyScores returns the scores of a fresh tanh policy o-64-64-a on a batch whose
// observations drift slowly along a few directions, as a robot's do: the spectrum
// falls as on real batches, which that of random matrices does not.
func policyScores(s *compute.Scope, rng *rand.Rand, n, o, a int) (u *linop.Scores, observations compute.Block) {
	const latent = 4
	b := s.Backend()
	normal := func(rows, cols int, scale float64) compute.Block {
		x := s.FromSlice(rows, cols, linoptest.Normal(rng, rows*cols))
		compute.Scale(b, scale, x)
		return x
	}
	state := make([]float64, n*latent)
	for i := latent; i < len(state); i++ {
		state[i] = 0.98*state[i-latent] + 0.2*rng.NormFloat64()
	}
	observations = normal(n, o, 0.1)
	b.Gemm(false, false, 1, s.FromSlice(n, latent, state), normal(latent, o, 0.7), 1, observations)

	layer := func(in compute.Block, out int, scale float64) (w, h compute.Block) {
		w, h = normal(out, in.Cols, scale/math.Sqrt(3*float64(in.Cols))), s.New(n, out)
		b.Gemm(false, true, 1, in, w, 0, h)
		return w, h
	}
	zeros := s.FromSlice(1, 64, make([]float64, 64))
	_, h1 := layer(observations, 64, 1)
	b.Tanh(h1, zeros)
	w2, h2 := layer(h1, 64, 1)
	b.Tanh(h2, zeros)
	w3, _ := layer(h2, a, 0.1)

	// With unit deviations the mean's signal is the action's noise.
	d3, d2, d1, logStd := normal(n, a, 1), s.New(n, 64), s.New(n, 64), s.New(n, a)
	b.Gemm(false, false, 1, d3, w3, 0, d2)
	b.TanhGrad(d2, h2)
	b.Gemm(false, false, 1, d2, w2, 0, d1)
	b.TanhGrad(d1, h1)
	b.Mul(logStd, d3, d3, 0)
	b.Affine(logStd, 1, logStd, 0, -1)
	return linop.NewScores(b, []linop.ScoreLayer{
		{Inputs: observations, Signals: d1}, {Inputs: h1, Signals: d2}, {Inputs: h2, Signals: d3},
	}, logStd), observations
}

// gradient returns U K^-1 y with the state kernel replaced by a linear one: K = X X'/o +
// c2 n v V V' + noise I, y a smooth function of the observations plus noise.
func gradient(t *testing.T, s *compute.Scope, u *linop.Scores, x, v compute.Block) []float64 {
	b, n := s.Backend(), x.Rows
	k := linop.NewSum(b, linop.NewLowRank(b, 1/float64(x.Cols), x), linop.NewLowRank(b, 5e-5*float64(n)*0.693, v),
		linop.NewScaledIdentity(b, n, 0.693))
	y := s.FromSlice(n, 1, linoptest.Normal(rand.New(rand.NewPCG(99, 0)), n))
	compute.Axpy(b, 1, x.Col(0), y)
	b.Mul(y, x.Col(1), x.Col(2), 1)
	if _, err := (linop.CG{MaxIterations: 500, Tolerance: 1e-16}).Solve(b, k, y, y); err != nil {
		t.Fatal(err)
	}
	return compute.ToSlice(b, linop.Mul(s, u, y, false))
}

func cosine(x, y []float64) float64 {
	var xx, xy, yy float64
	for i := range x {
		xx += x[i] * x[i]
		xy += x[i] * y[i]
		yy += y[i] * y[i]
	}
	return xy / math.Sqrt(xx*yy)
}

// energy returns |A x|^2, the part of the operator's squared norm along orthonormal x.
func energy(s *compute.Scope, a linop.Operator, x compute.Block, trans bool) float64 {
	product := linop.Mul(s, a, x, trans)
	return s.Backend().Dot(product, product)
}

// TestRandomizedSVDQuality compares with the exact decomposition on batches of the
// shape of Hopper's and Swimmer's: what matters is how much of U the two bases
// hold, and the gradient that comes of them.
func TestRandomizedSVDQuality(t *testing.T) {
	for _, task := range []struct{ samples, observation, actions, rank int }{
		{1200, 11, 3, 45}, {1200, 8, 2, 30}, {linop.ExactSamples + 1, 11, 3, 45},
	} {
		for seed := range uint64(2) {
			b := cpu.New(0)
			s := compute.NewScope(b)
			u, x := policyScores(s, rand.New(rand.NewPCG(seed, 0)), task.samples, task.observation, task.actions)
			exact, err := linop.ExactSVD(s, u, task.rank)
			if err != nil {
				t.Fatal(err)
			}
			sketched, err := linop.RandomizedSVD(s, u, task.rank, rand.New(rand.NewPCG(seed, 1)))
			if err != nil {
				t.Fatal(err)
			}
			best := energy(s, u, exact.V, false)
			right, left := energy(s, u, sketched.V, false)/best, energy(s, u, linop.MulOut(s, sketched.P), true)/best
			cos := cosine(gradient(t, s, u, x, exact.V), gradient(t, s, u, x, sketched.V))
			largest := 0.0
			for i := range exact.S {
				largest = max(largest, math.Abs(sketched.S[i]-exact.S[i])/exact.S[0])
			}
			t.Logf("%+v seed %d: energy in V %.4f, in P %.4f of the best; gradient at cosine %.6f; singular "+
				"values off by %.4f of the first",
				task, seed, right, left, cos, largest)
			if right < 0.995 || left < 0.998 || cos < 0.9999 || largest > 0.01 {
				t.Error("that is not good enough")
			}
			s.Release()
		}
	}
}
