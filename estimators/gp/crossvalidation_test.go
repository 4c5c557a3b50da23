package gp

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"gonum.org/v1/gonum/diff/fd"
	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/computetest"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
)

var thirds = [][2]int{{0, 21}, {21, 37}, {37, 60}}

// heldOut is the slow twin of the objective without its prior: dense predictions of every other
// sample of each fold, given the other folds.
func heldOut(x batch, k Kernel, folds [][2]int, every int) float64 {
	twin := newPriorTwin(x, batch{}, k)
	sum, points := 0.0, 0.0
	for _, f := range folds {
		given, targets := append(span(0, f[0]), span(f[1], x.n)...), []float64(nil)
		for _, i := range given {
			targets = append(targets, x.targets[i])
		}
		var at []int
		for i := f[0]; i < f[1]; i += every {
			at = append(at, i)
		}
		mean, variance := twin.moments(ActionValue, given, at, targets, k.Noise)
		for i, p := range at {
			s := variance[i] + k.Noise
			sum -= (math.Log(2*math.Pi*s) + (x.targets[p]-mean[i])*(x.targets[p]-mean[i])/s) / 2
			points++
		}
	}
	return sum / points
}

// The objective against its twin, and its gradient against differences, for every kernel.
func TestHeldOutLikelihood(t *testing.T) {
	x := newBatch(seeded(t, 60), 60, 3, 4)
	for name, k := range cases() {
		if name == "small noise" {
			k.Noise = 1e-3 // the twin's own rounding, without a small order
		}
		t.Run(name, func(t *testing.T) {
			onBackend(t, cpu.New(2), func(t *testing.T, s *compute.Scope) {
				v, err := CrossValidation{Folds: thirds, Points: 30}.prepare(s, k, x.upload(s))
				if err != nil {
					t.Fatal(err)
				}
				o, err := v.objective(k.Hyper.Base)
				if err != nil {
					t.Fatal(err)
				}
				at := []float64{math.Log(k.OutputScale), math.Log(k.FisherVariance), math.Log(k.Noise)}
				value, gradient := o.at(at)
				penalty, _ := o.prior.penalty(at)
				wantNear(t, "likelihood", []float64{penalty - value}, []float64{heldOut(x, k, thirds, 2)}, 2e-5)
				want := fd.Gradient(nil, func(x []float64) float64 { value, _ := o.at(x); return value }, at,
					&fd.Settings{Formula: fd.Central})
				wantNear(t, "gradient", gradient, want, 1e-5)
			})
		})
	}
}

// drawn returns a batch whose targets are drawn from the process itself.
func drawn(t *testing.T, seed uint64, n int, k Kernel) batch {
	rng := seeded(t, seed)
	x := newBatch(rng, n, 2, 12) // rank 12: of v they tell a factor of 1.5
	prior := newPriorTwin(x, batch{}, k)[ActionValue]
	for i := range n {
		prior.SetSym(i, i, prior.At(i, i)+k.Noise)
	}
	var factor mat.Cholesky
	if !factor.Factorize(prior) {
		t.Fatal("the prior's covariance is not positive definite")
	}
	var lower mat.TriDense
	factor.LTo(&lower)
	normal, y := mat.NewVecDense(n, nil), mat.NewVecDense(n, nil)
	for i := range n {
		normal.SetVec(i, rng.NormFloat64())
	}
	y.MulVec(&lower, normal)
	copy(x.targets, y.RawVector().Data)
	return x
}

// From targets drawn from the process, its hyperparameters are found again, from far away: the
// noise closely, the others as far as a few hundred samples tell. What is found is a
// stationary point, and starting there changes nothing.
func TestMaximizeRecoversThePrior(t *testing.T) {
	k := Kernel{C1: 1, C2: 5e-2, Hyper: Hyper{Base: []float64{0.4}, OutputScale: 0.7, FisherVariance: 2, Noise: 0.3}}
	folds := [][2]int{{0, 80}, {80, 160}, {160, 240}, {240, 320}, {320, 400}}
	validation := CrossValidation{Folds: folds, Points: 400, Drift: 30} // no prior to speak of
	for seed := uint64(61); seed < 64; seed++ {
		x := drawn(t, seed, 400, k)
		far := k
		far.Hyper = Hyper{Base: []float64{1.5}, OutputScale: 0.05, FisherVariance: 0.2, Noise: 3}
		onBackend(t, cpu.New(2), func(t *testing.T, s *compute.Scope) {
			found, err := validation.Maximize(s.Backend(), far, x.upload(s))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v, %d evaluations", found.Hyper, found.Evaluations)
			within := func(what string, got, want, factor float64) {
				if !(got < want*factor && got > want/factor) {
					t.Errorf("seed %d: %s %.3g, want %.3g within a factor of %g", seed, what, got, want, factor)
				}
			}
			within("noise", found.Noise, k.Noise, 1.25)
			within("lengthscale", found.Base[0], k.Hyper.Base[0], 2)
			within("output scale", found.OutputScale, k.OutputScale, 5)
			within("Fisher variance", found.FisherVariance, k.FisherVariance, 4)
			if !(found.Slope < 1e-3) {
				t.Errorf("seed %d: not stationary: slope %g", seed, found.Slope)
			}
			near := k
			near.Hyper = found.Hyper
			again, err := validation.Maximize(s.Backend(), near, x.upload(s))
			if err != nil {
				t.Fatal(err)
			}
			if d := math.Abs(again.LogLikelihood - found.LogLikelihood); !(d < 1e-3) ||
				again.Evaluations >= found.Evaluations {
				t.Errorf("seed %d: a second time: likelihood off by %g after %d evaluations", seed, d,
					again.Evaluations)
			}
		})
	}
}

