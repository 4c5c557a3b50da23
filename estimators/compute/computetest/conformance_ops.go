package computetest

import (
	"math"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// operation draws calls of one method of a backend.
type operation struct {
	name      string
	draw      func(d *draw) call
	fixedRows bool // an extra row in any operand is an error
	anyShape  bool // no shape is an error
	broadcast bool // a single row or column may be broadcast
}

type blocks = []compute.Block

// nothing adapts a method without results.
func nothing(f func(b compute.Backend, x blocks)) func(compute.Backend, blocks) []float64 {
	return func(b compute.Backend, x blocks) []float64 {
		f(b, x)
		return nil
	}
}

var operations = []operation{
	{name: "Upload", anyShape: true, draw: func(d *draw) call {
		src := d.in(d.n(), d.k())
		return call{[]operand{d.out(src.rows, src.cols)},
			nothing(func(b compute.Backend, x blocks) { b.Upload(x[0], src.values) })}
	}},
	{name: "Download", anyShape: true, draw: func(d *draw) call {
		return call{[]operand{d.in(d.n(), d.k())},
			func(b compute.Backend, x blocks) []float64 { return compute.ToSlice(b, x[0]) }}
	}},
	{name: "Affine", fixedRows: true, broadcast: true, draw: func(d *draw) call {
		n, k, alpha, beta, shift := d.n(), d.k(), d.scalar("alpha"), d.scalar("beta"), d.scalar("shift")
		return call{[]operand{d.times(alpha, n, k), d.maybe(d.times(beta, n, k), 0)},
			nothing(func(b compute.Backend, x blocks) { b.Affine(x[1], alpha, x[0], beta, shift) })}
	}},
	{name: "AffineRow", broadcast: true, draw: func(d *draw) call {
		n, k, beta, shift := d.n(), d.k(), d.scalar("beta"), d.scalar("shift")
		return call{[]operand{d.in(1, k), d.times(beta, n, k)},
			nothing(func(b compute.Backend, x blocks) { b.Affine(x[1], -1.5, x[0], beta, shift) })}
	}},
	{name: "Copy", fixedRows: true, broadcast: true, draw: func(d *draw) call {
		n, k := d.n(), d.k()
		return call{[]operand{d.in(n, k), d.maybe(d.out(n, k), 0)},
			nothing(func(b compute.Backend, x blocks) { compute.Copy(b, x[1], x[0]) })}
	}},
	{name: "Mul", fixedRows: true, broadcast: true, draw: func(d *draw) call {
		n, k := d.n(), d.k()
		return mul(d, d.in(n, k), n, k)
	}},
	{name: "MulRow", fixedRows: true, broadcast: true, draw: func(d *draw) call {
		n, k := d.n(), d.k()
		return mul(d, d.in(1, k), n, k)
	}},
	{name: "MulColumn", fixedRows: true, broadcast: true, draw: func(d *draw) call {
		n, k := d.n(), d.k()
		return mul(d, d.in(n, 1), n, k)
	}},
	{name: "DivideWhere", fixedRows: true, draw: func(d *draw) call {
		n, k := d.n(), d.k()
		return call{[]operand{d.in(n, k), d.maybe(d.in(n, k), 0), d.levels(n, k, true),
			d.maybe(d.levels(n, k, true), 2),
			d.maybe(d.out(n, k), 0, 1, 2, 3)},
			nothing(func(b compute.Backend, x blocks) { b.DivideWhere(x[4], x[0], x[1], x[2], x[3]) })}
	}},
	{name: "Dot", fixedRows: true, draw: func(d *draw) call {
		n, k := d.n(), d.k()
		return call{[]operand{d.in(n, k), d.maybe(d.in(n, k), 0)},
			func(b compute.Backend, x blocks) []float64 { return []float64{b.Dot(x[0], x[1])} }}
	}},
	{name: "RowDots", fixedRows: true, draw: func(d *draw) call {
		n, k, beta := d.n(), d.k(), d.scalar("beta")
		return call{[]operand{d.in(n, k), d.maybe(d.in(n, k), 0), d.times(beta, n, 1)},
			nothing(func(b compute.Backend, x blocks) { b.RowDots(x[2], x[0], x[1], beta) })}
	}},
	{name: "SumRows", draw: func(d *draw) call {
		n, k := d.n(), d.k()
		return call{[]operand{d.in(n, k), d.out(1, k)},
			nothing(func(b compute.Backend, x blocks) { b.SumRows(x[1], x[0]) })}
	}},
	{name: "ColDots", draw: func(d *draw) call {
		n, k := d.n(), d.k()
		return call{[]operand{d.in(n, k), d.maybe(d.in(n, k), 0), d.out(1, k)},
			nothing(func(b compute.Backend, x blocks) { b.ColDots(x[2], x[0], x[1]) })}
	}},
	{name: "Extremes", anyShape: true, draw: func(d *draw) call {
		return call{[]operand{d.levels(max(d.n(), 1), d.k(), false)}, extremes}
	}},
	{name: "Gemm", fixedRows: true, draw: drawGemm},
	{name: "Gram", draw: func(d *draw) call {
		n, k := d.n(), d.k()
		return call{[]operand{d.in(n, k), d.out(k, k)},
			nothing(func(b compute.Backend, x blocks) { b.Gram(x[1], x[0]) })}
	}},
	{name: "Tanh", draw: func(d *draw) call {
		n, k := d.n(), d.k()
		return call{[]operand{d.in(n, k), d.in(1, k)},
			nothing(func(b compute.Backend, x blocks) { b.Tanh(x[0], x[1]) })}
	}},
	{name: "TanhGrad", fixedRows: true, draw: func(d *draw) call {
		n, k := d.n(), d.k()
		return call{[]operand{d.in(n, k), d.maybe(d.in(n, k), 0)},
			nothing(func(b compute.Backend, x blocks) { b.TanhGrad(x[1], x[0]) })}
	}},
	{name: "Interpolate", fixedRows: true, draw: func(d *draw) call {
		g, trans := d.grid(), d.flag("trans")
		n, r := d.n(), d.k()
		rows, out := g.Size, n // of x, of dst
		if trans {
			rows, out = n, g.Size
		}
		return call{[]operand{d.positions(n, 1, g), d.in(rows, r), d.out(out, r)},
			nothing(func(b compute.Backend, x blocks) { b.Interpolate(trans, x[2], x[0], x[1], g) })}
	}},
	{name: "InterpolateGrad", fixedRows: true, draw: func(d *draw) call {
		n, r, g := d.n(), d.k(), d.grid()
		return call{[]operand{d.positions(n, 1, g), d.in(g.Size, r), d.in(n, r), d.maybe(d.out(n, 1), 0)},
			nothing(func(b compute.Backend, x blocks) { b.InterpolateGrad(x[3], x[0], x[1], x[2], g) })}
	}},
	{name: "InterpolateGram", draw: func(d *draw) call {
		n, k, g := d.n(), d.intn("features", 1, 3), d.grid()
		return call{[]operand{d.positions(n, k, g), d.out(k*g.Size, k*g.Size)},
			nothing(func(b compute.Backend, x blocks) { b.InterpolateGram(x[1], x[0], g) })}
	}},
	{name: "InterpolateGramGrad", fixedRows: true, draw: func(d *draw) call {
		n, k, g := d.n(), d.intn("features", 1, 3), d.grid()
		return call{[]operand{d.positions(n, k, g), d.in(k*g.Size, k*g.Size), d.out(n, k)},
			nothing(func(b compute.Backend, x blocks) { b.InterpolateGramGrad(x[2], x[0], x[1], g) })}
	}},
	{name: "GroupOuter", draw: func(d *draw) call {
		n, out, in := d.n(), d.k(), d.k()
		g := d.groups(n)
		return call{[]operand{d.in(n, out), d.in(n, in), d.out(g.Len(), out*in)},
			nothing(func(b compute.Backend, x blocks) { b.GroupOuter(x[2], x[0], x[1], g) })}
	}},
	{name: "GroupSum", draw: func(d *draw) call {
		n, k := d.n(), d.k()
		g := d.groups(n)
		return call{[]operand{d.in(n, k), d.out(g.Len(), k)},
			nothing(func(b compute.Backend, x blocks) { b.GroupSum(x[1], x[0], g) })}
	}},
}

// drawGemm draws one of the four transpositions and where the tall dimension is.
func drawGemm(d *draw) call {
	dims := [3]int{d.k(), d.k(), d.k()} // rows of c, summed over, columns of c
	dims[d.intn("tall dimension", 0, 2)] = d.n()
	transA, transB := d.flag("transA"), d.flag("transB")
	alpha, beta := d.scalar("alpha"), d.scalar("beta")
	a, b := d.in(dims[0], dims[1]), d.in(dims[1], dims[2])
	if transA {
		a = d.in(dims[1], dims[0])
	}
	if transB {
		b = d.in(dims[2], dims[1])
	}
	return call{[]operand{a, b, d.times(beta, dims[0], dims[2])},
		nothing(func(b compute.Backend, x blocks) { b.Gemm(transA, transB, alpha, x[0], x[1], beta, x[2]) })}
}

// mul draws a product of w and an n × k block.
func mul(d *draw, w operand, n, k int) call {
	beta := d.scalar("beta")
	return call{[]operand{w, d.in(n, k), d.maybe(d.times(beta, n, k), 1)},
		nothing(func(b compute.Backend, x blocks) { b.Mul(x[2], x[0], x[1], beta) })}
}

// times returns an operand that is multiplied by a coefficient: if that is 0, its contents must not matter.
func (d *draw) times(coefficient float64, rows, cols int) operand {
	if coefficient == 0 {
		return d.out(rows, cols)
	}
	return d.in(rows, cols)
}

func extremes(b compute.Backend, x blocks) []float64 {
	low, high := b.Extremes(x[0])
	return []float64{low.Value, float64(low.Row), float64(low.Col), high.Value, float64(high.Row), float64(high.Col)}
}

// levels returns few different values, so that the extreme ones occur several times and
// some elements of two blocks are equal, and occasionally NaN if wanted.
func (d *draw) levels(rows, cols int, nan bool) operand {
	return d.block(rows, cols, func() float64 {
		if nan && d.rng.IntN(20) == 0 {
			return math.NaN()
		}
		return float64(d.rng.IntN(7) - 3)
	})
}

func (d *draw) grid() compute.Grid {
	return compute.Grid{Low: d.rng.NormFloat64(), Step: math.Exp(d.rng.NormFloat64()), Size: d.intn("grid", 4, 24)}
}

// positions returns points on and between those of the grid, and some outside of it.
func (d *draw) positions(n, k int, g compute.Grid) operand {
	return d.block(n, k, func() float64 {
		u := d.rng.Float64()*float64(g.Size+3) - 2
		if d.rng.IntN(8) == 0 {
			u = math.Round(u)
		}
		return g.Low + g.Step*u
	})
}

// groups draws a partition of n rows, some of its groups empty.
func (d *draw) groups(n int) *compute.Groups {
	g := &compute.Groups{Bounds: []int32{0}}
	for _, row := range d.rng.Perm(n) {
		g.Order = append(g.Order, int32(row))
		g.Signs = append(g.Signs, float64(1-2*d.rng.IntN(2)))
	}
	for end, last := 0, d.intn("groups", 1, 9)-1; last >= 0; last-- {
		end += d.rng.IntN(n - end + 1)
		if last == 0 {
			end = n
		}
		g.Bounds = append(g.Bounds, int32(end))
	}
	return g
}
