package cpu

import "github.com/dbqpg/dbqpg/estimators/compute"

// The operations of serial that benefit from several cores, distributed over them. The
// others (downloads, extremes, sums of few rows) are fast enough on one.

// Affine implements [compute.Backend].
func (b *Backend) Affine(dst compute.Block, alpha float64, x compute.Block, beta, shift float64) {
	compute.BroadcastRow("affine", dst, x)
	b.rows(dst.Rows, dst.Cols, func(s *serial, i, j int) {
		s.Affine(dst.RowRange(i, j), alpha, rowRange(x, dst, i, j), beta, shift)
	})
}

// Mul implements [compute.Backend].
func (b *Backend) Mul(dst, w, x compute.Block, beta float64) {
	compute.Broadcast("mul", dst, w)
	compute.SameShape("mul", dst, x)
	b.rows(dst.Rows, dst.Cols, func(s *serial, i, j int) {
		s.Mul(dst.RowRange(i, j), rowRange(w, dst, i, j), x.RowRange(i, j), beta)
	})
}

// rowRange returns the part of x that belongs to rows [i, j) of dst: the only row of x, if
// that is broadcast.
func rowRange(x, dst compute.Block, i, j int) compute.Block {
	if x.Rows == 1 && dst.Rows != 1 {
		return x
	}
	return x.RowRange(i, j)
}

// RowDots implements [compute.Backend].
func (b *Backend) RowDots(dst, x, y compute.Block, beta float64) {
	compute.SameShape("row dots", x, y)
	checkColumn("row dots", dst, x)
	b.rows(x.Rows, x.Cols, func(s *serial, i, j int) {
		s.RowDots(dst.RowRange(i, j), x.RowRange(i, j), y.RowRange(i, j), beta)
	})
}

// SumRows implements [compute.Backend].
func (b *Backend) SumRows(dst, x compute.Block) {
	checkRow("sum rows", dst, x)
	if x.Rows*x.Cols <= serialElements {
		b.workers[0].SumRows(dst, x)
		return
	}
	b.columns(x.Cols, func(s *serial, i, j int) { s.SumRows(dst.ColRange(i, j), x.ColRange(i, j)) })
}

// ColDots implements [compute.Backend].
func (b *Backend) ColDots(dst, x, y compute.Block) {
	compute.SameShape("column dots", x, y)
	checkRow("column dots", dst, x)
	if x.Rows*x.Cols <= serialElements {
		b.workers[0].ColDots(dst, x, y)
		return
	}
	b.columns(x.Cols, func(s *serial, i, j int) { s.ColDots(dst.ColRange(i, j), x.ColRange(i, j), y.ColRange(i, j)) })
}

// Gemm implements [compute.Backend]. A product with many rows is divided by rows, one that
// sums over many rows (transA) by the summands.
func (b *Backend) Gemm(transA, transB bool, alpha float64, x, y compute.Block, beta float64, c compute.Block) {
	checkGemm(transA, transB, x, y, c)
	const small = 1 << 18 // multiplications not worth a second core
	inner := x.Cols
	if transA {
		inner = x.Rows
	}
	switch {
	case c.Rows*c.Cols*inner <= small:
		b.workers[0].Gemm(transA, transB, alpha, x, y, beta, c)
	case transA && inner > 2*panelRows && inner > c.Rows:
		b.gemmSum(transB, alpha, x, y, beta, c)
	case c.Rows >= c.Cols:
		b.split(chunks(c.Rows), func(s *serial, i int) {
			lo, hi := chunk(c.Rows, i)
			part := x.RowRange
			if transA {
				part = x.ColRange
			}
			s.Gemm(transA, transB, alpha, part(lo, hi), y, beta, c.RowRange(lo, hi))
		})
	default:
		b.split(chunks(c.Cols), func(s *serial, i int) {
			lo, hi := chunk(c.Cols, i)
			part := y.ColRange
			if transB {
				part = y.RowRange
			}
			s.Gemm(transA, transB, alpha, x, part(lo, hi), beta, c.ColRange(lo, hi))
		})
	}
}

// chunks returns the number of parts that a product's n rows or columns are split into:
// panels, but at least eight parts of sixteen or more, so that all cores work.
func chunks(n int) int { return max((n+panelRows-1)/panelRows, min(8, (n+15)/16)) }

func chunk(n, i int) (lo, hi int) {
	parts := chunks(n)
	return i * n / parts, (i + 1) * n / parts
}

