package gp

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// Direct conditions the process in closed form, through the r × r matrix
// M = noise I + B'B. That is exact except for the interpolation (package comment, "The
// closed form"). A fit takes 2 n r² operations and a gradient as many. The zero value
// interpolates.
type Direct struct {
	// Inducing lists the rows of the batch that are the inducing points of the state kernel
	// (subset of regressors), as chosen by [statekernel.ChooseInducing]. nil means structured
	// kernel interpolation.
	Inducing []int
	// FisherGram is V'V, from [FisherGram], for fits that share V. If it is nil, Fit
	// computes it.
	FisherGram *mat.SymDense
}

// directPosterior is the posterior that Direct.Fit returns.
type directPosterior struct {
	basis
	gram    gram
	weights *weights
	alpha   compute.Block    // K^-1 y, n × 1
	value   float64          // the log likelihood / n
	inverse compute.Block    // M^-1, computed when first needed
	all     *directPosterior // result of whole, computed when first needed
}

// Fit implements [Solver].
func (solver Direct) Fit(s *compute.Scope, k Kernel, d Data) (Posterior, error) {
	in, err := prepare(s, k, d)
	if err != nil {
		return nil, err
	}
	p := &directPosterior{basis: basis{inputs: in, scope: s, fisher: k.fisherScale(d.Features.Rows)}}
	if p.state, err = k.state().Factor(s, in.scaled, solver.Inducing); err != nil {
		return nil, err
	}
	if solver.FisherGram == nil {
		solver.FisherGram = FisherGram(p.backend, d.Fisher)
	}
	if err := p.condition(solver.FisherGram); err != nil {
		return nil, err
	}
	if err := p.solve(); err != nil {
		return nil, err
	}
	return p, nil
}

// condition computes the products over the samples and the weights, given V'V.
func (p *directPosterior) condition(fisherGram *mat.SymDense) (err error) {
	p.gram = newGram(p.scope, p.state, p.data, p.fisher, fisherGram)
	if sum := mat.Trace(fisherGram); math.IsNaN(sum) || math.IsInf(sum, 0) {
		return &NotFiniteError{What: fisherVectors, Value: sum}
	}
	p.weights, err = newWeights(&p.basis, p.gram)
	return err
}

// solve computes alpha = (y - B c)/noise and the log likelihood.
func (p *directPosterior) solve() error {
	n, r, noise, columns := p.scaled.Rows, p.order(), p.kernel.Noise, p.state.Cols()
	p.alpha = p.scope.New(n, 1)
	p.backend.Affine(p.alpha, 1/noise, p.data.Targets, 0, 0)
	p.state.AddTo(p.alpha, -1/noise, p.weights.mean.RowRange(0, columns))
	p.backend.Gemm(false, false, -math.Sqrt(p.fisher)/noise, p.data.Fisher, p.weights.mean.RowRange(columns, r), 1,
		p.alpha)

	logDet := p.weights.factor.LogDet() + float64(n-r)*math.Log(noise)
	p.value = logLikelihood(n, p.backend.Dot(p.data.Targets, p.alpha), logDet)
	if math.IsNaN(p.value) || math.IsInf(p.value, 0) {
		return &NotFiniteError{What: "log likelihood", Value: p.value}
	}
	return nil
}

// Alpha implements [Posterior].
func (p *directPosterior) Alpha() compute.Block { return p.alpha }

// LogLikelihood implements [Posterior].
func (p *directPosterior) LogLikelihood() (linop.Estimate, error) {
	return linop.Estimate{Value: p.value}, nil
}

// FisherCore implements [Posterior]: (V'V - V'B M^-1 B'V)/noise.
func (p *directPosterior) FisherCore() (*mat.SymDense, error) {
	return p.gram.core(p.backend, p.weights.factor, p.gram.fisher, p.kernel.Noise), nil
}

// StateCore implements [Posterior]: the same with the state columns of B alone, which
// come first in M.
func (p *directPosterior) StateCore() (*mat.SymDense, error) {
	columns := p.state.Cols()
	return p.gram.core(p.backend, p.weights.factor.Leading(columns), p.gram.fisher.RowRange(0, columns),
		p.kernel.Noise), nil
}
