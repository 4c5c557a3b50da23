package statekernel

import (
	"slices"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// sparseFactor does not form Z, but works on the grids, with the four nonzeros a row of
// each W_j. It is for rough kernels, whose L has as many columns as the grid has points.
// Products over n cost (4 d)² operations a sample, for any rank.
//
// All features are scaled together, so that few reach all of their grid. W_j is zero in
// the columns of the points that feature j does not reach. The batch's kernel needs only
// the root L_j for those that it does reach, which is L's leading part if L is nested, with
// as many columns as points.
type sparseFactor struct {
	interpolated
	reached []gridRange // of each feature
}

// gridRange is a range of grid points, [from, to).
type gridRange struct{ from, to int }

func newSparseFactor(ski interpolated) *sparseFactor {
	f := wholeSparseFactor(ski)
	if !ski.spectrum.nested {
		return f
	}
	counts := make([]int, ski.scaled.Cols)
	for j := range counts {
		least, greatest := ski.backend.Extremes(ski.scaled.Col(j))
		f.reached[j] = reach(ski.grid, least.Value, greatest.Value)
		counts[j] = f.reached[j].to - f.reached[j].from
	}
	f.interpolated = ski.withColumns(counts)
	return f
}

// reach returns the range of the grid points that have weights for values from least to
// greatest: the two about each value, one more on either side, and one to spare for
// rounding.
func reach(g compute.Grid, least, greatest float64) gridRange {
	cell := func(z float64) int { return int((z - g.Low) / g.Step) }
	return gridRange{max(0, min(cell(least)-2, g.Size-4)), min(g.Size, max(cell(greatest)+4, 4))}
}

// wholeSparseFactor has columns for all grid points.
func wholeSparseFactor(ski interpolated) *sparseFactor {
	return &sparseFactor{ski.withAllColumns(), slices.Repeat([]gridRange{{0, ski.grid.Size}}, ski.scaled.Cols)}
}

func (f *sparseFactor) Whole() Factor {
	if f.Cols() == f.scaled.Cols*f.spectrum.rank() {
		return f
	}
	return wholeSparseFactor(f.interpolated)
}

func (f *sparseFactor) RowRange(lo, hi int) Factor {
	part := *f
	part.scaled = f.scaled.RowRange(lo, hi)
	return &part
}

// root returns L_j.
func (f *sparseFactor) root(j int) compute.Block {
	from, to := f.block(j)
	return f.table.View(0, f.reached[j].to-f.reached[j].from, 0, to-from)
}

// points returns the range of feature j's reached points among the points of all grids.
func (f *sparseFactor) points(j int) (lo, hi int) {
	return j*f.grid.Size + f.reached[j].from, j*f.grid.Size + f.reached[j].to
}

// Gram computes W'W, and multiplies it by L on both sides, on and above the diagonal blocks.
func (f *sparseFactor) Gram(dst compute.Block) {
	s := compute.NewScope(f.backend)
	defer s.Release()
	b, d, q := f.backend, f.scaled.Cols, f.Cols()
	onGrid, half := s.New(d*f.grid.Size, d*f.grid.Size), s.New(d*f.grid.Size, q)
	b.InterpolateGram(onGrid, f.scaled, f.grid)
	for j := range d {
		from, to := f.block(j)
		lo, hi := f.points(j)
		b.Gemm(false, false, 1, onGrid.View(0, hi, lo, hi), f.root(j), 0, half.View(0, hi, from, to))
	}
	for j := range d {
		from, to := f.block(j)
		lo, hi := f.points(j)
		b.Gemm(true, false, 1, f.root(j), half.View(lo, hi, from, q), 0, dst.View(from, to, from, q))
	}
}

func (f *sparseFactor) MulTransTo(dst, x compute.Block) {
	s := compute.NewScope(f.backend)
	defer s.Release()
	onGrid := s.New(f.grid.Size, x.Cols)
	for j := range f.scaled.Cols {
		f.backend.Interpolate(true, onGrid, f.scaled.Col(j), x, f.grid)
		reached := onGrid.RowRange(f.reached[j].from, f.reached[j].to)
		f.backend.Gemm(true, false, 1, f.root(j), reached, 0, dst.RowRange(f.block(j)))
	}
}

func (f *sparseFactor) AddTo(dst compute.Block, scale float64, c compute.Block) {
	s := compute.NewScope(f.backend)
	defer s.Release()
	values, onGrid := s.New(dst.Rows, 1), s.New(f.grid.Size, 1)
	for j := range f.scaled.Cols {
		f.toGrid(onGrid, j, false, c.RowRange(f.block(j)))
		f.backend.Interpolate(false, values, f.scaled.Col(j), onGrid, f.grid)
		compute.Axpy(f.backend, scale, values, dst)
	}
}

// toGrid sets dst (128 × k) to L_j x, or L_j x', at the points that feature j reaches, and
// to 0 elsewhere.
func (f *sparseFactor) toGrid(dst compute.Block, j int, transposed bool, x compute.Block) {
	compute.Fill(f.backend, dst, 0)
	f.backend.Gemm(false, transposed, 1, f.root(j), x, 0, dst.RowRange(f.reached[j].from, f.reached[j].to))
}

func (f *sparseFactor) Gradient(dst compute.Block, in Gradient) (base []float64) {
	if dst.Rows > 0 {
		f.features(dst, in)
	}
	return f.base(in)
}

// features takes the gradient in Z to one in W: in row i,
//
//	x_i L c - (L M L') w_i - (L N') v_i
//
// of which only the entries at the nonzeros of w_i are needed.
func (f *sparseFactor) features(dst compute.Block, in Gradient) {
	s := compute.NewScope(f.backend)
	defer s.Release()
	b, d, size := f.backend, f.scaled.Cols, f.grid.Size
	square := s.New(d*size, d*size)
	f.aroundGrids(square, in.M)
	b.InterpolateGramGrad(dst, f.scaled, square, f.grid)
	compute.Scale(b, -1, dst)

	part, weights, mixed := s.New(dst.Rows, 1), s.New(size, 1), s.New(size, in.N.Rows)
	for j := range d {
		f.toGrid(weights, j, false, in.C.RowRange(f.block(j)))
		b.InterpolateGrad(part, f.scaled.Col(j), weights, in.X, f.grid)
		compute.Axpy(b, 1, part, dst.Col(j))
		f.toGrid(mixed, j, true, in.N.ColRange(f.block(j)))
		b.InterpolateGrad(part, f.scaled.Col(j), mixed, in.V, f.grid)
		compute.Axpy(b, -1, part, dst.Col(j))
	}
}

// aroundGrids sets dst to L m L' for a symmetric m, and to 0 at points not reached. What is
// below the diagonal blocks is a product of its own, which takes no longer than to
// transpose what is above them.
func (f *sparseFactor) aroundGrids(dst, m compute.Block) {
	s := compute.NewScope(f.backend)
	defer s.Release()
	b, d := f.backend, f.scaled.Cols
	half := s.New(m.Rows, dst.Cols)
	compute.Fill(b, half, 0)
	compute.Fill(b, dst, 0)
	for j := range d {
		from, to := f.block(j)
		lo, hi := f.points(j)
		b.Gemm(false, true, 1, m.View(0, to, from, to), f.root(j), 0, half.View(0, to, lo, hi))
	}
	for j := range d {
		from, to := f.block(j)
		lo, hi := f.points(j)
		b.Gemm(false, false, 1, f.root(j), half.View(from, to, lo, dst.Cols), 0, dst.View(lo, hi, lo, dst.Cols))
		if hi < dst.Cols {
			b.Gemm(true, true, 1, half.View(from, to, hi, dst.Cols), f.root(j), 0, dst.View(hi, dst.Cols, lo, hi))
		}
	}
}