// gemmSum sets c to alpha x'op(y) + beta c, as a sum over ranges of x's rows.
func (b *Backend) gemmSum(transY bool, alpha float64, x, y compute.Block, beta float64, c compute.Block) {
	part := y.RowRange
	if transY {
		part = y.ColRange
	}
	scope := compute.NewScope(b)
	defer scope.Release()
	sum := scope.New(c.Rows, c.Cols)
	b.reduce(x.Rows, sum, func(s *serial, lo, hi int, dst compute.Block) {
		s.Gemm(true, transY, alpha, x.RowRange(lo, hi), part(lo, hi), 0, dst)
	})
	b.Affine(c, 1, sum, beta, 0)
}

// Gram implements [compute.Backend].
func (b *Backend) Gram(dst, x compute.Block) {
	checkGram(dst, x)
	if !dst.Contiguous() || x.Rows <= panelRows {
		b.workers[0].Gram(dst, x)
		return
	}
	b.reduce(x.Rows, dst, func(s *serial, lo, hi int, dst compute.Block) { s.Gram(dst, x.RowRange(lo, hi)) })
}

// Tanh implements [compute.Backend].
func (b *Backend) Tanh(z, bias compute.Block) {
	checkRow("tanh", bias, z)
	b.rows(z.Rows, z.Cols, func(s *serial, i, j int) { s.Tanh(z.RowRange(i, j), bias) })
}

// TanhGrad implements [compute.Backend].
func (b *Backend) TanhGrad(d, h compute.Block) {
	compute.SameShape("tanh gradient", d, h)
	b.rows(d.Rows, d.Cols, func(s *serial, i, j int) { s.TanhGrad(d.RowRange(i, j), h.RowRange(i, j)) })
}

// Interpolate implements [compute.Backend].
func (b *Backend) Interpolate(trans bool, dst, z, x compute.Block, g compute.Grid) {
	checkInterpolate(trans, dst, z, x, g)
	switch {
	case !trans:
		b.rows(dst.Rows, 4*dst.Cols, func(s *serial, i, j int) {
			s.Interpolate(false, dst.RowRange(i, j), z.RowRange(i, j), x, g)
		})
	case dst.Contiguous():
		b.reduce(x.Rows, dst, func(s *serial, lo, hi int, dst compute.Block) {
			s.Interpolate(true, dst, z.RowRange(lo, hi), x.RowRange(lo, hi), g)
		})
	default:
		b.workers[0].Interpolate(true, dst, z, x, g)
	}
}

// InterpolateGrad implements [compute.Backend].
func (b *Backend) InterpolateGrad(dst, z, table, c compute.Block, g compute.Grid) {
	checkColumn("interpolation gradient", z, c)
	checkColumn("interpolation gradient", dst, c)
	b.rows(c.Rows, 4*c.Cols, func(s *serial, i, j int) {
		s.InterpolateGrad(dst.RowRange(i, j), z.RowRange(i, j), table, c.RowRange(i, j), g)
	})
}

// InterpolateGram implements [compute.Backend]. Pairs of columns are not divided.
func (b *Backend) InterpolateGram(dst, z compute.Block, g compute.Grid) {
	checkGridBlocks("interpolation gram", g, dst, z)
	d := z.Cols
	b.split(d*d, func(s *serial, pair int) {
		if i, j := pair/d, pair%d; i <= j {
			s.interpolateGram(dst, z, g, i, j)
		}
	})
}

// InterpolateGramGrad implements [compute.Backend]. Columns are not divided, so that a
// block of q stays in cache while all rows use it.
func (b *Backend) InterpolateGramGrad(dst, z, q compute.Block, g compute.Grid) {
	checkGridBlocks("interpolation gram gradient", g, q, z)
	compute.SameShape("interpolation gram gradient", dst, z)
	b.split(z.Cols, func(s *serial, i int) { s.interpolateGramGrad(dst, z, q, g, i) })
}

// GroupOuter implements [compute.Backend].
func (b *Backend) GroupOuter(dst, d, h compute.Block, g *compute.Groups) {
	checkGroupOuter(dst, d, h, g)
	b.groups(g, func(s *serial, lo, hi int) { s.groupOuter(dst.RowRange(lo, hi), d, h, g, lo, hi) })
}

// GroupSum implements [compute.Backend].
func (b *Backend) GroupSum(dst, x compute.Block, g *compute.Groups) {
	checkGroupSum(dst, x, g)
	b.groups(g, func(s *serial, lo, hi int) { s.groupSum(dst.RowRange(lo, hi), x, g, lo, hi) })
}

// groups distributes body over ranges of g's groups.
func (b *Backend) groups(g *compute.Groups, body func(s *serial, lo, hi int)) {
	const width = 16
	n := g.Len()
	b.split((n+width-1)/width, func(s *serial, i int) { body(s, i*width, min(n, (i+1)*width)) })
}
