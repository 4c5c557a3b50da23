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
	n, r, noise := float64(p.alpha.Rows), p.gram.size(), p.kernel.Noise
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
	columns := p.state.cols()
	base := p.state.base(a.SliceSym(0, columns))
	for h := range base {
		base[h] /= n
	}
	fit := p.backend.Dot(p.alpha, p.alpha) - (n-float64(r))/noise - mat.Trace(p.inverse)
	return Hyper{
		Base:           base,
		OutputScale:    trace(0, columns) / 2 / n / p.kernel.OutputScale,
		FisherVariance: trace(columns, r) / 2 / n / p.kernel.FisherVariance,
		Noise:          fit / 2 / n,
	}
}

// featureGradient sets dst (n × d) to the gradient in the scaled features, from the
// state columns of dF/dB = (alpha c' - B M^-1)/n.
func (p *directPosterior) featureGradient(dst compute.Block) {
	columns, r := p.state.cols(), p.gram.size()
	n := float64(dst.Rows)
	scaled := func(scale float64, x mat.Matrix) *mat.Dense {
		out := new(mat.Dense)
		out.Scale(scale/n, x)
		return out
	}
	inverse := mat.DenseCopyOf(p.inverse)
	p.state.gradient(dst, factorGradient{
		x: p.alpha, c: scaled(1, p.weights.SliceVec(0, columns)).RawMatrix().Data,
		m: scaled(1, inverse.Slice(0, columns, 0, columns)),
		v: p.data.Fisher, n: scaled(math.Sqrt(p.fisher), inverse.Slice(columns, r, 0, columns)),
	})
}
