package linop_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/computetest"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/estimators/linop/linoptest"
)

// TestLogDetCovers checks the estimate against Cholesky's, and that its standard
// error is neither too small nor too large: over many matrices the errors in units
// of it have about unit size.
func TestLogDetCovers(t *testing.T) {
	const n, trials = 30, 50
	b := cpu.New(0)
	sum := 0.0
	for trial := range uint64(trials) {
		rng := rand.New(rand.NewPCG(trial, 0))
		a := positive(rng, n, 5)
		var cholesky mat.Cholesky
		if !cholesky.Factorize(a) {
			t.Fatal("not positive definite")
		}
		s := compute.NewScope(b)
		got, err := linop.LogDet{Probes: 20, Steps: n}.Estimate(b, n, linop.Products(dense(s, a)), rng)
		s.Release()
		if err != nil {
			t.Fatal(err)
		}
		z := (got.Value - cholesky.LogDet()) / got.StdErr
		if !(math.Abs(z) < 6) {
			t.Errorf("trial %d: %g ± %g, want %g", trial, got.Value, got.StdErr, cholesky.LogDet())
		}
		sum += z * z
	}
	if rms := math.Sqrt(sum / trials); rms < 0.6 || rms > 1.5 {
		t.Errorf("errors are %g standard errors in the root mean square, want about 1", rms)
	}
}

// TestLogDetExact has a matrix whose log is a multiple of I, and probes that find
// an invariant space at once: no error is left.
func TestLogDetExact(t *testing.T) {
	linoptest.EachBackend(t, func(t *testing.T, b compute.Backend) {
		rng := rand.New(rand.NewPCG(1, 0))
		got, err := linop.LogDet{}.Estimate(b, 50, linop.Products(linop.NewScaledIdentity(b, 50, 3)), rng)
		if want := 50 * math.Log(3); err != nil || math.Abs(got.Value-want) > 1e-10 || got.StdErr > 1e-10 {
			t.Errorf("%g ± %g, %v; want %g", got.Value, got.StdErr, err, want)
		}
	})
}

// TestLogDetKernel is the use it has: a low rank plus noise, few steps.
func TestLogDetKernel(t *testing.T) {
	linoptest.EachBackend(t, func(t *testing.T, b compute.Backend) {
		const n, r = 40, 4
		rng := rand.New(rand.NewPCG(2, 0))
		v := linoptest.Normal(rng, n*r)
		s := compute.NewScope(b)
		defer s.Release()
		a := linop.NewSum(b, linop.NewLowRank(b, 1, s.FromSlice(n, r, v)), linop.NewScaledIdentity(b, n, 0.5))
		var full mat.SymDense
		full.SymOuterK(1, mat.NewDense(n, r, v))
		for i := range n {
			full.SetSym(i, i, full.At(i, i)+0.5)
		}
		got, err := linop.LogDet{Probes: 12}.Estimate(b, n, linop.Products(a), rng)
		want, _ := mat.LogDet(&full)
		if err != nil || !(math.Abs(got.Value-want) < 5*got.StdErr) {
			t.Errorf("%g ± %g, %v; want %g", got.Value, got.StdErr, err, want)
		}
	})
}

// TestLogDetStops counts the products for a matrix whose logarithm takes few steps: the
// quadrature stops when its error is negligible beside the spread of the probes.
func TestLogDetStops(t *testing.T) {
	const n, probes = 200, 10
	b := cpu.New(0)
	s := compute.NewScope(b)
	defer s.Release()
	full, want := mat.NewDense(n, n, nil), 0.0
	for i := range n {
		value := 0.7 + 0.5*float64(i)/n
		full.Set(i, i, value)
		want += math.Log(value)
	}
	// A Householder reflection hides the diagonal from the random signs.
	v := mat.NewVecDense(n, linoptest.Normal(rand.New(rand.NewPCG(6, 0)), n))
	reflection := scaledIdentity(n, 1)
	var outer mat.Dense
	outer.Outer(-2/mat.Dot(v, v), v, v)
	reflection.Add(reflection, &outer)
	full.Product(reflection, full, reflection)
	products, a := 0, dense(s, full)
	counted := func(dst, x compute.Block) error {
		products++
		a.MulTo(dst, x, false)
		return nil
	}
	got, err := linop.LogDet{Probes: probes, Steps: n}.Estimate(b, n, counted, rand.New(rand.NewPCG(7, 0)))
	if err != nil || !(math.Abs(got.Value-want) < 4*got.StdErr) || products > 6 {
		t.Errorf("%g ± %g after %d products, %v; want %g after 6", got.Value, got.StdErr, products, err, want)
	}
}

func TestLogDetErrors(t *testing.T) {
	b := computetest.Naive()
	rng := rand.New(rand.NewPCG(3, 0))
	var notPositive *linop.NotPositiveError
	if _, err := (linop.LogDet{}).Estimate(b, 5, linop.Products(linop.NewScaledIdentity(b, 5, -2)),
		rng); !errors.As(err, &notPositive) || notPositive.Eigenvalue > 0 {
		t.Errorf("a negative matrix: %v", err)
	}
	var notFinite *linop.NotFiniteError
	if _, err := (linop.LogDet{}).Estimate(b, 5, linop.Products(linop.NewScaledIdentity(b, 5, math.NaN())),
		rng); !errors.As(err, &notFinite) {
		t.Errorf("a matrix of NaN: %v", err)
	}
	last := errors.New("the third product")
	if _, err := (linop.LogDet{}).Estimate(b, 9, failing(2, last), rng); !errors.Is(err, last) {
		t.Errorf("products that fail: %v", err)
	}
}

// failing multiplies by a diagonal matrix so many times, and then fails.
func failing(times int, err error) linop.Multiply {
	return func(dst, x compute.Block) error {
		if times--; times < 0 {
			return err
		}
		b := computetest.Naive()
		for i := range x.Rows {
			b.Affine(dst.Row(i), float64(1+i), x.Row(i), 0, 0)
		}
		return nil
	}
}
