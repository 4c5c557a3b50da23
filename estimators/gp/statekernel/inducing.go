package statekernel

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// inducingFactor is the factor of the subset of regressors (package gp, "Inducing points"),
// which Bayesian actor-critic uses instead of structured kernel interpolation. In terms of
// the kernel matrices between the n samples and m of them, it is
//
//	Z = s^1/2 K_nm L^-T,  K_mm + jitter I = LL',  s = c1 c_o
//
// Here, too, a kernel value is W(z) R W(z')' summed over the features, so that with the
// m × 128 weights V_j of the inducing points' feature j
//
//	K_nm = sum_j W_j (R V_j'),  Z = sum_j W_j T_j,  T_j = s^1/2 (R V_j') L^-T
type inducingFactor struct {
	backend compute.Backend
	grid    compute.Grid
	scale   float64       // s^1/2
	scaled  compute.Block // n × d
	samples []int         // the m inducing points' rows
	points  compute.Block // m × d
	eye     compute.Block // m × m

	value   compute.Block   // R
	slopes  []compute.Block // dR/dh
	inverse compute.Block   // L^-1, m × m
	loading []compute.Block // T_j, 128 × m
	z       compute.Block   // n × m
}

// jitter, times the number of inducing points and that of the features, is added to K_mm's
// diagonal, whose elements are about the number of features. K_mm is often singular, and
// this bounds its condition number by 1e10.
const jitter = 1e-10

// newInducingFactor allocates in s. The error is a [*linop.NotFiniteError].
func newInducingFactor(s *compute.Scope, k Kernel, scaled compute.Block, samples []int) (*inducingFactor, error) {
	b, m := s.Backend(), len(samples)
	f := &inducingFactor{
		backend: b, grid: grid(), scale: math.Sqrt(k.Scale), scaled: scaled, samples: samples,
		points: s.New(m, scaled.Cols), eye: s.Identity(m), z: s.New(scaled.Rows, m),
	}
	for i, sample := range samples {
		compute.Copy(b, f.points.Row(i), scaled.Row(sample))
	}
	value, slopes := k.gridMatrix()
	f.value = upload(s, value)
	for _, slope := range slopes {
		f.slopes = append(f.slopes, upload(s, slope))
	}
	if err := f.factorize(s); err != nil {
		return nil, err
	}
	b.Panels(f.z.Rows, func(b compute.Backend, _, lo, hi int) {
		f.fill(b, f.z.RowRange(lo, hi), scaled.RowRange(lo, hi))
	})
	return f, nil
}

// factorize sets inverse and loading, which it allocates in s.
func (f *inducingFactor) factorize(s *compute.Scope) error {
	scope := compute.NewScope(f.backend)
	defer scope.Release()
	b, d, m := f.backend, f.scaled.Cols, len(f.samples)
	v, sum, part := scope.New(f.grid.Size, m), scope.New(m, m), scope.New(m, m)
	b.Affine(sum, jitter*float64(m*d), f.eye, 0, 0)
	for j := range d {
		f.loading = append(f.loading, s.New(f.grid.Size, m))
		f.weights(v, j)
		b.Gemm(false, false, 1, f.value, v, 0, f.loading[j])
		b.Interpolate(false, part, f.points.Col(j), f.loading[j], f.grid)
		compute.Axpy(b, 1, part, sum)
	}
	var factor mat.Cholesky
	var lower mat.TriDense
	if !factor.Factorize(linop.Symmetric(m, compute.ToSlice(b, sum))) {
		return &linop.NotFiniteError{What: "the inducing points' kernel matrix"}
	}
	factor.LTo(&lower)
	if err := lower.InverseTri(&lower); err != nil {
		return fmt.Errorf("gp: the inducing points' kernel matrix: %w", err)
	}
	f.inverse = upload(s, &lower)
	product := scope.New(f.grid.Size, m)
	for _, table := range f.loading {
		b.Gemm(false, true, f.scale, table, f.inverse, 0, product)
		compute.Copy(b, table, product)
	}
	return nil
}

// weights sets v (128 × m) to V_j'.
func (f *inducingFactor) weights(v compute.Block, j int) {
	f.backend.Interpolate(true, v, f.points.Col(j), f.eye, f.grid)
}

