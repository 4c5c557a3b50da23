package gp

import "github.com/dbqpg/dbqpg/estimators/compute"

// sparseFactor does not form Z = W (I ⊗ L), W = [W_1, ..., W_d], but works on the grids,
// with the four nonzeros a row of each W_j: the way for rough kernels, whose L has as
// many columns as the grid has points. Products over n cost (4 d)² operations a sample,
// for any rank.
type sparseFactor struct{ interpolated }

func (f *sparseFactor) rowRange(lo, hi int) factor {
	part := *f
	part.scaled = f.scaled.RowRange(lo, hi)
	return &part
}

// gram is W'W, taken to Z by L on both sides, both times on and above the diagonal blocks.
func (f *sparseFactor) gram(dst compute.Block) {
	s := compute.NewScope(f.backend)
	defer s.Release()
	b, d, size, q := f.backend, f.scaled.Cols, f.grid.Size, f.cols()
	onGrid, half := s.New(d*size, d*size), s.New(d*size, q)
	b.InterpolateGram(onGrid, f.scaled, f.grid)
	for j := range d {
		from, to := f.block(j)
		above := (j + 1) * size
		b.Gemm(false, false, 1, onGrid.View(0, above, j*size, above), f.table, 0, half.View(0, above, from, to))
	}
	for j := range d {
		from, to := f.block(j)
		b.Gemm(true, false, 1, f.table, half.View(j*size, (j+1)*size, from, q), 0, dst.View(from, to, from, q))
	}
}

func (f *sparseFactor) transposed(dst, x compute.Block) {
	s := compute.NewScope(f.backend)
	defer s.Release()
	onGrid := s.New(f.grid.Size, x.Cols)
	for j := range f.scaled.Cols {
		f.backend.InterpolateTrans(onGrid, f.scaled.Col(j), x, f.grid)
		f.backend.Gemm(true, false, 1, f.table, onGrid, 0, dst.RowRange(f.block(j)))
	}
}

func (f *sparseFactor) addTo(dst compute.Block, scale float64, c compute.Block) {
	s := compute.NewScope(f.backend)
	defer s.Release()
	values := s.New(dst.Rows, 1)
	for j := range f.scaled.Cols {
		f.backend.Interpolate(values, f.scaled.Col(j), f.onGrid(s, c.RowRange(f.block(j))), f.grid)
		f.backend.Axpy(scale, values, dst)
	}
}

// onGrid is L x.
func (f *sparseFactor) onGrid(s *compute.Scope, x compute.Block) compute.Block {
	values := s.New(f.grid.Size, x.Cols)
	f.backend.Gemm(false, false, 1, f.table, x, 0, values)
	return values
}

func (f *sparseFactor) gradient(dst compute.Block, in factorGradient) (base []float64) {
	if dst.Rows > 0 {
		f.features(dst, in)
	}
	return f.base(in)
}

// features takes the gradient in Z to one in W: in row i,
//
//	x_i L c - (L M L') w_i - (L N') v_i
//
// of which only the entries by the row's nonzeros are needed.
func (f *sparseFactor) features(dst compute.Block, in factorGradient) {
	s := compute.NewScope(f.backend)
	defer s.Release()
	b, d, size := f.backend, f.scaled.Cols, f.grid.Size
	square := s.New(d*size, d*size)
	f.aroundGrids(square, in.m)
	b.InterpolateGramGrad(dst, f.scaled, square, f.grid)
	b.Scale(-1, dst)

	part, mixed := s.New(dst.Rows, 1), s.New(size, in.n.Rows)
	for j := range d {
		b.InterpolateGrad(part, f.scaled.Col(j), f.onGrid(s, in.c.RowRange(f.block(j))), in.x, f.grid)
		b.Axpy(1, part, dst.Col(j))
		b.Gemm(false, true, 1, f.table, in.n.ColRange(f.block(j)), 0, mixed)
		b.InterpolateGrad(part, f.scaled.Col(j), mixed, in.v, f.grid)
		b.Axpy(-1, part, dst.Col(j))
	}
}

// aroundGrids sets dst to (I ⊗ L) m (I ⊗ L') for a symmetric m: what is below its diagonal
// blocks by a product of its own, which is as fast as to transpose what is above.
func (f *sparseFactor) aroundGrids(dst, m compute.Block) {
	s := compute.NewScope(f.backend)
	defer s.Release()
	b, size := f.backend, f.grid.Size
	half := s.New(m.Rows, dst.Cols)
	for j := range f.scaled.Cols {
		from, to := f.block(j)
		b.Gemm(false, true, 1, m.View(0, to, from, to), f.table, 0, half.View(0, to, j*size, (j+1)*size))
	}
	for j := range f.scaled.Cols {
		from, to := f.block(j)
		lo, hi, end := j*size, (j+1)*size, dst.Cols
		b.Gemm(false, false, 1, f.table, half.View(from, to, lo, end), 0, dst.View(lo, hi, lo, end))
		if hi < end {
			b.Gemm(true, true, 1, half.View(from, to, hi, end), f.table, 0, dst.View(hi, end, lo, hi))
		}
	}
}
