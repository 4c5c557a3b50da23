//go:build gpu

package cuda

import (
	"cmp"
	"fmt"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// mostWeights is the maximum number of elements of W that are stored at a time: 256 MB, so
// that no batch needs more, and HumanoidStandup's 15,000 rows of 1,280 points are a single
// product.
const mostWeights = 32 << 20

// weightRows is the maximum number of blocks along the rows of W: a thread then writes several
// rows of a column, whose dimension and point it finds by a division.
const weightRows = 256

// Interpolate implements [compute.Backend].
func (b *Backend) Interpolate(trans bool, dst, z, x compute.Block, g compute.Grid) {
	wantGrid("interpolation", g)
	onGrid, atPoints := x, dst
	if trans {
		onGrid, atPoints = dst, x
	}
	want("interpolation", z, atPoints.Rows, 1)
	want("interpolation", onGrid, g.Size, atPoints.Cols)
	switch {
	case !trans:
		b.each("k_interpolate", dst.Rows, dst.Cols, ptr(dst), long(dst.Stride), ptr(z), long(z.Stride),
			ptr(x), long(x.Stride), real(g.Low), real(g.Step), long(g.Size))
	case x.Rows == 0:
		compute.Fill(b, dst, 0)
	default:
		b.weights(z, g, func(w compute.Block, lo, hi int) {
			b.Gemm(true, false, 1, w, x.RowRange(lo, hi), sumAfter(lo), dst)
		})
	}
}

// InterpolateGrad implements [compute.Backend].
func (b *Backend) InterpolateGrad(dst, z, table, c compute.Block, g compute.Grid) {
	wantGrid("interpolation gradient", g)
	want("interpolation gradient", z, c.Rows, 1)
	want("interpolation gradient", dst, c.Rows, 1)
	want("interpolation gradient", table, g.Size, c.Cols)
	if c.Cols == 0 {
		compute.Fill(b, dst, 0)
		return
	}
	threads := tile(c.Rows, c.Cols)
	b.launch("k_interpolate_grad", line(ceil(c.Rows, threads.y)), threads, ptr(dst), long(dst.Stride),
		ptr(z), long(z.Stride), ptr(table), long(table.Stride), ptr(c), long(c.Stride),
		real(g.Low), real(g.Step), long(g.Size), long(c.Rows), long(c.Cols))
}

// InterpolateGram implements [compute.Backend].
func (b *Backend) InterpolateGram(dst, z compute.Block, g compute.Grid) {
	wantGridBlocks("interpolation gram", dst, z, g)
	if z.Rows == 0 || z.Cols == 0 {
		compute.Fill(b, dst, 0)
		return
	}
	b.weights(z, g, func(w compute.Block, lo, _ int) { b.dsyrk(false, true, 1, w, sumAfter(lo), dst) })
	b.mirror(dst)
}

// InterpolateGramGrad implements [compute.Backend].
func (b *Backend) InterpolateGramGrad(dst, z, q compute.Block, g compute.Grid) {
	wantGridBlocks("interpolation gram gradient", q, z, g)
	compute.SameShape("interpolation gram gradient", dst, z)
	b.each("k_interpolate_gram_grad", z.Rows, z.Cols, ptr(dst), long(dst.Stride), ptr(z), long(z.Stride),
		ptr(q), long(q.Stride), real(g.Low), real(g.Step), long(g.Size))
}

// weights calls f for ranges [lo, hi) of z's rows in order, with those rows of
// W = [W(z_1), ..., W(z_d)] stored.
func (b *Backend) weights(z compute.Block, g compute.Grid, f func(w compute.Block, lo, hi int)) {
	cols := z.Cols * g.Size
	height := min(z.Rows, max(1, cmp.Or(b.mostWeights, mostWeights)/max(1, cols)))
	w := compute.NewBlock(b, height, cols)
	defer b.Release(w.Buffer)
	threads := tall(cols)
	for lo := 0; lo < z.Rows; lo += height {
		hi := min(z.Rows, lo+height)
		part, rows := w.RowRange(0, hi-lo), z.RowRange(lo, hi)
		grid := cover(part.Rows, cols, threads)
		grid.y = min(grid.y, weightRows)
		b.launch("k_interpolation_weights", grid, threads, ptr(part), long(part.Stride), ptr(rows), long(rows.Stride),
			real(g.Low), real(g.Step), long(g.Size), long(part.Rows), long(z.Cols))
		f(part, lo, hi)
	}
}

// sumAfter returns the factor of dst's old contents in the product that adds the rows from lo on:
// 0 for the first.
func sumAfter(lo int) float64 {
	if lo == 0 {
		return 0
	}
	return 1
}

// wantGridBlocks panics unless square consists of Size × Size blocks, a row and a column
// of them for each of z's columns.
func wantGridBlocks(op string, square, z compute.Block, g compute.Grid) {
	wantGrid(op, g)
	if square.Rows != z.Cols*g.Size || square.Cols != square.Rows {
		panic(fmt.Sprintf("cuda: %s of a %s block and positions %s on %d points", op, square.Shape(), z.Shape(),
			g.Size))
	}
}
