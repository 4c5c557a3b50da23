package estimators

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// A Correction lets an estimate's uncertainty change the direction of the step: [UAPG] and
// [UBAC] that of the gradient, [NaturalUAPG] and [FisherUAPG] that of the natural gradient.
type Correction interface {
	// Of allocates in s what the correction of an estimate needs, and returns what changes
	// a direction (p × 1) in place.
	Of(s *compute.Scope, e *Estimate) (correct func(direction compute.Block), err error)
}

// A Decomposition finds leading eigenpairs of an uncertainty, with vectors in s:
// [Projected], or what [Randomized] returns.
type Decomposition func(s *compute.Scope, u *Uncertainty) (*Eigenpairs, error)

// UAPG corrects the gradient by the eigenpairs (nu_j, h_j) of its covariance
// [Estimate.Covariance]: it damps the most uncertain directions
// (eqn:UAPG_practical_vanilla, without its factor nu_delta^-1/2),
//
//	g - sum_j (1 - sqrt(nu_delta/nu_j)) h_j h_j'g
type UAPG struct{ Decompose Decomposition }

// Of implements [Correction].
func (c UAPG) Of(s *compute.Scope, e *Estimate) (func(compute.Block), error) {
	covariance, err := e.Covariance()
	if err != nil {
		return nil, err
	}
	pairs, err := c.Decompose(s, covariance)
	return func(g compute.Block) {
		pairs.stretch(s.Backend(), g, func(nu, least float64) float64 { return math.Sqrt(least / nu) })
	}, err
}

// NaturalUAPG corrects the natural gradient by the eigenpairs (nu_j, h_j) of its precision
// [Estimate.Precision]: it takes longer steps in the most confident directions, at most
// Epsilon times as long (eqn:UAPG_npg, without its factor nu_delta^1/2),
//
//	d + sum_j (min(sqrt(nu_j/nu_delta), epsilon) - 1) h_j h_j'd
type NaturalUAPG struct {
	Epsilon   float64 // at least 1
	Decompose Decomposition
}

// Of implements [Correction].
func (c NaturalUAPG) Of(s *compute.Scope, e *Estimate) (func(compute.Block), error) {
	precision, err := e.Precision()
	if err != nil {
		return nil, err
	}
	return c.by(s, precision)
}

// by corrects by the eigenpairs of a matrix.
func (c NaturalUAPG) by(s *compute.Scope, u *Uncertainty) (func(compute.Block), error) {
	pairs, err := c.Decompose(s, u)
	return func(d compute.Block) {
		pairs.stretch(s.Backend(), d, func(nu, least float64) float64 { return min(math.Sqrt(nu/least), c.Epsilon) })
	}, err
}

// FisherUAPG is [NaturalUAPG] with the Fisher matrix G in the precision's place, without damping: a fixed
// preconditioner. It needs no process, so that it corrects Monte Carlo as well. It is the control of an experiment:
// is UAPG's gain its uncertainty? Where the state kernel explains nothing of the scores,
//
//	kappa N = G + damping I + kappa U (c1 K_s + sigma² I)^-1 U' = (1 + kappa n/sigma²) G + damping I
//
// With --preset paper kappa n/sigma² is 7,500, and the damping next to nothing. Since eigenvalues count relative to
// the least, UAPG is then nearly FisherUAPG, whose step is proportional to G^1/2 (G + damping I)^-1 g, about G^-1/2
// g, up to Epsilon.
type FisherUAPG NaturalUAPG

// Of implements [Correction].
func (c FisherUAPG) Of(s *compute.Scope, e *Estimate) (func(compute.Block), error) {
	fisher := e.newUncertainty(0, mat.NewSymDense(len(e.batch.SVD.S), nil))
	fisher.damping = 0
	return NaturalUAPG(c).by(s, fisher)
}

// UBAC corrects the gradient as the uncertainty-based form of Bayesian actor-critic does
// (sec:appendix_BACvsDBQPG, after Ghavamzadeh, Engel and Valko 2016): the larger a
// direction's variance relative to the largest of all, nu_0, the shorter its step; along
// nu_0's direction there is none,
//
//	(I - C/nu_0) g
//
// It is for the gradient alone: the natural gradient's covariance is the inverse of an
// ill-conditioned matrix, whose largest eigenvalues are all about the same, so that the
// correction would leave next to nothing.
type UBAC struct{ Rand *rand.Rand } // of the search for nu_0 where G is not the empirical matrix

// Of implements [Correction].
func (c UBAC) Of(s *compute.Scope, e *Estimate) (func(compute.Block), error) {
	covariance, err := e.Covariance()
	if err != nil {
		return nil, err
	}
	largest, err := covariance.largest(s, c.Rand)
	return func(g compute.Block) {
		inner := compute.NewScope(s.Backend())
		defer inner.Release()
		compute.Axpy(s.Backend(), -1/largest, linop.Mul(inner, covariance, g, false), g)
	}, err
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