// fill sets z to Z's rows at some scaled features, computed by b.
func (f *inducingFactor) fill(b compute.Backend, z, scaled compute.Block) {
	s := compute.NewScope(b)
	defer s.Release()
	part := s.New(z.Rows, z.Cols)
	compute.Fill(b, z, 0)
	for j, table := range f.loading {
		b.Interpolate(false, part, scaled.Col(j), table, f.grid)
		compute.Axpy(b, 1, part, z)
	}
}

func (f *inducingFactor) Whole() Factor { return f }

func (f *inducingFactor) Cols() int { return len(f.samples) }

func (f *inducingFactor) Gram(dst compute.Block) { square(f.backend, dst, f.z) }

func (f *inducingFactor) MulTransTo(dst, x compute.Block) {
	f.backend.Gemm(true, false, 1, f.z, x, 0, dst)
}

func (f *inducingFactor) AddTo(dst compute.Block, scale float64, c compute.Block) {
	f.backend.Gemm(false, false, scale, f.z, c, 1, dst)
}

func (f *inducingFactor) Rows(s *compute.Scope, scaled compute.Block) compute.Block {
	z := s.New(scaled.Rows, f.Cols())
	f.fill(s.Backend(), z, scaled)
	return z
}

func (f *inducingFactor) RowRange(lo, hi int) Factor {
	part := *f
	part.scaled, part.z = f.scaled.RowRange(lo, hi), f.z.RowRange(lo, hi)
	return &part
}

// Gradient propagates the gradient G in Z to those in K_nm, s^1/2 G L^-1, and in K_mm,
// -H/2 with H = L^-T (Z'G) L^-1. Summed over the samples, their contribution on grid j is
//
//	E_j = s^1/2 W_j'G L^-1,  128 × m
//
// The samples' features move K_nm through W_j, those of the inducing points move both
// matrices through V_j. R's hyperparameters move both, by <E_j - V_j'H/2, dR V_j'>.
func (f *inducingFactor) Gradient(dst compute.Block, in Gradient) (base []float64) {
	s := compute.NewScope(f.backend)
	defer s.Release()
	b, m := f.backend, f.Cols()
	g := s.New(f.z.Rows, m)
	b.Panels(g.Rows, func(b compute.Backend, _, lo, hi int) { in.rows(b, g.RowRange(lo, hi), f.z, lo, hi) })
	inverse, square, product, curvature := f.inverse, s.New(m, m), s.New(m, m), s.New(m, m)
	compute.Fill(b, square, 0)
	in.addSquare(b, square, 0, m)
	b.Gemm(false, false, 1, square, inverse, 0, product)
	b.Gemm(true, false, 1, inverse, product, 0, curvature)

	base = make([]float64, len(f.slopes))
	onPoints := s.New(m, f.scaled.Cols)
	v, onGrid, e, moved := s.New(f.grid.Size, m), s.New(f.grid.Size, m), s.New(f.grid.Size, m), s.New(f.grid.Size, m)
	for j := range f.scaled.Cols {
		f.weights(v, j)
		b.Interpolate(true, onGrid, f.scaled.Col(j), g, f.grid)
		b.Gemm(false, false, f.scale, onGrid, inverse, 0, e)
		b.Gemm(false, false, -0.5, v, curvature, 1, e)
		for i, slope := range f.slopes {
			b.Gemm(false, false, 1, slope, v, 0, moved)
			base[i] += b.Dot(e, moved)
		}
		if dst.Rows > 0 { // the points move K_mm on both sides: E_j - V_j'H
			b.InterpolateGrad(dst.Col(j), f.scaled.Col(j), f.loading[j], g, f.grid)
			b.Gemm(false, false, -0.5, v, curvature, 1, e)
			b.Gemm(false, false, 1, f.value, e, 0, moved)
			b.InterpolateGrad(onPoints.Col(j), f.points.Col(j), moved, f.eye, f.grid)
		}
	}
	if dst.Rows > 0 {
		for i, sample := range f.samples {
			compute.Axpy(b, 1, onPoints.Row(i), dst.Row(sample))
		}
	}
	return base
}
