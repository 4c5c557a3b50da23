package gp

import (
	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

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

// gram is that of W, taken to Z by L on both sides.
func (f *sparseFactor) gram(data Data) gram {
	v, y := data.Fisher, data.Targets
	s := compute.NewScope(f.backend)
	defer s.Release()
	b, d, size := f.backend, f.scaled.Cols, f.grid.Size
	onGrid, half, square := s.New(d*size, d*size), s.New(d*size, f.cols()), s.New(f.cols(), f.cols())
	b.InterpolateGram(onGrid, f.scaled, f.grid)
	for j := range d {
		b.Gemm(false, false, 1, onGrid.ColRange(j*size, (j+1)*size), f.table, 0, half.ColRange(f.block(j)))
	}
	for j := range d {
		b.Gemm(true, false, 1, f.table, half.RowRange(j*size, (j+1)*size), 0, square.RowRange(f.block(j)))
	}
	fisherTargets := s.New(v.Cols, 1)
	b.Gemm(true, false, 1, v, y, 0, fisherTargets)
	return gram{
		stateState:    mat.NewSymDense(f.cols(), compute.ToSlice(b, square)),
		stateFisher:   mat.NewDense(f.cols(), v.Cols, f.transposed(s, v)),
		fisherFisher:  data.fisherGram(b),
		stateTargets:  f.transposed(s, y),
		fisherTargets: compute.ToSlice(b, fisherTargets),
	}
}

// transposed is Z'x, row-major.
func (f *sparseFactor) transposed(s *compute.Scope, x compute.Block) []float64 {
	onGrid, product := s.New(f.grid.Size, x.Cols), s.New(f.cols(), x.Cols)
	for j := range f.scaled.Cols {
		f.backend.InterpolateTrans(onGrid, f.scaled.Col(j), x, f.grid)
		f.backend.Gemm(true, false, 1, f.table, onGrid, 0, product.RowRange(f.block(j)))
	}
	return compute.ToSlice(f.backend, product)
}

func (f *sparseFactor) addTo(dst compute.Block, scale float64, c []float64) {
	s := compute.NewScope(f.backend)
	defer s.Release()
	weights, values := s.FromSlice(len(c), 1, c), s.New(dst.Rows, 1)
	for j := range f.scaled.Cols {
		from, to := f.block(j)
		f.backend.Interpolate(values, f.scaled.Col(j), f.onGrid(s, weights.RowRange(from, to)), f.grid)
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
	m, half, square := upload(s, in.m), s.New(f.cols(), d*size), s.New(d*size, d*size)
	for j := range d {
		from, to := f.block(j)
		b.Gemm(false, true, 1, m.ColRange(from, to), f.table, 0, half.ColRange(j*size, (j+1)*size))
	}
	for j := range d {
		from, to := f.block(j)
		b.Gemm(false, false, 1, f.table, half.RowRange(from, to), 0, square.RowRange(j*size, (j+1)*size))
	}
	b.InterpolateGramGrad(dst, f.scaled, square, f.grid)
	b.Scale(-1, dst)

	c, n, part := s.FromSlice(len(in.c), 1, in.c), upload(s, in.n.T()), s.New(dst.Rows, 1)
	for j := range d {
		from, to := f.block(j)
		b.InterpolateGrad(part, f.scaled.Col(j), f.onGrid(s, c.RowRange(from, to)), in.x, f.grid)
		b.Axpy(1, part, dst.Col(j))
		b.InterpolateGrad(part, f.scaled.Col(j), f.onGrid(s, n.RowRange(from, to)), in.v, f.grid)
		b.Axpy(-1, part, dst.Col(j))
	}
}
