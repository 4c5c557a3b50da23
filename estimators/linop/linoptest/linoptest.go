// Package linoptest tests operators. A new operator gets all tests, on all backends, by
// supplying two functions: one builds the operator, the other its dense twin.
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
	// Build returns the operator for about n samples, with its blocks in s.
	Build func(s *compute.Scope, rng *rand.Rand, n int) linop.Operator
	// Dense returns the matrix that the operator represents.
	Dense func(rng *rand.Rand, n int) *mat.Dense
	// Tolerance is the tolerance of a product's elements, relative to the largest sum of
	// absolute values of a row; 0 means 1e-11. Iterative operators need more.
	Tolerance float64
}

// Tall is a number of samples that every backend divides into several panels.
const Tall = 1100

// EachBackend runs f on the naive backend, on the CPU backend, and on both with memory that
// the host cannot read, and fails if f leaves a block unreleased.
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

// Test compares the operator's products with those of its twin on each backend: for any
// number of columns, transposed or not, in views, over NaN, and bit-identical when repeated.
// It also checks that the operator is linear, block by block and column by column, that its
// transpose is its adjoint, and that it changes neither its argument nor other memory.
func Test(t *testing.T, c Case) {
	if c.Tolerance == 0 {
		c.Tolerance = 1e-11
	}
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
	t.Logf("seed %d, %d samples, %d columns, transposed %t", seed, n, k, trans)
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
	p := products{t, s, operator, trans, c.Tolerance * max(1, mat.Norm(&want, math.Inf(1)))}
	got := p.inViews(x, rows)
	p.near("the dense twin's product", got, &want)
	p.linear(x, got)
	p.adjoint(x, got, mat.NewDense(rows, k, Normal(rand.New(rand.NewPCG(seed, 3)), rows*k)))
}

// products tests the products of one operator, transposed or not.
type products struct {
	t         rapid.TB
	scope     *compute.Scope
	operator  linop.Operator
	trans     bool
	tolerance float64 // of an element
}

// inViews multiplies x twice, from and to views into the middle of larger blocks filled with
// NaN: the products must be bit-identical, and nothing else may change.
func (p products) inViews(x *mat.Dense, rows int) *mat.Dense {
	p.t.Helper()
	s, b := p.scope, p.scope.Backend()
	cols, k := x.Dims()
	in, out := s.New(cols+2, k+3), s.New(rows+2, k+2)
	compute.Fill(b, in, math.NaN())
	compute.Fill(b, out, math.NaN())
	source, dst := in.View(1, cols+1, 2, k+2), out.View(1, rows+1, 1, k+1)
	b.Upload(source, x.RawMatrix().Data)
	before := live(b)
	p.operator.MulTo(dst, source, p.trans)
	first := compute.ToSlice(b, dst)
	p.operator.MulTo(dst, source, p.trans)
	if after := live(b); after != before {
		p.t.Fatalf("two products leave %d blocks unreleased", after-before)
	}
	for i, v := range compute.ToSlice(b, dst) {
		if v != first[i] {
			p.t.Fatalf("element (%d, %d) is %g and, repeated, %g", i/k, i%k, first[i], v)
		}
	}
	for i, v := range compute.ToSlice(b, source) {
		if v != x.At(i/k, i%k) {
			p.t.Fatalf("the product changed its argument's element (%d, %d) to %g", i/k, i%k, v)
		}
	}
	for name, c := range map[string]struct {
		block compute.Block
		want  int
	}{"argument": {in, (cols+2)*(k+3) - cols*k}, "product": {out, (rows+2)*(k+2) - rows*k}} {
		nan := 0
		for _, v := range compute.ToSlice(b, c.block) {
			if math.IsNaN(v) {
				nan++
			}
		}
		if nan != c.want {
			p.t.Fatalf("%d of %d elements around the %s were written to", c.want-nan, c.want, name)
		}
	}
	return mat.NewDense(rows, k, first)
}

// live returns the number of blocks in use, where the backend knows it.
func live(b compute.Backend) int {
	if o, ok := b.(*computetest.OpaqueBackend); ok {
		return o.Live()
	}
	return 0
}

// times returns the product with x, or with its transpose.
func (p products) times(x mat.Matrix, trans bool) *mat.Dense {
	b := p.scope.Backend()
	s := compute.NewScope(b)
	defer s.Release()
	rows, cols := x.Dims()
	product := linop.Mul(s, p.operator, s.FromSlice(rows, cols, mat.DenseCopyOf(x).RawMatrix().Data), trans)
	return mat.NewDense(product.Rows, product.Cols, compute.ToSlice(b, product))
}

// linear multiplies the columns of x one by one, and a combination of them.
func (p products) linear(x, product *mat.Dense) {
	p.t.Helper()
	rows, k := product.Dims()
	cols, _ := x.Dims()
	one, sum, sumOfProducts := mat.NewDense(rows, k, nil), mat.NewDense(cols, 1, nil), mat.NewDense(rows, 1, nil)
	weights := 0.0
	for j := range k {
		one.Slice(0, rows, j, j+1).(*mat.Dense).Copy(p.times(x.Slice(0, cols, j, j+1), p.trans))
		w := float64(j) - 1.5
		weights += math.Abs(w)
		for i := range cols {
			sum.Set(i, 0, sum.At(i, 0)+w*x.At(i, j))
		}
		for i := range rows {
			sumOfProducts.Set(i, 0, sumOfProducts.At(i, 0)+w*product.At(i, j))
		}
	}
	p.near("the products of the columns one by one", one, product)
	p.tolerance *= 1 + weights
	p.near("the product of a sum", p.times(sum, p.trans), sumOfProducts)
}

// adjoint compares y'(A x) with (A'y)'x.
func (p products) adjoint(x, product, y *mat.Dense) {
	p.t.Helper()
	back := p.times(y, !p.trans)
	var left, right mat.Dense
	left.Mul(y.T(), product)
	right.Mul(back.T(), x)
	p.tolerance *= mat.Norm(y, 1) + mat.Norm(x, 1)
	p.near("y'(A x) and (A'y)'x", &left, &right)
}

// near fails unless all elements agree.
func (p products) near(what string, got, want *mat.Dense) {
	p.t.Helper()
	rows, cols := want.Dims()
	for i := range rows {
		for j := range cols {
			if g, w := got.At(i, j), want.At(i, j); !(math.Abs(g-w) <= p.tolerance) {
				p.t.Fatalf("%s: element (%d, %d) is %g, want %g", what, i, j, g, w)
			}
		}
	}
}

// Normal returns n standard normal numbers.
func Normal(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}
