package linop_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/estimators/linop/linoptest"
)

// The estimate is within a few of its standard errors of the trace, which shrink with the
// number of probes and with what the basis leaves; a basis of everything leaves nothing.
func TestTrace(t *testing.T) {
	const p, seed = 60, 41
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	random := mat.NewDense(p, p, nil)
	random.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, random)
	var a mat.SymDense // with the eigenvalues 1, 1/2, 1/4, ...
	var qr mat.QR
	var q, scaled, product mat.Dense
	qr.Factorize(random)
	qr.QTo(&q)
	scaled.Apply(func(_, j int, x float64) float64 { return x * math.Pow(2, -float64(j)/2) }, &q)
	product.Mul(&scaled, scaled.T())
	a.AddSym(mat.NewSymDense(p, nil), mat.NewSymDense(p, product.RawMatrix().Data))
	want := mat.Trace(&a)
	linoptest.EachBackend(t, func(t *testing.T, b compute.Backend) {
		s := compute.NewScope(b)
		defer s.Release()
		operator := linop.NewDense(b, s.FromSlice(p, p, product.RawMatrix().Data))
		estimate := func(columns, probes int) linop.Estimate {
			var basis compute.Block
			if columns > 0 {
				basis = s.FromSlice(p, columns, mat.DenseCopyOf(q.Slice(0, p, 0, columns)).RawMatrix().Data)
			}
			e := linop.Trace(b, operator, basis, probes, rand.New(rand.NewPCG(seed, 1)))
			if math.Abs(e.Value-want) > 4*e.StdErr+1e-12 {
				t.Errorf("%d columns, %d probes: %g with standard error %g, the trace is %g", columns, probes, e.Value, e.StdErr, want)
			}
			return e
		}
		few, many := estimate(0, 20), estimate(0, 500)
		if ratio := few.StdErr / many.StdErr; ratio < 3 || ratio > 8 {
			t.Errorf("25 times the probes reduce the standard error by %g, want about 5", ratio)
		}
		if e := estimate(10, 20); e.StdErr > few.StdErr/200 {
			t.Errorf("the ten leading eigenvectors reduce the standard error from %g to %g only", few.StdErr, e.StdErr)
		}
		if e := estimate(p, 5); e.StdErr > 1e-12 {
			t.Errorf("of a whole basis the standard error is %g", e.StdErr)
		}
	})
}
