package gp

import (
	"math"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp/cholesky"
	"github.com/dbqpg/dbqpg/estimators/gp/statekernel"
)

// basis is B = [Z, fisher^1/2 V], n × r. In closed form the process is Q = B w.
type basis struct {
	inputs
	scope  *compute.Scope     // scope of the posterior
	state  statekernel.Factor // Z
	fisher float64            // kappa n
}

// order returns r.
func (p *basis) order() int { return p.state.Cols() + p.data.Fisher.Cols }

// columns returns the range of B's columns that make a part.
func (p *basis) columns(part Part) (from, to int) {
	from, to = 0, p.order()
	switch part {
	case Value:
		to = p.state.Cols()
	case Advantage:
		from = p.state.Cols()
	}
	return from, to
}

// rows allocates in s a part's columns of B at some points.
func (p *basis) rows(s *compute.Scope, part Part, at Points) compute.Block {
	b, state := s.Backend(), p.state.Cols()
	from, to := p.columns(part)
	x := s.New(at.Features.Rows, to-from)
	if part != Advantage {
		scaled := s.New(at.Features.Rows, at.Features.Cols)
		p.scaling.Apply(b, scaled, at.Features)
		compute.Copy(b, x.ColRange(0, state), p.state.Rows(s, scaled))
	}
	if part != Value {
		b.Affine(x.ColRange(state-from, to-from), math.Sqrt(p.fisher), at.Fisher, 0, 0)
	}
	return x
}

// weights is the distribution N(c, noise M^-1) of w given a batch, or a part of it. The prior is
// N(0, I).
type weights struct {
	basis  *basis
	factor cholesky.Factor // Cholesky factor of M
	mean   compute.Block   // c = M^-1 B'y, r × 1
	root   compute.Block   // noise^1/2 R^-1 with M = R'R, computed when first needed
}

// newWeights conditions on the samples whose products are in g.
func newWeights(p *basis, g gram) (*weights, error) {
	factor, err := cholesky.Factorize(p.scope, g.matrix, p.kernel.Noise)
	if err != nil {
		return nil, err
	}
	w := &weights{basis: p, factor: factor, mean: p.scope.New(p.order(), 1)}
	compute.Copy(p.backend, w.mean, g.targets)
	factor.Solve(w.mean)
	return w, nil
}

// findRoot computes root.
func (w *weights) findRoot() {
	w.root = w.factor.Root(w.basis.scope)
	compute.Scale(w.basis.backend, math.Sqrt(w.basis.kernel.Noise), w.root)
}

// Predict implements [Predictor]. A variance is the squared length of a row of B times
// root: it cannot be negative.
func (w *weights) Predict(part Part, at Points, mean, variance compute.Block) error {
	p := w.basis
	p.checkPredict(part, at, mean, variance)
	if variance.Rows > 0 && w.root.Rows == 0 {
		w.findRoot()
	}
	from, to := p.columns(part)
	c := w.mean.RowRange(from, to)
	var root compute.Block
	if variance.Rows > 0 {
		root = w.root.View(from, to, from, w.root.Cols) // left of it are zeros
	}
	p.backend.Panels(mean.Rows, func(b compute.Backend, _, lo, hi int) {
		s := compute.NewScope(b)
		defer s.Release()
		rows := p.rows(s, part, at.rowRange(lo, hi))
		b.Gemm(false, false, 1, rows, c, 0, mean.RowRange(lo, hi))
		if variance.Rows > 0 {
			product := s.New(rows.Rows, root.Cols)
			b.Gemm(false, false, 1, rows, root, 0, product)
			b.RowDots(variance.RowRange(lo, hi), product, product, 0)
		}
	})
	return nil
}
