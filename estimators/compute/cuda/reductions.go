//go:build gpu

package cuda

import "github.com/dbqpg/dbqpg/estimators/compute"

// Dot implements [compute.Backend]. The host waits for it.
func (b *Backend) Dot(x, y compute.Block) float64 {
	compute.SameShape("dot", x, y)
	n, k := compute.Flat(x, y)
	if n*k == 0 {
		return 0
	}
	threads := tile(n, k)
	grid := share(n, k, threads)
	s := compute.NewScope(b)
	defer s.Release()
	partial, sum := s.New(grid.x*grid.y, 1), s.New(1, 1)
	b.launch("k_dot", grid, threads, ptr(partial), ptr(x), long(x.Stride), ptr(y), long(y.Stride), long(n), long(k))
	b.SumRows(sum, partial)
	b.Download(b.numbers[:1], sum)
	return b.numbers[0]
}

// RowDots implements [compute.Backend].
func (b *Backend) RowDots(dst, x, y compute.Block, beta float64) {
	compute.SameShape("row dots", x, y)
	want("row dots", dst, x.Rows, 1)
	if x.Cols == 0 {
		compute.Scale(b, beta, dst)
		return
	}
	threads := tile(x.Rows, x.Cols)
	b.launch("k_row_dots", line(ceil(x.Rows, threads.y)), threads, ptr(dst), long(dst.Stride),
		ptr(x), long(x.Stride), ptr(y), long(y.Stride), real(beta), long(x.Rows), long(x.Cols))
}

// SumRows implements [compute.Backend].
func (b *Backend) SumRows(dst, x compute.Block) {
	want("sum of rows", dst, 1, x.Cols)
	if x.Rows == 1 {
		compute.Copy(b, dst, x)
		return
	}
	b.columnSums("k_sum_rows", dst, x.Rows, ptr(x), long(x.Stride))
}

// ColDots implements [compute.Backend].
func (b *Backend) ColDots(dst, x, y compute.Block) {
	compute.SameShape("column dots", x, y)
	want("column dots", dst, 1, x.Cols)
	b.columnSums("k_col_dots", dst, x.Rows, ptr(x), long(x.Stride), ptr(y), long(y.Stride))
}

// mostRanges is the maximum number of ranges of rows that columnSums sums separately: few
// enough that their sums form a single range.
const mostRanges = 128

// columnSums sets dst (1 × k) to sums over n rows with a kernel like k_sum_rows; many rows
// are first summed in ranges.
func (b *Backend) columnSums(kernel string, dst compute.Block, n int, operands ...arg) {
	if n == 0 {
		compute.Fill(b, dst, 0)
		return
	}
	threads := tall(dst.Cols)
	height := max(2*perThread*threads.y, ceil(n, mostRanges))
	grid := dim{ceil(dst.Cols, threads.x), ceil(n, height), 1}
	sumTo := func(to compute.Block) {
		b.launchWith(kernel, grid, threads, operands, long(height), long(n), long(dst.Cols), ptr(to), long(to.Stride))
	}
	if grid.y == 1 {
		sumTo(dst)
		return
	}
	parts := compute.NewBlock(b, grid.y, dst.Cols)
	defer b.Release(parts.Buffer)
	sumTo(parts)
	b.SumRows(dst, parts)
}

// Extremes implements [compute.Backend]. The host waits for it.
func (b *Backend) Extremes(x compute.Block) (low, high compute.Extreme) {
	if x.Rows == 0 || x.Cols == 0 {
		panic("cuda: extremes of an empty block")
	}
	n, k := compute.Flat(x)
	threads := tile(n, k)
	grid := share(n, k, threads)
	s := compute.NewScope(b)
	defer s.Release()
	partial, extremes := s.New(grid.x*grid.y, 4), s.New(1, 4)
	b.launch("k_extremes", grid, threads, ptr(partial), ptr(x), long(x.Stride), long(n), long(k))
	b.launch("k_extremes_of", line(1), line(blockThreads), ptr(extremes), ptr(partial), long(partial.Rows))
	b.Download(b.numbers[:4], extremes)
	at := func(value, place float64) compute.Extreme {
		return compute.Extreme{Value: value, Row: int(place) / x.Cols, Col: int(place) % x.Cols}
	}
	return at(b.numbers[0], b.numbers[1]), at(b.numbers[2], b.numbers[3])
}
