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

func TestDense(t *testing.T) {
	linoptest.Test(t, linoptest.Case{
		Build: func(s *compute.Scope, rng *rand.Rand, n int) linop.Operator {
			return linop.NewDense(s.Backend(), s.FromSlice(n, 7, linoptest.Normal(rng, n*7)))
		},
		Dense: func(rng *rand.Rand, n int) *mat.Dense { return mat.NewDense(n, 7, linoptest.Normal(rng, n*7)) },
	})
}

func TestLowRank(t *testing.T) {
	linoptest.Test(t, linoptest.Case{
		Build: func(s *compute.Scope, rng *rand.Rand, n int) linop.Operator {
			return linop.NewLowRank(s.Backend(), rng.NormFloat64(), s.FromSlice(n, 3, linoptest.Normal(rng, n*3)))
		},
		Dense: func(rng *rand.Rand, n int) *mat.Dense {
			scale := rng.NormFloat64()
			v := mat.NewDense(n, 3, linoptest.Normal(rng, n*3))
			var a mat.Dense
			a.Mul(v, v.T())
			a.Scale(scale, &a)
			return &a
		},
	})
}

func TestScaledIdentity(t *testing.T) {
	linoptest.Test(t, linoptest.Case{
		Build: func(s *compute.Scope, rng *rand.Rand, n int) linop.Operator {
			return linop.NewScaledIdentity(s.Backend(), n, rng.NormFloat64())
		},
		Dense: func(rng *rand.Rand, n int) *mat.Dense { return scaledIdentity(n, rng.NormFloat64()) },
	})
}

func scaledIdentity(n int, v float64) *mat.Dense {
	a := mat.NewDense(n, n, nil)
	for i := range n {
		a.Set(i, i, v)
	}
	return a
}

// TestProduct multiplies a dense operator by one of low rank.
func TestProduct(t *testing.T) {
	linoptest.Test(t, linoptest.Case{
		Build: func(s *compute.Scope, rng *rand.Rand, n int) linop.Operator {
			b := s.Backend()
			left := linop.NewDense(b, s.FromSlice(n, n, linoptest.Normal(rng, n*n)))
			return linop.NewProduct(b, left, linop.NewLowRank(b, 0.5, s.FromSlice(n, 2, linoptest.Normal(rng, n*2))))
		},
		Dense: func(rng *rand.Rand, n int) *mat.Dense {
			left := mat.NewDense(n, n, linoptest.Normal(rng, n*n))
			v := mat.NewDense(n, 2, linoptest.Normal(rng, n*2))
			var product mat.Dense
			product.Product(left, v, v.T())
			product.Scale(0.5, &product)
			return &product
		},
	})
}

func TestEmpiricalFisher(t *testing.T) {
	const p = 7
	linoptest.Test(t, linoptest.Case{
		Build: func(s *compute.Scope, rng *rand.Rand, n int) linop.Operator {
			b := s.Backend()
			return linop.NewEmpiricalFisher(b, linop.NewDense(b, s.FromSlice(p, n, linoptest.Normal(rng, p*n))))
		},
		Dense: func(rng *rand.Rand, n int) *mat.Dense {
			u := mat.NewDense(p, n, linoptest.Normal(rng, p*n))
			var g mat.Dense
			g.Mul(u, u.T())
			g.Scale(1/float64(n), &g)
			return &g
		},
	})
}

// Of real scores both products are one pass over the panels.
func TestEmpiricalFisherOfScores(t *testing.T) {
	linoptest.Test(t, linoptest.Case{
		Build: func(s *compute.Scope, rng *rand.Rand, n int) linop.Operator {
			return linop.NewEmpiricalFisher(s.Backend(), drawScores(rng, n).build(s))
		},
		Dense: func(rng *rand.Rand, n int) *mat.Dense {
			u := drawScores(rng, n).dense()
			var g mat.Dense
			g.Mul(u, u.T())
			g.Scale(1/float64(n), &g)
			return &g
		},
	})
}

func toeplitz(column []float64) *mat.Dense {
	n := len(column)
	a := mat.NewDense(n, n, nil)
	for i := range n {
		for j := range n {
			a.Set(i, j, column[int(math.Abs(float64(i-j)))])
		}
	}
	return a
}

// TestSum adds operators of three kinds: A + 2 v v' - 3 I.
func TestSum(t *testing.T) {
	linoptest.Test(t, linoptest.Case{
		Build: func(s *compute.Scope, rng *rand.Rand, n int) linop.Operator {
			b := s.Backend()
			return linop.NewSum(b,
				linop.NewDense(b, s.FromSlice(n, n, linoptest.Normal(rng, n*n))),
				linop.NewLowRank(b, 2, s.FromSlice(n, 1, linoptest.Normal(rng, n))),
				linop.NewScaledIdentity(b, n, -3))
		},
		Dense: func(rng *rand.Rand, n int) *mat.Dense {
			a := mat.NewDense(n, n, linoptest.Normal(rng, n*n))
			v := mat.NewDense(n, 1, linoptest.Normal(rng, n))
			var vv mat.Dense
			vv.Mul(v, v.T())
			vv.Scale(2, &vv)
			a.Add(a, &vv)
			a.Add(a, scaledIdentity(n, -3))
			return a
		},
	})
}

