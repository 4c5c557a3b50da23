package gp

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// Gradient implements [Posterior]. Only the features need a pass over the samples.
func (p *directPosterior) Gradient(features compute.Block) (Hyper, error) {
	compute.SameShape("the gradient in the features", p.scaled, features)
	if err := p.invert(); err != nil {
		return Hyper{}, err
	}
	p.featureGradient(features)
	p.scaling.Backward(p.backend, features, p.scaled)
	return p.hyperGradient(), nil
}

// invert finds M^-1.
func (p *directPosterior) invert() error {
	if p.inverse != nil {
		return nil
	}
	inverse := new(mat.SymDense)
	if err := p.factor.InverseTo(inverse); err != nil {
		return err
	}
	p.inverse = inverse
	return nil
}

// hyperGradient is 1/2 <alpha alpha' - K^-1, dK> / n for each hyperparameter, from
// A = B'(alpha alpha' - K^-1)B = cc' - I + noise M^-1.
func (p *directPosterior) hyperGradient() Hyper {
	n, r, noise := float64(p.state.Rows), p.gram.size(), p.kernel.Noise
	a := mat.NewSymDense(r, nil)
	a.ScaleSym(noise, p.inverse)
	a.SymRankOne(a, 1, p.weights)
	for i := range r {
		a.SetSym(i, i, a.At(i, i)-1)
	}
	trace := func(from, to int) (sum float64) {
		for i := from; i < to; i++ {
			sum += a.At(i, i)
		}
		return sum
	}
	length := 0.0
	for f := range p.scaled.Cols {
		from, to := p.block(f)
		for i := from; i < to; i++ {
			for j := from; j < to; j++ {
				length += a.At(i, j) * p.spectrum.slope.At(i-from, j-from)
			}
		}
	}
	fit := p.backend.Dot(p.alpha, p.alpha) - (n-float64(r))/noise - mat.Trace(p.inverse)
	return Hyper{
		Lengthscale:    length / 2 / n,
		OutputScale:    trace(0, p.state.Cols) / 2 / n / p.kernel.OutputScale,
		FisherVariance: trace(p.state.Cols, r) / 2 / n / p.kernel.FisherVariance,
		Noise:          fit / 2 / n,
	}
}

// featureGradient sets dst (n × d) to the gradient in the scaled features: row i of
// dF/dB = (alpha c' - B M^-1)/n meets the derivatives of the weights in row i of
// W_1, ..., W_d.
func (p *directPosterior) featureGradient(dst compute.Block) {
	scope := compute.NewScope(p.backend)
	defer scope.Release()
	n, columns, r := float64(p.state.Rows), p.state.Cols, p.gram.size()
	upload := func(x mat.Matrix, scale float64) compute.Block {
		var scaled mat.Dense
		scaled.Scale(scale/n, x)
		rows, cols := x.Dims()
		return scope.FromSlice(rows, cols, scaled.RawMatrix().Data)
	}
	inverse := mat.DenseCopyOf(p.inverse)
	c := upload(p.weights.SliceVec(0, columns).T(), 1)
	byState := upload(inverse.Slice(0, columns, 0, columns), -1)
	byFisher := upload(inverse.Slice(columns, r, 0, columns), -math.Sqrt(p.fisher))

	p.backend.Panels(p.state.Rows, func(b compute.Backend, _, lo, hi int) {
		panel := compute.NewScope(b)
		defer panel.Release()
		g := panel.New(hi-lo, columns)
		b.Gemm(false, false, 1, p.alpha.RowRange(lo, hi), c, 0, g)
		b.Gemm(false, false, 1, p.state.RowRange(lo, hi), byState, 1, g)
		b.Gemm(false, false, 1, p.data.Fisher.RowRange(lo, hi), byFisher, 1, g)
		z, out := p.scaled.RowRange(lo, hi), dst.RowRange(lo, hi)
		for j := range z.Cols {
			b.InterpolateGrad(out.Col(j), z.Col(j), p.table, g.ColRange(p.block(j)), p.grid)
		}
	})
}
