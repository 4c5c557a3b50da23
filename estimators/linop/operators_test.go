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

func TestNoise(t *testing.T) {
	linoptest.Test(t, linoptest.Case{
		Build: func(s *compute.Scope, rng *rand.Rand, n int) linop.Operator {
			return linop.NewNoise(s.Backend(), n, rng.NormFloat64())
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

func TestToeplitz(t *testing.T) {
	linoptest.Test(t, linoptest.Case{
		Build: func(s *compute.Scope, rng *rand.Rand, n int) linop.Operator {
			return linop.NewToeplitz(s, linoptest.Normal(rng, n))
		},
		Dense: func(rng *rand.Rand, n int) *mat.Dense { return toeplitz(linoptest.Normal(rng, n)) },
	})
}

// TestProduct multiplies a dense operator by a Toeplitz one.
func TestProduct(t *testing.T) {
	linoptest.Test(t, linoptest.Case{
		Build: func(s *compute.Scope, rng *rand.Rand, n int) linop.Operator {
			b := s.Backend()
			left := linop.NewDense(b, s.FromSlice(n, n, linoptest.Normal(rng, n*n)))
			return linop.NewProduct(b, left, linop.NewToeplitz(s, linoptest.Normal(rng, n)))
		},
		Dense: func(rng *rand.Rand, n int) *mat.Dense {
			left := mat.NewDense(n, n, linoptest.Normal(rng, n*n))
			left.Mul(left, toeplitz(linoptest.Normal(rng, n)))
			return left
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

// TestSumAndScale adds operators of all kinds: A + 2 v v' - 3 I.
func TestSumAndScale(t *testing.T) {
	linoptest.Test(t, linoptest.Case{
		Build: func(s *compute.Scope, rng *rand.Rand, n int) linop.Operator {
			b := s.Backend()
			return linop.NewSum(b,
				linop.NewDense(b, s.FromSlice(n, n, linoptest.Normal(rng, n*n))),
				linop.NewScale(b, 2, linop.NewLowRank(b, 1, s.FromSlice(n, 1, linoptest.Normal(rng, n)))),
				linop.NewNoise(b, n, -3))
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

// TestInterp compares with the sum of W T W', W made of the definition of cubic
// convolution.
func TestInterp(t *testing.T) {
	const dims = 3
	grid := compute.Grid{Low: -1.1, Step: 0.2, Size: 12}
	draw := func(rng *rand.Rand, n int) (z, column []float64) {
		z, column = make([]float64, n*dims), linoptest.Normal(rng, grid.Size)
		for i := range z {
			z[i] = -0.9 + 1.8*rng.Float64()
		}
		return z, column
	}
	linoptest.Test(t, linoptest.Case{
		Build: func(s *compute.Scope, rng *rand.Rand, n int) linop.Operator {
			z, column := draw(rng, n)
			return linop.NewInterp(s.Backend(), s.FromSlice(n, dims, z), grid, linop.NewToeplitz(s, column))
		},
		Dense: func(rng *rand.Rand, n int) *mat.Dense {
			z, column := draw(rng, n)
			sum := mat.NewDense(n, n, nil)
			for d := range dims {
				w := mat.NewDense(n, grid.Size, nil)
				for i := range n {
					for g := range grid.Size {
						w.Set(i, g, cubic((z[i*dims+d]-grid.Low)/grid.Step-float64(g)))
					}
				}
				var wt, a mat.Dense
				wt.Mul(w, toeplitz(column))
				a.Mul(&wt, w.T())
				sum.Add(sum, &a)
			}
			return sum
		},
	})
}

// cubic is the cubic convolution kernel (Keys 1981, a = -1/2).
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
		"product of other size": func() { linop.NewNoise(b, 4, 1).MulTo(x, x, false) },
		"transposed product":    func() { linop.NewDense(b, x).MulTo(compute.NewBlock(b, 3, 1), compute.NewBlock(b, 2, 1), true) },
		"sum of sizes":          func() { linop.NewSum(b, linop.NewNoise(b, 3, 1), linop.NewNoise(b, 4, 1)) },
		"product of sizes":      func() { linop.NewProduct(b, linop.NewNoise(b, 3, 1), linop.NewNoise(b, 4, 1)) },
		"empty sum":             func() { linop.NewSum(b) },
		"grid of other size": func() {
			linop.NewInterp(b, x, compute.Grid{Step: 1, Size: 5}, linop.NewNoise(b, 4, 1))
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