// The interpolation's tests: three dimensions, a grid of twelve points.
const interpDims = 3

var interpGrid = compute.Grid{Low: -1.1, Step: 0.2, Size: 12}

// drawInterp draws points and the first column of T.
func drawInterp(rng *rand.Rand, n int) (z, column []float64) {
	z, column = make([]float64, n*interpDims), linoptest.Normal(rng, interpGrid.Size)
	for i := range z {
		z[i] = -0.9 + 1.8*rng.Float64()
	}
	return z, column
}

func newInterp(s *compute.Scope, z, column []float64) *linop.Interp {
	t := linop.NewDense(s.Backend(), s.FromSlice(len(column), len(column), toeplitz(column).RawMatrix().Data))
	return linop.NewInterp(s.Backend(), s.FromSlice(len(z)/interpDims, interpDims, z), interpGrid, t)
}

// denseInterp returns the sum of W T W', W made of the definition of cubic convolution.
func denseInterp(z, column []float64) *mat.Dense {
	n := len(z) / interpDims
	sum := mat.NewDense(n, n, nil)
	for d := range interpDims {
		w := mat.NewDense(n, interpGrid.Size, nil)
		for i := range n {
			for g := range interpGrid.Size {
				w.Set(i, g, cubic((z[i*interpDims+d]-interpGrid.Low)/interpGrid.Step-float64(g)))
			}
		}
		var wt, a mat.Dense
		wt.Mul(w, toeplitz(column))
		a.Mul(&wt, w.T())
		sum.Add(sum, &a)
	}
	return sum
}

func TestInterp(t *testing.T) {
	linoptest.Test(t, linoptest.Case{
		Build: func(s *compute.Scope, rng *rand.Rand, n int) linop.Operator {
			z, column := drawInterp(rng, n)
			return newInterp(s, z, column)
		},
		Dense: func(rng *rand.Rand, n int) *mat.Dense { return denseInterp(drawInterp(rng, n)) },
	})
}

// TestInterpBilinearGradient differentiates sum_j u_j'A v_j of the dense twin by central
// differences.
func TestInterpBilinearGradient(t *testing.T) {
	const n, k, h, seed = 25, 4, 1e-6, 7
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	z, column := drawInterp(rng, n)
	u, v := mat.NewDense(n, k, linoptest.Normal(rng, n*k)), mat.NewDense(n, k, linoptest.Normal(rng, n*k))
	form := func() float64 {
		var product mat.Dense
		product.Mul(denseInterp(z, column), v)
		product.MulElem(u, &product)
		return mat.Sum(&product)
	}
	want := make([]float64, len(z))
	for i, x := range z {
		z[i] = x + h
		want[i] = form()
		z[i] = x - h
		want[i] = (want[i] - form()) / (2 * h)
		z[i] = x
	}
	linoptest.EachBackend(t, func(t *testing.T, b compute.Backend) {
		s := compute.NewScope(b)
		defer s.Release()
		dst := s.New(n, interpDims)
		newInterp(s, z, column).BilinearGradient(dst, s.FromSlice(n, k, u.RawMatrix().Data),
			s.FromSlice(n, k, v.RawMatrix().Data))
		for i, got := range compute.ToSlice(b, dst) {
			if !(math.Abs(got-want[i]) <= 1e-6*(1+math.Abs(want[i]))) {
				t.Errorf("derivative in coordinate %d of point %d is %g, by differences %g", i%interpDims, i/interpDims,
					got, want[i])
			}
		}
	})
}

// cubic returns the cubic convolution kernel (Keys 1981, a = -1/2).
func cubic(s float64) float64 {
	s = math.Abs(s)
	switch {
	case s <= 1:
		return 1.5*s*s*s - 2.5*s*s + 1
	case s < 2:
		return -0.5*s*s*s + 2.5*s*s - 4*s + 2
	}
	return 0
}

func TestShapesPanic(t *testing.T) {
	b := linoptestNaive()
	x := compute.NewBlock(b, 3, 2)
	for name, f := range map[string]func(){
		"product of other size": func() { linop.NewScaledIdentity(b, 4, 1).MulTo(x, x, false) },
		"transposed product": func() {
			linop.NewDense(b, x).MulTo(compute.NewBlock(b, 3, 1), compute.NewBlock(b, 2, 1), true)
		},
		"sum of sizes": func() {
			linop.NewSum(b, linop.NewScaledIdentity(b, 3, 1), linop.NewScaledIdentity(b, 4, 1))
		},
		"product of sizes": func() {
			linop.NewProduct(b, linop.NewScaledIdentity(b, 3, 1), linop.NewScaledIdentity(b, 4, 1))
		},
		"empty sum": func() { linop.NewSum(b) },
		"grid of other size": func() {
			linop.NewInterp(b, x, compute.Grid{Step: 1, Size: 5}, linop.NewScaledIdentity(b, 4, 1))
		},
		"rows of scores": func() {
			linop.NewScores(b, []linop.ScoreLayer{{Inputs: x, Signals: compute.NewBlock(b, 2, 2)}}, x)
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}
