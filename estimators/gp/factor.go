package gp

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp/kernels"
)

// factor is a matrix Z, n × q, with ZZ' = c1 K_s at a batch's points: the state columns
// of B, known by what the closed form takes of them.
type factor interface {
	// cols is q.
	cols() int
	// gram sets dst, q × q, to Z'Z on and above its diagonal.
	gram(dst compute.Block)
	// transposed sets dst, q × k, to Z'x.
	transposed(dst, x compute.Block)
	// addTo adds scale Z c to dst, n × 1; c is q × 1.
	addTo(dst compute.Block, scale float64, c compute.Block)
	// rows allocates in s the rows of Z at some scaled features, m × d.
	rows(s *compute.Scope, scaled compute.Block) compute.Block
	// rowRange is the factor of the batch's samples [lo, hi), over the same blocks.
	rowRange(lo, hi int) factor
	// gradient returns the gradient in the base kernel's hyperparameters that the one
	// in Z makes, and sets dst (n × d) to that in the batch's scaled features. The zero
	// dst asks for no features.
	gradient(dst compute.Block, in factorGradient) (base []float64)
}

// factorGradient is a gradient in Z, G = x c' - Z M - V N, of something that depends on
// Z through ZZ'.
type factorGradient struct {
	x compute.Block // n × 1
	c compute.Block // q × 1
	m compute.Block // q × q, symmetric
	v compute.Block // n × k
	n compute.Block // k × q

	noise float64 // Z'G = cc' - I + noise M
}

// rows sets g to the rows [lo, hi) of G for a formed Z, computed by b.
func (in factorGradient) rows(b compute.Backend, g, z compute.Block, lo, hi int) {
	b.Gemm(false, true, 1, in.x.RowRange(lo, hi), in.c, 0, g)
	b.Gemm(false, false, -1, z.RowRange(lo, hi), in.m, 1, g)
	b.Gemm(false, false, -1, in.v.RowRange(lo, hi), in.n, 1, g)
}

// addSquare adds to dst the diagonal block of Z'G that belongs to the columns [from, to).
func (in factorGradient) addSquare(b compute.Backend, dst compute.Block, from, to int) {
	c := in.c.RowRange(from, to)
	b.Gemm(false, true, 1, c, c, 1, dst)
	b.Axpy(in.noise, in.m.View(from, to, from, to), dst)
	addDiagonal(b, dst, -1)
}

// rough is the rank of the grid's matrix from which on the interpolated columns are
// not formed. At n = 15,000 and 10 features (BenchmarkFactor) the two ways take the same
// time at 18.
const rough = 20

// MaxColumns is the most columns that [Direct] gives the state kernel on a grid. Beyond it
// the closed form's matrices, columns × columns, take gigabytes and minutes.
const MaxColumns = 8192

// Columns is how many those of the base kernel are on so many features, at
// hyperparameters of log 2, where learning begins. As the kernel gets rougher they become
// more, at most 128 a feature.
func Columns(base *kernels.Kernel, features int) int {
	k := Kernel{Base: base}
	k.Hyper.Base = slices.Repeat([]float64{math.Ln2}, len(base.Hyperparameters()))
	return features * newSpectrum(k).rank()
}

// TooManyColumnsError says that a state kernel has more than MaxColumns columns.
type TooManyColumnsError struct{ Features, Columns int }

// Error implements error.
func (e *TooManyColumnsError) Error() string {
	return fmt.Sprintf("gp: on %d features the state kernel has %d columns, and the closed form takes at most %d: use inducing points, conjugate gradients, or a smoother base kernel",
		e.Features, e.Columns, MaxColumns)
}

// newFactor returns the factor for scaled features under a kernel, in s: that of the
// inducing samples, or if there are none of structured kernel interpolation.
func newFactor(s *compute.Scope, k Kernel, scaled compute.Block, inducing []int) (factor, error) {
	if inducing != nil {
		return newInducingFactor(s, k, scaled, inducing)
	}
	spectrum := newSpectrum(k)
	if columns := scaled.Cols * spectrum.rank(); columns > MaxColumns {
		return nil, &TooManyColumnsError{Features: scaled.Cols, Columns: columns}
	}
	ski := interpolated{
		backend: s.Backend(), grid: grid(), scaled: scaled, spectrum: spectrum,
		table: upload(s, spectrum.factor(k.C1*k.OutputScale)),
	}
	if spectrum.rank() >= rough {
		return &sparseFactor{ski}, nil
	}
	return newDenseFactor(s, ski), nil
}