// Noise that the samples of a fold share is no reason to be confident: the variance of a
// held-out target is right, where the marginal likelihood takes the noise for the function.
func TestMaximizeWithDependentNoise(t *testing.T) {
	rng := seeded(t, 64)
	const episodes, length = 10, 40
	x := newBatch(rng, episodes*length, 2, 4)
	var folds [][2]int
	for e := range episodes {
		folds = append(folds, [2]int{e * length, (e + 1) * length})
		// A drift along the features, a different one in each episode, so that it looks like a function.
		a, b := rng.NormFloat64(), rng.NormFloat64()
		for i := e * length; i < (e+1)*length; i++ {
			at := float64(i-e*length) / length
			x.features[i*2], x.features[i*2+1] = at+0.01*float64(e), at-0.013*float64(e)
			x.targets[i] = a + b*at + 0.1*rng.NormFloat64()
		}
	}
	k := someKernel()
	onBackend(t, cpu.New(2), func(t *testing.T, s *compute.Scope) {
		found, err := CrossValidation{Folds: folds}.Maximize(s.Backend(), k, x.upload(s))
		if err != nil {
			t.Fatal(err)
		}
		variance, n := 0.0, float64(x.n)
		for _, y := range x.targets {
			variance += y * y / n
		}
		gauss := -(math.Log(2*math.Pi*variance) + 1) / 2
		if !(found.LogLikelihood > gauss-0.05) || !(found.Noise > variance/3) {
			t.Errorf("%+v, likelihood %.3f; a Gaussian has likelihood %.3f and variance %.3f", found.Hyper,
				found.LogLikelihood, gauss, variance)
		}
	})
}

func TestMaximizeRefuses(t *testing.T) {
	x, k := newBatch(seeded(t, 65), 60, 3, 4), someKernel()
	onBackend(t, cpu.New(1), func(t *testing.T, s *compute.Scope) {
		x.targets[3] = math.NaN()
		var notFinite *NotFiniteError
		if _, err := (CrossValidation{Folds: thirds}).Maximize(s.Backend(), k, x.upload(s)); !errors.As(err,
			&notFinite) {
			t.Errorf("NaN: %v", err)
		}
		x.targets[3] = 0
		for _, folds := range [][][2]int{
			nil, {{0, 60}}, {{0, 30}, {31, 60}}, {{0, 30}, {30, 59}}, {{0, 30}, {30, 30}, {30, 60}},
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("no panic on folds %v", folds)
					}
				}()
				_, _ = CrossValidation{Folds: folds}.Maximize(s.Backend(), k, x.upload(s))
			}()
		}
	})
}

// The less the variances are expected to move, the closer they stay to where they start.
func TestMaximizeWithDrift(t *testing.T) {
	k := someKernel()
	x := drawn(t, 66, 60, k)
	k.Noise *= 20
	last := math.Inf(1)
	for _, drift := range []float64{30, 1, 0.1, 1e-3} {
		onBackend(t, cpu.New(1), func(t *testing.T, s *compute.Scope) {
			found, err := CrossValidation{Folds: thirds, Drift: drift}.Maximize(s.Backend(), k, x.upload(s))
			if err != nil {
				t.Fatal(err)
			}
			moved := math.Abs(math.Log(found.Noise / k.Noise))
			if !(moved < last) {
				t.Errorf("drift %g: the noise's logarithm moves by %g, with a larger one by %g", drift, moved, last)
			}
			last = moved
		})
	}
	if !(last < 1e-4) {
		t.Errorf("with next to no drift the noise's logarithm moves by %g", last)
	}
}

// The base kernel's first step is tried beside the start, or after it on a distant backend: to the same bits.
func TestMaximizeBeside(t *testing.T) {
	k := someKernel()
	x := drawn(t, 67, 60, k)
	for _, ratio := range []float64{0, 1, LengthscaleStep} {
		var all []Validation
		for _, b := range []compute.Backend{cpu.New(2), computetest.Opaque(cpu.New(2))} {
			s := compute.NewScope(b)
			found, err := CrossValidation{Folds: thirds, Ratio: ratio}.Maximize(b, k, x.upload(s))
			if err != nil {
				t.Fatal(err)
			}
			s.Release()
			all = append(all, found)
		}
		if !reflect.DeepEqual(all[0], all[1]) {
			t.Errorf("ratio %g: %+v beside, %+v after", ratio, all[0].Hyper, all[1].Hyper)
		}
	}
}

// lost is a distant backend whose device fails as soon as it is told to.
type lost struct {
	compute.Backend
	now *bool
}

func (lost) Distant() bool { return true }

func (l lost) Gemm(transA, transB bool, alpha float64, x, y compute.Block, beta float64, c compute.Block) {
	if *l.now {
		panic(&compute.Failure{Err: errors.New("the device is lost")})
	}
	l.Backend.Gemm(transA, transB, alpha, x, y, beta, c)
}

// A device's failure ends in an error at the top of the task, and not the program.
func TestMaximizeOnALostDevice(t *testing.T) {
	k := someKernel()
	b := lost{cpu.New(2), new(bool)}
	s := compute.NewScope(b)
	v, err := CrossValidation{Folds: thirds}.prepare(s, k, drawn(t, 68, 60, k).upload(s))
	if err != nil {
		t.Fatal(err)
	}
	*b.now = true
	func() {
		defer compute.Catch(&err)
		_, _, err = v.startAndStep(k.Hyper, LengthscaleStep)
	}()
	if failure := (*compute.Failure)(nil); !errors.As(err, &failure) {
		t.Errorf("the error is %v, want the device's failure", err)
	}
}
