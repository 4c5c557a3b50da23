//go:build cgo && !purego

package cpu

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/gonum"
	"gonum.org/v1/gonum/mat"
)

// The factorisation of a positive definite matrix, its inverse and the factor's, and its
// condition number are gonum's own, from either triangle, and the other triangle is left alone.
func TestCholeskyAgainstGonum(t *testing.T) {
	const n, stride, seed = 37, 41, 1
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	root := mat.NewDense(n, n+2, nil)
	root.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, root)
	var square mat.Dense
	square.Mul(root, root.T())
	for _, triangle := range []blas.Uplo{blas.Upper, blas.Lower} {
		run := func(l lapack.Float64) []float64 {
			a := make([]float64, n*stride)
			for i := range n {
				for j := range stride {
					a[i*stride+j] = math.NaN()
					if j < n && (triangle == blas.Upper) == (j >= i) || i == j {
						a[i*stride+j] = square.At(i, j)
					}
				}
			}
			if !l.Dpotrf(triangle, n, a, stride) {
				t.Fatal("not positive definite")
			}
			factor := append([]float64(nil), a...)
			inverse := append([]float64(nil), a...)
			if !l.Dtrtri(triangle, blas.NonUnit, n, inverse, stride) {
				t.Fatal("no inverse of the factor")
			}
			condition := l.Dpocon(triangle, n, a, stride, mat.Norm(&square, 1), make([]float64, 3*n), make([]int, n))
			if !l.Dpotri(triangle, n, a, stride) {
				t.Fatal("no inverse")
			}
			return append(slices.Concat(factor, inverse, a), condition)
		}
		got, want := run(openLAPACK{}), run(gonum.Implementation{})
		for i := range want {
			if math.IsNaN(got[i]) != math.IsNaN(want[i]) || math.Abs(got[i]-want[i]) > 1e-10*(1+math.Abs(want[i])) {
				t.Fatalf("%c: number %d is %g, gonum's %g", triangle, i, got[i], want[i])
			}
		}
	}
}