// interpolated is the factor of structured kernel interpolation, [W_1 L, ..., W_d L],
// as far as it does not matter whether it is formed.
type interpolated struct {
	backend  compute.Backend
	grid     compute.Grid
	scaled   compute.Block // n × d
	spectrum *spectrum
	table    compute.Block // L, 128 × q/d
}

func (f *interpolated) cols() int { return f.scaled.Cols * f.spectrum.rank() }

// block is the range of columns that belong to feature j.
func (f *interpolated) block(j int) (from, to int) {
	q := f.spectrum.rank()
	return j * q, (j + 1) * q
}

func (f *interpolated) rows(s *compute.Scope, scaled compute.Block) compute.Block {
	z := s.New(scaled.Rows, f.cols())
	f.fill(s.Backend(), z, scaled)
	return z
}

// fill sets z to Z's rows at some scaled features, computed by b.
func (f *interpolated) fill(b compute.Backend, z, scaled compute.Block) {
	for j := range scaled.Cols {
		b.Interpolate(z.ColRange(f.block(j)), scaled.Col(j), f.table, f.grid)
	}
}

// base is the gradient in the base kernel's hyperparameters. It takes no sum over n: G is
// 2 S Z with the gradient S in ZZ', and d(ZZ') is Z times something times Z'.
func (f *interpolated) base(in factorGradient) []float64 {
	s, q := compute.NewScope(f.backend), f.spectrum.rank()
	defer s.Release()
	squares := s.New(q, q)
	f.backend.Fill(squares, 0)
	for j := range f.scaled.Cols {
		from, to := f.block(j)
		in.addSquare(f.backend, squares, from, to)
	}
	return f.spectrum.form(compute.ToSlice(f.backend, squares))
}

// denseFactor has Z as a block: the way for smooth kernels, whose rank is small.
type denseFactor struct {
	interpolated
	z compute.Block // n × q
}

func newDenseFactor(s *compute.Scope, ski interpolated) *denseFactor {
	f := &denseFactor{ski, s.New(ski.scaled.Rows, ski.cols())}
	f.backend.Panels(f.z.Rows, func(b compute.Backend, _, lo, hi int) {
		f.fill(b, f.z.RowRange(lo, hi), f.scaled.RowRange(lo, hi))
	})
	return f
}

func (f *denseFactor) rowRange(lo, hi int) factor {
	part := *f
	part.scaled, part.z = f.scaled.RowRange(lo, hi), f.z.RowRange(lo, hi)
	return &part
}

func (f *denseFactor) gram(dst compute.Block) { square(f.backend, dst, f.z) }

// square sets dst to z'z.
func square(b compute.Backend, dst, z compute.Block) {
	s := compute.NewScope(b)
	defer s.Release()
	whole := s.New(z.Cols, z.Cols) // sums over the samples are faster to a block of their own
	b.Gram(whole, z)
	b.Copy(dst, whole)
}

func (f *denseFactor) transposed(dst, x compute.Block) {
	f.backend.Gemm(true, false, 1, f.z, x, 0, dst)
}

func (f *denseFactor) addTo(dst compute.Block, scale float64, c compute.Block) {
	f.backend.Gemm(false, false, scale, f.z, c, 1, dst)
}

func (f *denseFactor) gradient(dst compute.Block, in factorGradient) (base []float64) {
	if dst.Rows > 0 {
		f.features(dst, in)
	}
	return f.base(in)
}

func (f *denseFactor) features(dst compute.Block, in factorGradient) {
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

// upload puts a host matrix into s.
func upload(s *compute.Scope, x mat.Matrix) compute.Block {
	rows, cols := x.Dims()
	return s.FromSlice(rows, cols, mat.DenseCopyOf(x).RawMatrix().Data)
}
