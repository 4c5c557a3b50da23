package gp

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// weightSpace is the process seen from its r columns: Q = B w, where w is N(0, I) before
// the batch and N(c, noise M^-1) given it.
type weightSpace struct {
	mean []float64  // c
	root *mat.Dense // noise^1/2 R^-1, upper triangular, with M = R'R
}

// newWeightSpace takes the factor of M and c.
func newWeightSpace(factor *mat.Cholesky, mean *mat.VecDense, noise float64) (*weightSpace, error) {
	r := mean.Len()
	upper, scaled, root := new(mat.TriDense), mat.NewDense(r, r, nil), new(mat.Dense)
	factor.UTo(upper)
	for i := range r {
		scaled.Set(i, i, math.Sqrt(noise))
	}
	if err := upper.SolveTo(root, false, scaled); err != nil {
		return nil, err
	}
	return &weightSpace{mean.RawVector().Data, root}, nil
}

// moments are those of A w_A for A, the columns [from, to) of B at m points, of which rows
// gives the rows [lo, hi). A variance is the squared length of a row of A times root: it
// cannot be negative.
func (w *weightSpace) moments(b compute.Backend, mean, variance compute.Block, from, to int, rows func(s *compute.Scope, lo, hi int) compute.Block) {
	scope := compute.NewScope(b)
	defer scope.Release()
	c := scope.FromSlice(to-from, 1, w.mean[from:to])
	var root compute.Block
	if variance.Rows > 0 {
		root = upload(scope, w.root.Slice(from, to, from, len(w.mean))) // left of it are zeros
	}
	b.Panels(mean.Rows, func(b compute.Backend, _, lo, hi int) {
		s := compute.NewScope(b)
		defer s.Release()
		x := rows(s, lo, hi)
		b.Gemm(false, false, 1, x, c, 0, mean.RowRange(lo, hi))
		if variance.Rows > 0 {
			product := s.New(x.Rows, root.Cols)
			b.Gemm(false, false, 1, x, root, 0, product)
			b.RowDots(variance.RowRange(lo, hi), product, product, 0)
		}
	})
}

// Predict implements [Predictor].
func (p *directPosterior) Predict(part Part, at Points, mean, variance compute.Block) (err error) {
	p.checkPredict(part, at, mean, variance)
	if p.space == nil {
		if p.space, err = newWeightSpace(&p.factor, p.weights, p.kernel.Noise); err != nil {
			return err
		}
	}
	from, to := p.columns(part)
	p.space.moments(p.backend, mean, variance, from, to, func(s *compute.Scope, lo, hi int) compute.Block {
		return p.rows(s, part, at.rowRange(lo, hi))
	})
	return nil
}

// columns is the range of B's columns that make a part.
func (p *directPosterior) columns(part Part) (from, to int) {
	from, to = 0, p.gram.size()
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
		b.Copy(x.ColRange(0, state), p.state.rows(s, scaled))
	}
	if part != Value {
		b.Affine(x.ColRange(state-from, to-from), math.Sqrt(p.fisher), at.Fisher, 0)
	}
	return x
}

// LeaveOut implements [CrossValidator]. It takes no sum over the samples that stay: theirs
// is that over all less that over the h left out,
//
//	M - B_h'B_h,  B'y - B_h'y_h,
//
// which takes h r² operations and another factorisation.
func (p *directPosterior) LeaveOut(lo, hi int, mean, variance compute.Block) error {
	if h := hi - lo; lo < 0 || h < 0 || hi > p.scaled.Rows || mean.Rows != h || mean.Cols != 1 || variance.Rows != h || variance.Cols != 1 {
		panic(fmt.Sprintf("gp: moments of the samples [%d, %d) of %d, left out, to %s and %s",
			lo, hi, p.scaled.Rows, mean.Shape(), variance.Shape()))
	}
	s := compute.NewScope(p.backend)
	defer s.Release()
	left := s.New(hi-lo, p.gram.size()) // B_h
	p.backend.Panels(left.Rows, func(b compute.Backend, _, i, j int) {
		panel := compute.NewScope(b)
		defer panel.Release()
		b.Copy(left.RowRange(i, j), p.rows(panel, ActionValue, p.data.Points().rowRange(lo+i, lo+j)))
	})
	space, err := p.without(left, p.data.Targets.RowRange(lo, hi))
	if err != nil {
		return err
	}
	space.moments(p.backend, mean, variance, 0, left.Cols, func(_ *compute.Scope, i, j int) compute.Block { return left.RowRange(i, j) })
	return nil
}

// without is the weights' posterior given the batch less some rows of B and their targets.
func (p *directPosterior) without(rows, targets compute.Block) (*weightSpace, error) {
	b, r := p.backend, p.gram.size()
	s := compute.NewScope(b)
	defer s.Release()
	square, product := s.New(r, r), s.New(r, 1)
	b.Gram(square, rows)
	b.Scale(-1, square)
	b.Gemm(true, false, -1, rows, targets, 0, product)

	m, c := p.gram.matrix(p.fisher, p.kernel.Noise), p.gram.targets(p.fisher)
	m.AddSym(m, mat.NewSymDense(r, compute.ToSlice(b, square)))
	c.AddVec(c, mat.NewVecDense(r, compute.ToSlice(b, product)))
	var factor mat.Cholesky
	if err := factorize(&factor, m, p.kernel.Noise); err != nil {
		return nil, err
	}
	if err := factor.SolveVecTo(c, c); err != nil {
		return nil, err
	}
	return newWeightSpace(&factor, c, p.kernel.Noise)
}
