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
	// rows allocates in s the rows of Z at some scaled features, m × d, of a whole factor.
	rows(s *compute.Scope, scaled compute.Block) compute.Block
	// rowRange is the factor of the batch's samples [lo, hi), over the same blocks.
	rowRange(lo, hi int) factor
	// whole is the same kernel's factor for the same samples that has rows at any others
	// too; it is the factor itself unless that left out columns.
	whole() factor
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
	compute.Axpy(b, in.noise, in.m.View(from, to, from, to), dst)
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
		return newSparseFactor(ski), nil
	}
	return newDenseFactor(s, ski), nil
}

// upload puts a host matrix into s.
func upload(s *compute.Scope, x mat.Matrix) compute.Block {
	rows, cols := x.Dims()
	return s.FromSlice(rows, cols, mat.DenseCopyOf(x).RawMatrix().Data)
}
