package statekernel

import "github.com/dbqpg/dbqpg/estimators/compute"

// denseFactor stores Z as a block. It is for smooth kernels, which have a low rank.
type denseFactor struct {
	interpolated
	z compute.Block // n × q
}

func (f *denseFactor) Whole() Factor { return f }

func newDenseFactor(s *compute.Scope, ski interpolated) *denseFactor {
	f := &denseFactor{ski.withAllColumns(), s.New(ski.scaled.Rows, ski.scaled.Cols*ski.spectrum.rank())}
	f.backend.Panels(f.z.Rows, func(b compute.Backend, _, lo, hi int) {
		f.fill(b, f.z.RowRange(lo, hi), f.scaled.RowRange(lo, hi))
	})
	return f
}

func (f *denseFactor) RowRange(lo, hi int) Factor {
	part := *f
	part.scaled, part.z = f.scaled.RowRange(lo, hi), f.z.RowRange(lo, hi)
	return &part
}

func (f *denseFactor) Gram(dst compute.Block) { square(f.backend, dst, f.z) }

// square sets dst to z'z.
func square(b compute.Backend, dst, z compute.Block) {
	s := compute.NewScope(b)
	defer s.Release()
	whole := s.New(z.Cols, z.Cols) // sums over the samples are faster into a separate block
	b.Gram(whole, z)
	compute.Copy(b, dst, whole)
}

func (f *denseFactor) MulTransTo(dst, x compute.Block) {
	f.backend.Gemm(true, false, 1, f.z, x, 0, dst)
}

func (f *denseFactor) AddTo(dst compute.Block, scale float64, c compute.Block) {
	f.backend.Gemm(false, false, scale, f.z, c, 1, dst)
}

func (f *denseFactor) Gradient(dst compute.Block, in Gradient) (base []float64) {
	if dst.Rows > 0 {
		f.features(dst, in)
	}
	return f.base(in)
}

func (f *denseFactor) features(dst compute.Block, in Gradient) {
	f.backend.Panels(dst.Rows, func(b compute.Backend, _, lo, hi int) {
		panel := compute.NewScope(b)
		defer panel.Release()
		g := panel.New(hi-lo, f.z.Cols)
		in.rows(b, g, f.z, lo, hi)
		scaled, out := f.scaled.RowRange(lo, hi), dst.RowRange(lo, hi)
		for j := range scaled.Cols {
			b.InterpolateGrad(out.Col(j), scaled.Col(j), f.table, g.ColRange(f.block(j)), f.grid)
		}
	})
}
