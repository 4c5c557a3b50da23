package gp

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// Direct conditions the process in closed form, through the r × r matrix
// M = noise I + B'B: exact but for the interpolation (package comment, "The closed
// form"). It takes 2 n r² operations for a fit and as many for a gradient. The zero value
// interpolates.
type Direct struct {
	// Inducing are the rows of the batch that stand for all in the state kernel, the
	// subset of regressors ([ChooseInducing] picks them); nil means structured kernel
	// interpolation.
	Inducing []int
	// FisherGram is V'V, from [FisherGram], for fits that share their V; nil means that
	// Fit computes it.
	FisherGram *mat.SymDense
}

// directPosterior is what Direct.Fit returns. B = [Z, fisher^1/2 V] has r columns.
type directPosterior struct {
	inputs
	state  factor  // Z
	fisher float64 // kappa n

	scope   *compute.Scope // of all that lives as long as the posterior
	gram    gram
	factor  cholesky      // of M, r × r
	weights compute.Block // c = M^-1 B'y, r × 1
	alpha   compute.Block // K^-1 y, n × 1
	inverse compute.Block // M^-1, when first needed
	space   *weightSpace  // of the whole process, when first needed
	value   float64       // the log likelihood / n
}

// Fit implements [Solver].
func (solver Direct) Fit(s *compute.Scope, k Kernel, d Data) (Posterior, error) {
	in, err := prepare(s, k, d)
	if err != nil {
		return nil, err
	}
	p := &directPosterior{inputs: in, scope: s, fisher: k.fisherScale(d.Features.Rows)}
	if p.state, err = newFactor(s, k, in.scaled, solver.Inducing); err != nil {
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

// condition finds the weights c = M^-1 B'y, given V'V.
func (p *directPosterior) condition(fisherGram *mat.SymDense) (err error) {
	p.gram = newGram(p.scope, p.state, p.data, p.fisher, fisherGram)
	if sum := mat.Trace(fisherGram); math.IsNaN(sum) || math.IsInf(sum, 0) {
		return &NotFiniteError{What: fisherVectors, Value: sum}
	}
	if p.factor, err = factorize(p.scope, p.gram.matrix, p.kernel.Noise); err != nil {
		return err
	}
	p.weights = p.gram.weights(p.scope, p.factor)
	return nil
}

// order is r.
func (p *directPosterior) order() int { return p.gram.targets.Rows }

// solve finds alpha = (y - B c)/noise and the log likelihood.
func (p *directPosterior) solve() error {
	n, r, noise, columns := p.scaled.Rows, p.order(), p.kernel.Noise, p.state.cols()
	p.alpha = p.scope.New(n, 1)
	p.backend.Affine(p.alpha, 1/noise, p.data.Targets, 0, 0)
	p.state.addTo(p.alpha, -1/noise, p.weights.RowRange(0, columns))
	p.backend.Gemm(false, false, -math.Sqrt(p.fisher)/noise, p.data.Fisher, p.weights.RowRange(columns, r), 1, p.alpha)

	logDet := p.factor.logDet() + float64(n-r)*math.Log(noise)
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
	return p.gram.core(p.factor, p.gram.fisher, p.kernel.Noise), nil
}

// StateCore implements [Posterior]: the same with the state columns of B alone, which
// come first in M.
func (p *directPosterior) StateCore() (*mat.SymDense, error) {
	columns := p.state.cols()
	return p.gram.core(p.factor.leading(columns), p.gram.fisher.RowRange(0, columns), p.kernel.Noise), nil
}
