package optim

import (
	"math"
	"testing"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/nn/nntest"
	"github.com/dbqpg/dbqpg/learner/state"
)

func TestTRPOStaysInTheTrustRegionAndGains(t *testing.T) {
	for _, b := range nntest.Backends() {
		for seed := range uint64(12) {
			var choices []int
			if seed >= 8 {
				choices = []int{3, 2}
			}
			f := newFixture(b, seed, choices...)
			params := clone(f.params)
			report, err := (&TRPO{}).Step(params, f.Objective)
			if err != nil {
				t.Fatal(err)
			}
			next := f.Policy.At(f.s, params)
			kl, gain := f.Policy.KL(next), next.Surrogate(f.Actions, f.Weights, f.Policy.LogProb(f.s, f.Actions))
			if report.Rejected || kl > 0.01 || !(gain > 0) || report.KL != kl {
				t.Errorf("seed %d: divergence %v, gain %v, report %+v", seed, kl, gain, report)
			}
			// The step is along the natural gradient, and the gain at least a tenth of
			// what the gradient promised for it.
			natural, _, err := f.natural(f.s)
			if err != nil {
				t.Fatal(err)
			}
			promised, dot, dd, ss := 0.0, 0.0, 0.0, 0.0
			g := f.gradient()
			for i, d := range compute.ToSlice(b, natural) {
				step := params[i] - f.params[i]
				promised += g[i] * step
				dot, dd, ss = dot+d*step, dd+d*d, ss+step*step
			}
			if cosine := dot / math.Sqrt(dd*ss); cosine < 1-1e-12 {
				t.Errorf("seed %d: cosine %v between step and natural gradient", seed, cosine)
			}
			if gain < 0.1*promised*(1-1e-9) {
				t.Errorf("seed %d: gain %v of promised %v", seed, gain, promised)
			}
			f.s.Release()
		}
	}
}

// For a small region the quadratic model is exact, and the step ends on its rim: the
// divergence, damping included, is the bound.
func TestTRPOReachesTheRim(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		const bound = 1e-8
		params := clone(f.params)
		report, err := (&TRPO{MaxKL: bound}).Step(params, f.Objective)
		if err != nil {
			t.Fatal(err)
		}
		squares := 0.0
		for i := range params {
			squares += (params[i] - f.params[i]) * (params[i] - f.params[i])
		}
		if got := report.KL + damping/2*squares; report.Halvings != 0 || math.Abs(got-bound) > 1e-3*bound {
			t.Errorf("damped divergence %v, want %v; report %+v", got, bound, report)
		}
	})
}

// A region far beyond the quadratic model's makes the search halve.
func TestTRPOHalves(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		params := clone(f.params)
		report, err := (&TRPO{MaxKL: 1000}).Step(params, f.Objective)
		if err != nil {
			t.Fatal(err)
		}
		if report.Rejected || report.Halvings == 0 || report.KL > 1000 {
			t.Errorf("report %+v", report)
		}
	})
}

func TestTRPORejects(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		check := func(what string, halvings int, o Objective) {
			params := clone(f.params)
			report, err := (&TRPO{}).Step(params, o)
			if err != nil {
				t.Fatal(err)
			}
			if !report.Rejected || report.KL != 0 || report.Halvings != halvings {
				t.Errorf("%s: report %+v", what, report)
			}
			nntest.Near(t, what, params, f.params, 0)
		}
		// A surrogate that falls where the gradient says that it rises.
		with := func(weights, gradient compute.Block) Objective {
			o := f.Objective
			o.Estimate = &estimators.Estimate{Weights: weights, Gradient: gradient}
			return o
		}
		w := compute.ToSlice(f.b, f.Weights)
		for i := range w {
			w[i] = -w[i]
		}
		check("opposite", 10, with(f.s.FromSlice(len(w), 1, w), f.Gradient))

		still := f.s.New(len(f.params), 1)
		compute.Fill(f.b, still, 0)
		check("no gradient", 0, with(f.Weights, still))

		nan := f.s.New(len(w), 1)
		compute.Fill(f.b, nan, math.NaN())
		check("NaN weights", 10, with(nan, f.Gradient))
	})
}

// StdRate shortens the step of the standard deviations beside that of the mean, and the step still ends on the rim.
func TestTRPOStdRate(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		const bound, rate = 1e-8, 0.25
		ratio := func(stdRate float64) (std, mean float64) {
			params := clone(f.params)
			report, err := (&TRPO{MaxKL: bound, StdRate: stdRate}).Step(params, f.Objective)
			if err != nil || report.Rejected {
				t.Fatal(report, err)
			}
			squares, a := 0.0, len(f.Policy.LogStd())
			for i := range params {
				squares += (params[i] - f.params[i]) * (params[i] - f.params[i])
			}
			if got := report.KL + damping/2*squares; math.Abs(got-bound) > 1e-3*bound {
				t.Errorf("rate %v: damped divergence %v, want %v", stdRate, got, bound)
			}
			last := len(params) - 1
			return params[last] - f.params[last], params[last-a] - f.params[last-a]
		}
		std, mean := ratio(0)
		slowStd, slowMean := ratio(rate)
		if got, want := slowStd/slowMean, rate*std/mean; math.Abs(got-want) > 1e-6*math.Abs(want) {
			t.Errorf("the standard deviation moves %v times as far as the mean's last parameter, want %v", got, want)
		}
	})
}

// Adaptive is a twin of the formula in its comment: the divergence of a step follows the variance of the targets once
// it is below a quarter of its running mean, and is the bound above that.
func TestTRPOAdaptive(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		const bound = 1e-8
		trpo, seen := &TRPO{MaxKL: bound, Adaptive: true}, []float64{}
		for i, variance := range []float64{2, 8, 1, 0.1, 1e-6, 100} {
			seen = append(seen, variance)
			mean := 0.0
			for _, v := range seen { // of fewer than 50 batches all weigh the same
				mean += v / float64(len(seen))
			}
			f.TargetVariance = variance
			params := clone(f.params)
			report, err := trpo.Step(params, f.Objective)
			if err != nil || report.Rejected {
				t.Fatal(report, err)
			}
			squares := 0.0
			for i := range params {
				squares += (params[i] - f.params[i]) * (params[i] - f.params[i])
			}
			want := bound * min(1, 4*variance/mean)
			if got := report.KL + damping/2*squares; math.Abs(got-want) > 2e-3*want {
				t.Errorf("batch %d, variance %v of a mean of %v: divergence %v, want %v", i, variance, mean, got, want)
			}
		}
		f.TargetVariance = 0
		still := clone(f.params)
		if report, err := (&TRPO{Adaptive: true}).Step(still, f.Objective); err != nil || report.Rejected {
			t.Errorf("targets that never vary: %+v, %v", report, err)
		}
	})
}

func TestTRPORestoreRefusesImpossibleStates(t *testing.T) {
	for _, s := range []state.Arrays{
		nil, {"variance": {1}}, {"variance": {0.5, 1}}, {"variance": {-1, 1}}, {"variance": {2, -1}},
		{"variance": {2, math.NaN()}},
	} {
		trpo := &TRPO{Adaptive: true}
		if err := state.Restore(s, trpo.Visit); err == nil || trpo.batches != 0 {
			t.Errorf("%v is restored, %+v", s, trpo)
		}
	}
}
