package estimators

import (
	"math"
	"slices"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// Eigenpairs are the delta leading eigenpairs (nu_j, h_j) of an [Uncertainty], all
// nu_j > 0.
type Eigenpairs struct {
	Values  []float64
	Vectors linop.Operator // p × delta, orthonormal columns
}

// Vanilla corrects the gradient g (p × 1) in place by the eigenpairs of [Covariance]:
// it damps the most uncertain directions (eqn:UAPG_practical_vanilla, without its
// factor nu_delta^-1/2),
//
//	g - sum_j (1 - sqrt(nu_delta/nu_j)) h_j h_j'g
func (e *Eigenpairs) Vanilla(b compute.Backend, g compute.Block) {
	e.stretch(b, g, func(nu, least float64) float64 { return math.Sqrt(least / nu) })
}

// Natural corrects the natural gradient d (p × 1) in place by the eigenpairs of
// [NaturalPrecision]: it takes longer steps in the most confident directions, at most
// epsilon times as long (eqn:UAPG_npg, without its factor nu_delta^1/2),
//
//	d + sum_j (min(sqrt(nu_j/nu_delta), epsilon) - 1) h_j h_j'd
func (e *Eigenpairs) Natural(b compute.Backend, d compute.Block, epsilon float64) {
	e.stretch(b, d, func(nu, least float64) float64 { return min(math.Sqrt(nu/least), epsilon) })
}

// stretch multiplies x's component along each h_j by factor(nu_j, nu_delta).
func (e *Eigenpairs) stretch(b compute.Backend, x compute.Block, factor func(nu, least float64) float64) {
	if len(e.Values) == 0 {
		return
	}
	s := compute.NewScope(b)
	defer s.Release()
	components := s.New(len(e.Values), 1)
	e.Vectors.MulTo(components, x, true)
	host := compute.ToSlice(b, components)
	least := slices.Min(e.Values)
	for j, nu := range e.Values {
		host[j] *= factor(nu, least) - 1
	}
	b.Upload(components, host)
	compute.Axpy(b, 1, linop.Mul(s, e.Vectors, components, false), x)
}
