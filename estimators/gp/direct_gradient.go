package gp

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// Gradient implements [Posterior]. Only the features need a pass over the samples.
func (p *directPosterior) Gradient(features compute.Block) (Hyper, error) {
	if features.Rows > 0 {
		compute.SameShape("the gradient in the features", p.scaled, features)
	}
	if p.inverse == nil {
		p.inverse = p.factor.inverse()
	}
	a := p.compressed()
	base := p.state.gradient(features, p.stateGradient(a))
	if features.Rows > 0 {
		p.scaling.Backward(p.backend, features, p.scaled)
	}
	return p.hyperGradient(a, base), nil
}

// compressed is A/n with A = B'(alpha alpha' - K^-1)B = cc' - I + noise M^-1.
func (p *directPosterior) compressed() *mat.SymDense {
	n, r := float64(p.alpha.Rows), p.gram.size()
	a := mat.NewSymDense(r, nil)
	a.ScaleSym(p.kernel.Noise/n, p.inverse)
	a.SymRankOne(a, 1/n, p.weights)
	for i := range r {
		a.SetSym(i, i, a.At(i, i)-1/n)
	}
	return a
}

// hyperGradient is 1/2 <alpha alpha' - K^-1, dK> / n for each hyperparameter, given A/n
// and what it is for those of the base kernel.
func (p *directPosterior) hyperGradient(a *mat.SymDense, base []float64) Hyper {
	n, r, noise, columns := float64(p.alpha.Rows), p.gram.size(), p.kernel.Noise, p.state.cols()
	trace := func(from, to int) (sum float64) {
		for i := from; i < to; i++ {
			sum += a.At(i, i)
		}
		return sum
	}
	fit := p.backend.Dot(p.alpha, p.alpha) - (n-float64(r))/noise - mat.Trace(p.inverse)
	return Hyper{
		Base:           base,
		OutputScale:    trace(0, columns) / 2 / p.kernel.OutputScale,
		FisherVariance: trace(columns, r) / 2 / p.kernel.FisherVariance,
		Noise:          fit / 2 / n,
	}
}

// stateGradient is that in Z: the state columns of dF/dB = (alpha c' - B M^-1)/n.
func (p *directPosterior) stateGradient(a *mat.SymDense) factorGradient {
	columns, n := p.state.cols(), float64(p.alpha.Rows)
	state, mixed := new(mat.SymDense), mat.NewDense(p.gram.size()-columns, columns, nil)
	state.ScaleSym(1/n, p.inverse.SliceSym(0, columns))
	mixed.Apply(func(i, j int, _ float64) float64 { return math.Sqrt(p.fisher) / n * p.inverse.At(j, columns+i) }, mixed)
	c := new(mat.VecDense)
	c.ScaleVec(1/n, p.weights.SliceVec(0, columns))
	return factorGradient{
		x: p.alpha, c: c.RawVector().Data,
		m: mat.DenseCopyOf(state),
		v: p.data.Fisher, n: mixed,
		a: a.SliceSym(0, columns),
	}
}
