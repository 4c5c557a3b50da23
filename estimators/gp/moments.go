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
	return p.moments(mean, variance, p.state, 0, 1)
}

// AdvantageMoments implements [Moments].
func (p *directPosterior) AdvantageMoments(mean, variance compute.Block) error {
	return p.moments(mean, variance, p.data.Fisher, p.state.Cols, math.Sqrt(p.fisher))
}

// moments are those of the part of K that is A A', with A = scale x the columns of B
// from the given one on. B'alpha = c gives the mean A c_A, and B'K^-1 B = I - noise
// M^-1 the covariance A A' - A A'K^-1 A A' = noise A (M^-1)_AA A'.
func (p *directPosterior) moments(mean, variance, x compute.Block, from int, scale float64) error {
	if err := p.invert(); err != nil {
		return err
	}
	scope := compute.NewScope(p.backend)
	defer scope.Release()
	to := from + x.Cols
	c := scope.FromSlice(x.Cols, 1, mat.VecDenseCopyOf(p.weights.SliceVec(from, to)).RawVector().Data)
	p.backend.Gemm(false, false, scale, x, c, 0, mean)

	inverse := mat.DenseCopyOf(mat.DenseCopyOf(p.inverse).Slice(from, to, from, to)).RawMatrix().Data
	m := scope.FromSlice(x.Cols, x.Cols, inverse)
	product := scope.New(x.Rows, x.Cols)
	p.backend.Gemm(false, false, scale*scale*p.kernel.Noise, x, m, 0, product)
	p.backend.RowDots(variance, product, x, 0)
	return nil
}
