package gp

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// Moments is implemented by posteriors that know mean and variance (n × 1 each) at
// the batch's own points of the two parts of the action-value function.
type Moments interface {
	// ValueMoments: of V(s), c1 K_s alpha and the diagonal of
	// c1 K_s - c1² K_s K^-1 K_s (eqn:appendix_value_posterior_1, _2).
	ValueMoments(mean, variance compute.Block) error
	// AdvantageMoments: of A(s,a), the same with c2 K_f (eqn:appendix_adv_posterior_1, _2).
	AdvantageMoments(mean, variance compute.Block) error
}

// ValueMoments implements [Moments].
func (p *directPosterior) ValueMoments(mean, variance compute.Block) error {
	return p.moments(mean, variance, 0, p.state.cols(), 1, func(s *compute.Scope, lo, hi int) compute.Block {
		return p.state.rows(s, p.scaled.RowRange(lo, hi))
	})
}

// AdvantageMoments implements [Moments].
func (p *directPosterior) AdvantageMoments(mean, variance compute.Block) error {
	return p.moments(mean, variance, p.state.cols(), p.gram.size(), math.Sqrt(p.fisher), func(_ *compute.Scope, lo, hi int) compute.Block {
		return p.data.Fisher.RowRange(lo, hi)
	})
}

// moments are those of the part of K that is A A', with A = scale x the columns [from,
// to) of B, of which rows gives the rows [lo, hi) before the scale. B'alpha = c gives the
// mean A c_A, and B'K^-1 B = I - noise M^-1 the covariance A A' - A A'K^-1 A A' = noise A
// (M^-1)_AA A'.
func (p *directPosterior) moments(mean, variance compute.Block, from, to int, scale float64, rows func(s *compute.Scope, lo, hi int) compute.Block) error {
	if err := p.invert(); err != nil {
		return err
	}
	scope := compute.NewScope(p.backend)
	defer scope.Release()
	c := scope.FromSlice(to-from, 1, p.weights.RawVector().Data[from:to])
	m := upload(scope, mat.DenseCopyOf(p.inverse).Slice(from, to, from, to))
	p.backend.Panels(mean.Rows, func(b compute.Backend, _, lo, hi int) {
		s := compute.NewScope(b)
		defer s.Release()
		x := rows(s, lo, hi)
		b.Gemm(false, false, scale, x, c, 0, mean.RowRange(lo, hi))
		product := s.New(x.Rows, x.Cols)
		b.Gemm(false, false, scale*scale*p.kernel.Noise, x, m, 0, product)
		b.RowDots(variance.RowRange(lo, hi), product, x, 0)
	})
	return nil
}
