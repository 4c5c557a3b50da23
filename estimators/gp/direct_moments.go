package gp

import (
	"fmt"
	"math"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// weightSpace is the process seen from its r columns: Q = B w, where w is N(0, I) before
// the batch and N(c, noise M^-1) given it, or given a part of it.
type weightSpace struct {
	process *directPosterior // knows B's rows
	factor  cholesky         // of M
	mean    compute.Block    // c
	root    compute.Block    // noise^1/2 R^-1 with M = R'R, when first needed
}

// findRoot sets root.
func (w *weightSpace) findRoot() {
	w.root = w.factor.root(w.process.scope)
	compute.Scale(w.process.backend, math.Sqrt(w.process.kernel.Noise), w.root)
}

// Predict implements [Predictor]. A variance is the squared length of a row of B times
// root: it cannot be negative.
func (w *weightSpace) Predict(part Part, at Points, mean, variance compute.Block) error {
	p := w.process
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

// Predict implements [Predictor].
func (p *directPosterior) Predict(part Part, at Points, mean, variance compute.Block) error {
	space, err := p.whole()
	if err != nil {
		return err
	}
	return space.Predict(part, at, mean, variance)
}

// whole is the process with all columns, which other points than the batch's may need.
func (p *directPosterior) whole() (*weightSpace, error) {
	if p.space == nil {
		all := p
		if state := p.state.whole(); state != p.state {
			all = &directPosterior{inputs: p.inputs, scope: p.scope, fisher: p.fisher, state: state}
			if err := all.condition(p.gram.fisherFisher); err != nil {
				return nil, err
			}
		}
		p.space = &weightSpace{process: all, factor: all.factor, mean: all.weights}
	}
	return p.space, nil
}

// columns is the range of B's columns that make a part.
func (p *directPosterior) columns(part Part) (from, to int) {
	from, to = 0, p.order()
	switch part {
	case Value:
		to = p.state.cols()
	case Advantage:
		from = p.state.cols()
	}
	return from, to
}

// rows allocates in s a part's columns of B at some points.
func (p *directPosterior) rows(s *compute.Scope, part Part, at Points) compute.Block {
	b, state := s.Backend(), p.state.cols()
	from, to := p.columns(part)
	x := s.New(at.Features.Rows, to-from)
	if part != Advantage {
		scaled := s.New(at.Features.Rows, at.Features.Cols)
		p.scaling.Apply(b, scaled, at.Features)
		compute.Copy(b, x.ColRange(0, state), p.state.rows(s, scaled))
	}
	if part != Value {
		b.Affine(x.ColRange(state-from, to-from), math.Sqrt(p.fisher), at.Fisher, 0, 0)
	}
	return x
}

// Size implements [CrossValidator].
func (p *directPosterior) Size() int { return p.state.whole().cols() + p.data.Fisher.Cols }

// LeaveOut implements [CrossValidator]. It takes no sum over the samples that stay: theirs
// is that over all less that over those left out.
func (p *directPosterior) LeaveOut(lo, hi int) (Predictor, error) {
	if n := p.scaled.Rows; lo < 0 || hi <= lo || hi > n {
		panic(fmt.Sprintf("gp: samples [%d, %d) of %d to be left out", lo, hi, n))
	}
	space, err := p.whole()
	if err != nil {
		return nil, err
	}
	scope, all := compute.NewScope(p.backend), space.process
	defer scope.Release()
	left := p.data.rowRange(lo, hi)
	g := newGram(scope, all.state.rowRange(lo, hi), left, p.fisher, FisherGram(p.backend, left.Fisher))
	g.subtractFrom(p.backend, all.gram)
	factor, err := factorize(p.scope, g.matrix, p.kernel.Noise)
	if err != nil {
		return nil, err
	}
	return &weightSpace{process: all, factor: factor, mean: g.weights(p.scope, factor)}, nil
}
