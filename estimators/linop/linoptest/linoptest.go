// Package linoptest tests operators. A new one earns all the tests, on all
// backends, by supplying two functions: build it, build its dense twin.
package linoptest

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/computetest"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// Case is an operator under test. Both functions are called with generators in the
// same state, so they draw the same numbers if they draw them in the same order.
type Case struct {
	// Build makes the operator for about n samples, its blocks in s.
	Build func(s *compute.Scope, rng *rand.Rand, n int) linop.Operator
	// Dense makes the matrix that the operator stands for.
	Dense func(rng *rand.Rand, n int) *mat.Dense
}

// Tall is a number of samples that every backend makes several panels of.
const Tall = 1100

// EachBackend runs f on the naive backend, on the CPU's, and on both behind memory
// that the host cannot read, and fails where f leaves a block unreleased.
func EachBackend(t *testing.T, f func(t *testing.T, b compute.Backend)) {
	for _, backend := range []struct {
		name string
		b    compute.Backend
	}{{"Naive", computetest.Naive()}, {"CPU", cpu.New(0)}} {
		t.Run(backend.name, func(t *testing.T) { f(t, backend.b) })
		t.Run("Opaque"+backend.name, func(t *testing.T) {
			opaque := computetest.Opaque(backend.b)
			f(t, opaque)
			if n := opaque.Live(); n != 0 {
				t.Errorf("%d blocks were not released", n)
			}
		})
	}
}

// Test compares the operator's products with its twin's on each backend: any
// number of columns, both ways, in views, over NaN, twice with the same bits.
func Test(t *testing.T, c Case) {
	EachBackend(t, func(t *testing.T, b compute.Backend) {
		rapid.Check(t, func(t *rapid.T) {
			seed := rapid.Uint64().Draw(t, "seed")
			n, k := rapid.IntRange(1, 40).Draw(t, "samples"), rapid.IntRange(1, 6).Draw(t, "columns")
			test(t, c, b, seed, n, k, rapid.Bool().Draw(t, "trans"))
		})
	})
	t.Run("Tall", func(t *testing.T) {
		b := computetest.Opaque(cpu.New(0))
		for seed := range uint64(2) {
			test(t, c, b, seed, Tall, 3, false)
			test(t, c, b, seed, Tall, 3, true)
		}
	})
}

func test(t rapid.TB, c Case, b compute.Backend, seed uint64, n, k int, trans bool) {
	t.Helper()
	s := compute.NewScope(b)
	defer s.Release()
	operator, dense := c.Build(s, rand.New(rand.NewPCG(seed, 1)), n), c.Dense(rand.New(rand.NewPCG(seed, 1)), n)
	rows, cols := operator.Dims()
	if r, c := dense.Dims(); r != rows || c != cols {
		t.Fatalf("Dims is %d × %d, the dense twin's %d × %d", rows, cols, r, c)
	}
	twin := mat.Matrix(dense)
	if trans {
		rows, cols, twin = cols, rows, dense.T()
	}

	x := mat.NewDense(cols, k, Normal(rand.New(rand.NewPCG(seed, 2)), cols*k))
	var want mat.Dense
	want.Mul(twin, x)
	// Both blocks are views into the middle of larger ones that are full of NaN.
	in, out := s.New(cols+2, k+3), s.New(rows+2, k+2)
	b.Fill(in, math.NaN())
	b.Fill(out, math.NaN())
	xBlock, dst := in.View(1, cols+1, 2, k+2), out.View(1, rows+1, 1, k+1)
	b.Upload(xBlock, x.RawMatrix().Data)
	operator.MulTo(dst, xBlock, trans)
	first := compute.ToSlice(b, dst)
	tolerance := 1e-11 * max(1, mat.Norm(&want, math.Inf(1)))
	for i, v := range first {
		if !(math.Abs(v-want.At(i/k, i%k)) <= tolerance) {
			t.Fatalf("seed %d, n %d, trans %t: element (%d, %d) is %g, want %g", seed, n, trans, i/k, i%k, v, want.At(i/k, i%k))
		}
	}

	operator.MulTo(dst, xBlock, trans)
	for i, v := range compute.ToSlice(b, dst) {
		if v != first[i] {
			t.Fatalf("element (%d, %d) is %g and, repeated, %g", i/k, i%k, first[i], v)
		}
	}
	nan := 0
	for _, v := range compute.ToSlice(b, out) {
		if math.IsNaN(v) {
			nan++
		}
	}
	if around := (rows+2)*(k+2) - rows*k; nan != around {
		t.Fatalf("%d of %d elements around dst were written to", around-nan, around)
	}
}

// Normal is n standard normal numbers.
func Normal(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}
