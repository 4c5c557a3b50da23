package estimators_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// toy is a problem whose gradient is known: one step from a state s ~ N(0,1), with an action a = theta'f(s) + noise of
// variance 1 and the first Hermite polynomials f, E[ff'] = I; an action value that is the same under all policies,
//
//	Q(s,a) = v(s) + b'f(s) a,
//
// and targets with noise. Under the policy theta = 0 the score is f(s) a, the Fisher matrix I, and the gradient b.
type toy struct{ rng *rand.Rand }

var toyAdvantage = []float64{2, -1, 0.5, 0.3} // b

const toyNoise = 0.5 // variance of the targets' noise

func hermite(s float64) []float64 {
	return []float64{1, s, (s*s - 1) / math.Sqrt2, (s*s*s - 3*s) / math.Sqrt(6)}
}

// batch draws n samples from each of the policies, and evaluates them under the policy theta = 0.
func (x toy) batch(s *compute.Scope, n int, policies [][]float64) *estimators.Batch {
	total := n * len(policies)
	u, states, y := mat.NewDense(4, total, nil), make([]float64, total), make([]float64, total)
	batch := new(estimators.Batch)
	for i := range total {
		state := x.rng.NormFloat64()
		f := hermite(state)
		a := floats.Dot(policies[i/n], f) + x.rng.NormFloat64()
		for j := range f {
			u.Set(j, i, f[j]*a)
		}
		states[i] = state
		y[i] = math.Sin(2*state) + floats.Dot(toyAdvantage, f)*a + math.Sqrt(toyNoise)*x.rng.NormFloat64()
	}
	b := s.Backend()
	batch.Scores, batch.Features, batch.Targets = linop.NewDense(b, upload(s, u)), s.FromSlice(total, 1, states), s.FromSlice(total, 1, y)
	batch.Fisher = estimators.NewFisher(linop.NewScaledIdentity(b, 4, 1), 1e-9)
	return batch
}

// decompose decomposes the scores to a rank, with an age for each policy unless they are to be taken for the current one's.
func (x toy) decompose(s *compute.Scope, batch *estimators.Batch, n, rank int, aged bool) {
	var svd mat.SVD
	if !svd.Factorize(download(s.Backend(), linop.MulOut(s, batch.Scores)), mat.SVDThin) {
		panic("no singular value decomposition")
	}
	var p, v mat.Dense
	svd.UTo(&p)
	svd.VTo(&v)
	rows, _ := v.Dims()
	batch.SVD = &linop.SVD{
		P: linop.NewDense(s.Backend(), upload(s, mat.DenseCopyOf(p.Slice(0, 4, 0, rank)))), S: svd.Values(nil)[:rank],
		V: upload(s, mat.DenseCopyOf(v.Slice(0, rows, 0, rank))),
	}
	if !aged {
		return
	}
	for range rows / n {
		batch.Ages = append(batch.Ages, gp.Age{Samples: n, Noise: 1})
	}
	var err error
	if batch.SVD, err = batch.SVD.Within(s, batch.Fisher.Matrix); err != nil {
		panic(err)
	}
}

// errors returns the length of an estimator's mean error over repeated batches, the standard error of that, and the root mean
// square of its errors' lengths.
func (x toy) errors(test *testing.T, repeats int, estimate func(s *compute.Scope) *estimators.Estimate) (bias, standardError, rms float64) {
	test.Helper()
	mean, squares, b := make([]float64, 4), 0.0, cpu.New(1)
	for range repeats {
		s := compute.NewScope(b)
		e := compute.ToSlice(b, estimate(s).Gradient)
		s.Release()
		floats.Sub(e, toyAdvantage)
		floats.Add(mean, e)
		squares += floats.Dot(e, e)
	}
	floats.Scale(1/float64(repeats), mean)
	rms = math.Sqrt(squares / float64(repeats))
	return floats.Norm(mean, 2), rms / math.Sqrt(float64(repeats)), rms
}

// earlier returns K policies, each further away than the one before.
func earlier(k int) (policies [][]float64) {
	for age := range k {
		policies = append(policies, []float64{0.2 * float64(age), -0.1 * float64(age), 0, 0})
	}
	return policies
}

