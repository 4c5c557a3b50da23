package linop_test

import (
	"errors"
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

func TestTranspose(t *testing.T) {
	linoptest.Test(t, linoptest.Case{
		Build: func(s *compute.Scope, rng *rand.Rand, n int) linop.Operator {
			return linop.NewTranspose(linop.NewDense(s.Backend(), s.FromSlice(n, 7, linoptest.Normal(rng, n*7))))
		},
		Dense: func(rng *rand.Rand, n int) *mat.Dense {
			return mat.DenseCopyOf(mat.NewDense(n, 7, linoptest.Normal(rng, n*7)).T())
		},
	})
}

// TestInverse compares with (V V' + I/2)^-1 = 2 I - 2 V (I/2 + V'V)^-1 V'.
func TestInverse(t *testing.T) {
	const rank = 3
	linoptest.Test(t, linoptest.Case{
		Build: func(s *compute.Scope, rng *rand.Rand, n int) linop.Operator {
			b := s.Backend()
			a := linop.NewSum(b, linop.NewNoise(b, n, 0.5), linop.NewLowRank(b, 1, s.FromSlice(n, rank, linoptest.Normal(rng, n*rank))))
			return linop.NewInverse(b, a, linop.CG{Tolerance: 1e-24})
		},
		Dense: func(rng *rand.Rand, n int) *mat.Dense {
			v := mat.NewDense(n, rank, linoptest.Normal(rng, n*rank))
			var small, middle, a mat.Dense
			small.Mul(v.T(), v)
			small.Add(&small, scaledIdentity(rank, 0.5))
			if err := middle.Inverse(&small); err != nil {
				panic(err)
			}
			a.Product(v, &middle, v.T())
			a.Scale(-2, &a)
			a.Add(&a, scaledIdentity(n, 2))
			return &a
		},
		Tolerance: 1e-9,
	})
}

// TestInverseKeepsItsError has a matrix that is not positive definite: the product is
// NaN, and who asks is told why, also after products that went well.
func TestInverseKeepsItsError(t *testing.T) {
	b := linoptestNaive()
	s := compute.NewScope(b)
	defer s.Release()
	diagonal := scaledIdentity(3, 1)
	diagonal.Set(2, 2, -1)
	a := linop.NewInverse(b, linop.NewDense(b, s.FromSlice(3, 3, diagonal.RawMatrix().Data)), linop.CG{})
	good, bad := s.FromSlice(3, 1, []float64{1, 0, 0}), s.FromSlice(3, 1, []float64{0, 0, 1})
	dst := s.New(3, 1)
	a.MulTo(dst, good, false)
	if a.Err() != nil || a.Iterations() != 1 {
		t.Errorf("in an invariant subspace: %v, %d iterations", a.Err(), a.Iterations())
	}
	a.MulTo(dst, bad, false)
	for i, v := range compute.ToSlice(b, dst) {
		if !math.IsNaN(v) {
			t.Errorf("element %d of a product that failed is %g", i, v)
		}
	}
	a.MulTo(dst, good, false)
	var breakdown *linop.BreakdownError
	if !errors.As(a.Err(), &breakdown) || breakdown.Value >= 0 {
		t.Errorf("the error is %v", a.Err())
	}
}

// TestCirculant is the way of the larger matrices, at small orders.
func TestCirculant(t *testing.T) {
	linoptest.Test(t, linoptest.Case{
		Build: func(s *compute.Scope, rng *rand.Rand, n int) linop.Operator {
			return linop.NewCirculant(s.Backend(), linoptest.Normal(rng, n))
		},
		Dense: func(rng *rand.Rand, n int) *mat.Dense { return toeplitz(linoptest.Normal(rng, n)) },
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
