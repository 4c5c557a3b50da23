package gp

import (
	"math"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp/statekernel"
)

// Gradient implements [Posterior]. Only the gradient in the features takes a pass over the samples.
func (p *directPosterior) Gradient(features compute.Block) (Hyper, error) {
	if features.Rows > 0 {
		compute.SameShape("the gradient in the features", p.scaled, features)
	}
	if p.inverse.Rows == 0 {
		p.inverse = p.weights.factor.Inverse(p.scope)
	}
	scope := compute.NewScope(p.backend)
	defer scope.Release()
	base := p.state.Gradient(features, p.stateGradient(scope))
	n := float64(p.alpha.Rows)
	for i := range base {
		base[i] /= n
	}
	if features.Rows > 0 {
		compute.Scale(p.backend, 1/n, features)
		p.scaling.Backward(p.backend, features, p.scaled)
	}
	return p.hyperGradient(base), nil
}

// hyperGradient returns 1/2 <alpha alpha' - K^-1, dK> / n for each hyperparameter, given
// it is for those of the base kernel. It takes the traces of M^-1 and of
// A = cc' - I + noise M^-1.
func (p *directPosterior) hyperGradient(base []float64) Hyper {
	n, r, noise, columns := float64(p.alpha.Rows), p.order(), p.kernel.Noise, p.state.Cols()
	inverse, c := compute.ToSlice(p.backend, p.inverse.Diagonal()), compute.ToSlice(p.backend, p.weights.mean)
	var ofInverse float64
	for _, x := range inverse {
		ofInverse += x
	}
	ofA := func(from, to int) (sum float64) {
		for i := from; i < to; i++ {
			sum += c[i]*c[i] - 1 + noise*inverse[i]
		}
		return sum
	}
	fit := p.backend.Dot(p.alpha, p.alpha) - (n-float64(r))/noise - ofInverse
	return Hyper{
		Base:           base,
		OutputScale:    ofA(0, columns) / 2 / n / p.kernel.OutputScale,
		FisherVariance: ofA(columns, r) / 2 / n / p.kernel.FisherVariance,
		Noise:          fit / 2 / n,
	}
}

// stateGradient returns the gradient in Z: the state columns of dF/dB = alpha c' - B M^-1.
func (p *directPosterior) stateGradient(s *compute.Scope) statekernel.Gradient {
	columns, r := p.state.Cols(), p.order()
	mixed := s.New(r-columns, columns)
	p.backend.Affine(mixed, math.Sqrt(p.fisher), p.inverse.View(columns, r, 0, columns), 0, 0)
	return statekernel.Gradient{
		X: p.alpha, C: p.weights.mean.RowRange(0, columns),
		M: p.inverse.View(0, columns, 0, columns),
		V: p.data.Fisher, N: mixed,
		Noise: p.kernel.Noise,
	}
}