// quadrature returns an estimate from K policies' samples, n of each.
func (x toy) quadrature(t *testing.T, n, k, rank int, aged bool) func(s *compute.Scope) *estimators.Estimate {
	kernel := gp.Kernel{C1: 1, C2: 10, Hyper: gp.Hyper{Base: []float64{0.5}, OutputScale: 2, FisherVariance: 1, Noise: toyNoise}}
	return func(s *compute.Scope) *estimators.Estimate {
		batch := x.batch(s, n, earlier(k))
		x.decompose(s, batch, n, rank, aged)
		q := &estimators.Quadrature{Kernel: kernel, Solver: gp.Direct{}, Integral: estimators.CompletedIntegral{}}
		e, err := q.Estimate(s, batch)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
}

// Where the action values remain the same, earlier policies' samples lower the error and add no bias, however many there are. That
// would not be so if they were taken for the current policy's.
func TestReuseLowersTheErrorWithoutBias(t *testing.T) {
	const n, repeats, seed = 60, 60, 71
	t.Logf("seed %d", seed)
	x := toy{rand.New(rand.NewPCG(seed, 0))}
	last := math.Inf(1)
	for _, k := range []int{1, 3, 8} {
		bias, standardError, rms := x.errors(t, repeats, x.quadrature(t, n, k, 4, true))
		t.Logf("%d batches: bias %.3f (standard error %.3f), error %.3f", k, bias, standardError, rms)
		if !(bias < 3*standardError) || !(rms < 0.7*last) {
			t.Errorf("%d batches: bias %g, with a standard error of %g; error %g after %g", k, bias, standardError, rms, last)
		}
		last = rms
	}
	if bias, standardError, _ := x.errors(t, repeats, x.quadrature(t, n, 8, 4, false)); bias < 6*standardError {
		t.Errorf("all taken for the current policy's have a bias of %g, with a standard error of %g: nothing is tested", bias, standardError)
	}
}

// A rank below the gradient's leaves directions to the Monte Carlo mean of the newest batch. Truncation has a bias of its own,
// since it keeps directions in which the scores happened to be large; earlier samples lower that as well.
func TestReuseBesideTruncation(t *testing.T) {
	const n, repeats, seed = 60, 60, 72
	t.Logf("seed %d", seed)
	x := toy{rand.New(rand.NewPCG(seed, 0))}
	before, _, errorBefore := x.errors(t, repeats, x.quadrature(t, n, 1, 2, true))
	after, standardError, errorAfter := x.errors(t, repeats, x.quadrature(t, n, 8, 2, true))
	t.Logf("bias %.3f and %.3f (standard error %.3f), error %.3f and %.3f", before, after, standardError, errorBefore, errorAfter)
	if !(after < 0.6*before) || !(errorAfter < 0.7*errorBefore) {
		t.Errorf("bias %g with eight batches, %g with one; error %g, %g", after, before, errorAfter, errorBefore)
	}
}

// Where no sample is the current policy's, the integral in the kernel's span is unbiased still, and not so if they are taken for the
// current policy's.
func TestSpanIntegral(t *testing.T) {
	const n, repeats, seed = 180, 60, 75
	t.Logf("seed %d", seed)
	x := toy{rand.New(rand.NewPCG(seed, 0))}
	kernel := gp.Kernel{C1: 1, C2: 10, Hyper: gp.Hyper{Base: []float64{0.5}, OutputScale: 2, FisherVariance: 1, Noise: toyNoise}}
	for integral, biased := range map[estimators.Integral]bool{estimators.SpanIntegral{}: false, estimators.CompletedIntegral{}: true} {
		bias, standardError, rms := x.errors(t, repeats, func(s *compute.Scope) *estimators.Estimate {
			batch := x.batch(s, n, [][]float64{{0.8, 0, 0, 0}})
			x.decompose(s, batch, n, 4, !biased)
			e, err := (&estimators.Quadrature{Kernel: kernel, Solver: gp.Direct{}, Integral: integral}).Estimate(s, batch)
			if err != nil {
				t.Fatal(err)
			}
			return e
		})
		t.Logf("%T: bias %.3f (standard error %.3f), error %.3f", integral, bias, standardError, rms)
		if (bias > 3*standardError) != biased {
			t.Errorf("%T: bias %g, with a standard error of %g", integral, bias, standardError)
		}
	}
}

// Monte Carlo with importance ratios is unbiased unless they are truncated, and does not get better with policies that are far away.
func TestImportanceRatios(t *testing.T) {
	const n, repeats, seed = 60, 400, 73
	t.Logf("seed %d", seed)
	x := toy{rand.New(rand.NewPCG(seed, 0))}
	monteCarlo := func(k int, clip float64) func(s *compute.Scope) *estimators.Estimate {
		return func(s *compute.Scope) *estimators.Estimate {
			batch := x.batch(s, n, earlier(k))
			ratios := make([]float64, batch.Targets.Rows)
			actions := download(s.Backend(), linop.MulOut(s, batch.Scores)).RawRowView(0) // the score in the constant feature
			states := compute.ToSlice(s.Backend(), batch.Features)
			for i, a := range actions {
				mean := floats.Dot(earlier(k)[i/n], hermite(states[i]))
				ratios[i] = min(clip, math.Exp(((a-mean)*(a-mean)-a*a)/2))
			}
			e, err := estimators.MonteCarlo{Ratios: s.FromSlice(len(ratios), 1, ratios)}.Estimate(s, batch)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
	}
	for _, c := range []struct {
		k      int
		clip   float64
		biased bool
	}{{1, 1, false}, {3, math.Inf(1), false}, {3, 1, true}} {
		bias, standardError, rms := x.errors(t, repeats, monteCarlo(c.k, c.clip))
		t.Logf("%d batches, ratios up to %g: bias %.3f (standard error %.3f), error %.3f", c.k, c.clip, bias, standardError, rms)
		if (bias > 3*standardError) != c.biased {
			t.Errorf("%d batches, ratios up to %g: bias %g with a standard error of %g", c.k, c.clip, bias, standardError)
		}
	}
}

// With samples of the current policy alone, and the Fisher matrix that they give, ages change nothing: neither the gradient nor its
// uncertainty.
func TestOneAge(t *testing.T) {
	x := newProblem(t, 74, 7, 40)
	backends(t, func(t *testing.T, s *compute.Scope) {
		for _, integral := range []estimators.Integral{estimators.PlainIntegral{}, estimators.CompletedIntegral{}} {
			x := x.solve(t, s, 4)
			want := x.gradient(t, integral)
			x.batch.Fisher = x.empirical(noDamping)
			directions := func() *mat.Dense {
				u, err := x.estimate(t, x.batch.Fisher).Covariance()
				if err != nil {
					t.Fatal(err)
				}
				return dense(s, u)
			}
			covariance := directions()
			var err error
			if x.batch.SVD, err = x.batch.SVD.Within(s, x.batch.Fisher.Matrix); err != nil {
				t.Fatal(err)
			}
			x.batch.Ages = []gp.Age{{Samples: x.n, Noise: 1}}
			wantNear(t, "gradient", x.gradient(t, integral), want, 1e-8)
			wantNear(t, "covariance", directions(), covariance, 1e-8)
		}
	})
}
