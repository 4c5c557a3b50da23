package gp

import (
	"errors"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// ErrExactFisherKernel reports a request that needs Fisher vectors at given points, which an
// exact [FisherKernel] does not have: it is defined only on the batch.
var ErrExactFisherKernel = errors.New(
	"gp: with an exact Fisher kernel the posterior knows the value's moments, not the advantage's")

// Predict implements [Predictor]. The error may be [ErrExactFisherKernel], or one of
// conjugate gradients.
//
// The mean takes one product with the kernel. Each variance takes a solution with K, which
// costs far more than the closed form and is no more accurate near zero, where the variance is
// the difference of two numbers as large as the prior variance.
func (p *iterativePosterior) Predict(part Part, at Points, mean, variance compute.Block) error {
	p.checkPredict(part, at, mean, variance)
	if part != Value && p.solver.FisherKernel != nil {
		return ErrExactFisherKernel
	}
	s := compute.NewScope(p.backend)
	defer s.Release()
	b, n, m := p.backend, p.alpha.Rows, mean.Rows
	joint := p.joint(s, part, at)
	x := s.New(n+m, 1)
	compute.Copy(b, x.RowRange(0, n), p.alpha)
	compute.Fill(b, x.RowRange(n, n+m), 0)
	compute.Copy(b, mean, linop.Mul(s, joint, x, false).RowRange(n, n+m))
	if variance.Rows == 0 {
		return nil
	}
	const atATime = 64
	for lo := 0; lo < m; lo += atATime {
		if err := p.variances(variance.RowRange(lo, min(m, lo+atATime)), joint, n+lo); err != nil {
			return err
		}
	}
	return nil
}

// joint returns a part's kernel matrix over the batch and further points, n + m × n + m.
func (p *iterativePosterior) joint(s *compute.Scope, part Part, at Points) linop.Operator {
	b, n := p.backend, p.alpha.Rows
	total := n + at.Features.Rows
	var parts []linop.Operator
	if part != Advantage {
		scaled := s.New(total, p.scaled.Cols)
		compute.Copy(b, scaled.RowRange(0, n), p.scaled)
		p.scaling.Apply(b, scaled.RowRange(n, total), at.Features)
		parts = append(parts, p.state.At(scaled))
	}
	if part != Value {
		v := s.New(total, p.data.Fisher.Cols)
		compute.Copy(b, v.RowRange(0, n), p.data.Fisher)
		compute.Copy(b, v.RowRange(n, total), at.Fisher)
		parts = append(parts, linop.NewLowRank(b, p.kernel.fisherScale(n), v))
	}
	return linop.NewSum(b, parts...)
}

// variances sets dst to k** - k*'K^-1 k* for the points with joint's columns from first on.
func (p *iterativePosterior) variances(dst compute.Block, joint linop.Operator, first int) error {
	s := compute.NewScope(p.backend)
	defer s.Release()
	b, n, columns := p.backend, p.alpha.Rows, dst.Rows
	total, _ := joint.Dims()
	unit := s.New(total, columns)
	compute.Fill(b, unit, 0)
	compute.Copy(b, unit.RowRange(first, first+columns), s.Identity(columns))
	kernel := linop.Mul(s, joint, unit, false)
	cross, solved := kernel.RowRange(0, n), s.New(n, columns)
	if err := p.solve(solved, cross); err != nil {
		return err
	}
	reduction := s.New(1, columns)
	b.Mul(solved, solved, cross, 0)
	b.SumRows(reduction, solved)
	prior, reduced := compute.ToSlice(b, kernel.RowRange(first, first+columns)), compute.ToSlice(b, reduction)
	values := make([]float64, columns)
	for j := range values {
		values[j] = max(0, prior[j*columns+j]-reduced[j])
	}
	b.Upload(dst, values)
	return nil
}
