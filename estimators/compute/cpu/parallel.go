package cpu

import "github.com/dbqpg/dbqpg/estimators/compute"

// The operations of serial that gain from several cores, spread over them. What
// is not here (downloads, extremes, sums of few rows) is fast enough alone.

// Fill implements [compute.Backend].
func (b *Backend) Fill(dst compute.Block, v float64) {
	b.rows(dst.Rows, dst.Cols, func(s *serial, i, j int) { s.Fill(dst.RowRange(i, j), v) })
}

// Copy implements [compute.Backend].
func (b *Backend) Copy(dst, src compute.Block) {
	compute.SameShape("copy", dst, src)
	b.rows(dst.Rows, dst.Cols, func(s *serial, i, j int) { s.Copy(dst.RowRange(i, j), src.RowRange(i, j)) })
}

// Scale implements [compute.Backend].
func (b *Backend) Scale(alpha float64, x compute.Block) {
	b.rows(x.Rows, x.Cols, func(s *serial, i, j int) { s.Scale(alpha, x.RowRange(i, j)) })
}

// Axpy implements [compute.Backend].
func (b *Backend) Axpy(alpha float64, x, y compute.Block) {
	compute.SameShape("axpy", x, y)
	b.rows(x.Rows, x.Cols, func(s *serial, i, j int) { s.Axpy(alpha, x.RowRange(i, j), y.RowRange(i, j)) })
}

// Affine implements [compute.Backend].
func (b *Backend) Affine(dst compute.Block, a float64, x compute.Block, shift float64) {
	compute.SameShape("affine", dst, x)
	b.rows(x.Rows, x.Cols, func(s *serial, i, j int) { s.Affine(dst.RowRange(i, j), a, x.RowRange(i, j), shift) })
}

// Mul implements [compute.Backend].
func (b *Backend) Mul(dst, x, y compute.Block) {
	compute.SameShape("mul", dst, x, y)
	b.rows(dst.Rows, dst.Cols, func(s *serial, i, j int) {
		s.Mul(dst.RowRange(i, j), x.RowRange(i, j), y.RowRange(i, j))
	})
}

// MulAdd implements [compute.Backend].
func (b *Backend) MulAdd(dst, x, y compute.Block) {
	compute.SameShape("muladd", dst, x, y)
	b.rows(dst.Rows, dst.Cols, func(s *serial, i, j int) {
		s.MulAdd(dst.RowRange(i, j), x.RowRange(i, j), y.RowRange(i, j))
	})
}

// ScaleRows implements [compute.Backend].
func (b *Backend) ScaleRows(dst, w, x compute.Block) {
	compute.SameShape("scale rows", dst, x)
	checkColumn("scale rows", w, x)
	b.rows(dst.Rows, dst.Cols, func(s *serial, i, j int) {
		s.ScaleRows(dst.RowRange(i, j), w.RowRange(i, j), x.RowRange(i, j))
	})
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

// AxpyCols implements [compute.Backend].
func (b *Backend) AxpyCols(alpha, x, y compute.Block) {
	compute.SameShape("axpy of columns", x, y)
	checkRow("axpy of columns", alpha, x)
	b.rows(x.Rows, x.Cols, func(s *serial, i, j int) { s.AxpyCols(alpha, x.RowRange(i, j), y.RowRange(i, j)) })
}

// Gemm implements [compute.Backend]. A product whose rows are many is split by
// rows, one that sums over many rows (transA) by the summands.
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

// chunks is the number of parts that a product's n rows or columns are split into:
// panels, but at least eight parts of sixteen or more, so that all cores work.
func chunks(n int) int { return max((n+panelRows-1)/panelRows, min(8, (n+15)/16)) }

func chunk(n, i int) (lo, hi int) {
	parts := chunks(n)
	return i * n / parts, (i + 1) * n / parts
}

// gemmSum is c = alpha x'op(y) + beta c as a sum over ranges of x's rows.
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
	if beta == 0 {
		b.Copy(c, sum)
		return
	}
	if beta != 1 {
		b.Scale(beta, c)
	}
	b.Axpy(1, sum, c)
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

// AddRow implements [compute.Backend].
func (b *Backend) AddRow(x, row compute.Block) {
	checkRow("add row", row, x)
	b.rows(x.Rows, x.Cols, func(s *serial, i, j int) { s.AddRow(x.RowRange(i, j), row) })
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

// GaussianScores implements [compute.Backend].
func (b *Backend) GaussianScores(mean, logStd, x, mu, logSigma compute.Block) {
	compute.SameShape("gaussian scores", mean, logStd, x, mu)
	b.rows(x.Rows, x.Cols, func(s *serial, i, j int) {
		s.GaussianScores(mean.RowRange(i, j), logStd.RowRange(i, j), x.RowRange(i, j), mu.RowRange(i, j), logSigma)
	})
}

// Interpolate implements [compute.Backend].
func (b *Backend) Interpolate(dst, z, table compute.Block, g compute.Grid) {
	checkColumn("interpolate", z, dst)
	b.rows(dst.Rows, 4*dst.Cols, func(s *serial, i, j int) { s.Interpolate(dst.RowRange(i, j), z.RowRange(i, j), table, g) })
}

// InterpolateTrans implements [compute.Backend].
func (b *Backend) InterpolateTrans(dst, z, x compute.Block, g compute.Grid) {
	checkColumn("interpolate transposed", z, x)
	if !dst.Contiguous() {
		b.workers[0].InterpolateTrans(dst, z, x, g)
		return
	}
	b.reduce(x.Rows, dst, func(s *serial, lo, hi int, dst compute.Block) {
		s.InterpolateTrans(dst, z.RowRange(lo, hi), x.RowRange(lo, hi), g)
	})
}

// InterpolateGrad implements [compute.Backend].
func (b *Backend) InterpolateGrad(dst, z, table, c compute.Block, g compute.Grid) {
	checkColumn("interpolation gradient", z, c)
	checkColumn("interpolation gradient", dst, c)
	b.rows(c.Rows, 4*c.Cols, func(s *serial, i, j int) {
		s.InterpolateGrad(dst.RowRange(i, j), z.RowRange(i, j), table, c.RowRange(i, j), g)
	})
}

// InterpolateGram implements [compute.Backend]: each pair of columns in one piece.
func (b *Backend) InterpolateGram(dst, z compute.Block, g compute.Grid) {
	checkGridBlocks("interpolation gram", g, dst, z)
	d := z.Cols
	b.split(d*d, func(s *serial, pair int) {
		if i, j := pair/d, pair%d; i <= j {
			s.interpolateGram(dst, z, g, i, j)
		}
	})
}

// InterpolateGramGrad implements [compute.Backend]: each column in one piece, so that
// a block of q stays in cache while all rows look into it.
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

// groups spreads body over ranges of g's groups.
func (b *Backend) groups(g *compute.Groups, body func(s *serial, lo, hi int)) {
	const width = 16
	n := g.Len()
	b.split((n+width-1)/width, func(s *serial, i int) { body(s, i*width, min(n, (i+1)*width)) })
}
