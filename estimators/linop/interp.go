package linop

import (
	"fmt"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// Interp is structured kernel interpolation, summed over dimensions,
//
//	sum_d W(z_d) T W(z_d)',
//
// where row i of W(z_d), n × m, holds the four cubic weights with which the grid
// points about z_id stand for it, and T is the kernel between the m grid points,
// one for all dimensions (Wilson and Nickisch 2015; additive as in the paper's
// deep kernel).
type Interp struct {
	b    compute.Backend
	z    compute.Block // n × dimensions
	grid compute.Grid
	t    Operator // m × m, symmetric
}

// NewInterp interpolates the symmetric operator t, of the grid's size, at the
// points z (n × dimensions). It keeps both.
func NewInterp(b compute.Backend, z compute.Block, grid compute.Grid, t Operator) *Interp {
	if m := squareSize("interpolation", t); m != grid.Size {
		panic(fmt.Sprintf("linop: interpolation of a %d × %d kernel on a grid of %d points", m, m, grid.Size))
	}
	return &Interp{b, z, grid, t}
}

// At returns the interpolation of the same operator at other points, which it keeps.
func (a *Interp) At(z compute.Block) *Interp { return NewInterp(a.b, z, a.grid, a.t) }

// Dims implements [Operator].
func (a *Interp) Dims() (rows, cols int) { return a.z.Rows, a.z.Rows }

// MulTo implements [Operator]: two passes over the points with 8 flops a weight,
// and one product with T for all dimensions and columns together.
func (a *Interp) MulTo(dst, x compute.Block, trans bool) {
	checkMul("Interp", a, dst, x, trans)
	n, dims, k, m := x.Rows, a.z.Cols, x.Cols, a.grid.Size
	s := compute.NewScope(a.b)
	defer s.Release()

	// On the grid: block d of columns is W(z_d)'x.
	onGrid, smoothed := s.New(m, dims*k), s.New(m, dims*k)
	partials := compute.NewPartials(s, n, m, dims*k)
	a.b.Panels(n, func(b compute.Backend, panel, lo, hi int) {
		for d := range dims {
			b.Interpolate(true, partials.At(panel).ColRange(d*k, (d+1)*k), a.z.View(lo, hi, d, d+1), x.RowRange(lo, hi),
				a.grid)
		}
	})
	partials.SumTo(a.b, onGrid)
	a.t.MulTo(smoothed, onGrid, trans)

	// Back at the points: the sum over d of W(z_d) times its block.
	a.b.Panels(n, func(b compute.Backend, _, lo, hi int) {
		s := compute.NewScope(b)
		defer s.Release()
		rows, one := dst.RowRange(lo, hi), s.New(hi-lo, k)
		compute.Fill(b, rows, 0)
		for d := range dims {
			b.Interpolate(false, one, a.z.View(lo, hi, d, d+1), smoothed.ColRange(d*k, (d+1)*k), a.grid)
			compute.Axpy(b, 1, one, rows)
		}
	})
}

// BilinearGradient sets dst (n × dimensions) to the derivative in the points z of the sum
// over the columns of u'A v; u and v are n × k. Both factors W(z_d) of A move with z_d, so
// that it is the derivative of u'W(z_d) times T W(z_d)'v, and the same with u and v
// exchanged.
func (a *Interp) BilinearGradient(dst, u, v compute.Block) {
	compute.SameShape("the gradient in the points", a.z, dst)
	compute.SameShape("a bilinear form", u, v)
	s := compute.NewScope(a.b)
	defer s.Release()
	onGrid, smoothed := s.New(a.grid.Size, u.Cols), s.New(a.grid.Size, u.Cols)
	other := s.New(dst.Rows, 1)
	half := func(dst, z, x, y compute.Block) {
		a.b.Interpolate(true, onGrid, z, x, a.grid)
		a.t.MulTo(smoothed, onGrid, false)
		a.b.InterpolateGrad(dst, z, smoothed, y, a.grid)
	}
	for d := range dst.Cols {
		half(dst.Col(d), a.z.Col(d), u, v)
		half(other, a.z.Col(d), v, u)
		compute.Axpy(a.b, 1, other, dst.Col(d))
	}
}
