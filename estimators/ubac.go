package estimators

import (
	"fmt"
	"math/rand/v2"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// UBAC corrects the gradient g (p × 1) in place as the uncertainty-based form of
// Bayesian actor-critic does (sec:appendix_BACvsDBQPG, after Ghavamzadeh, Engel and Valko
// 2016): a direction's step is the shorter, the larger its variance is beside the
// largest of all, nu_0, along which there is none,
//
//	(I - C/nu_0) g
//
// for the gradient's covariance c ([Covariance], p × p; a factor such as c2 cancels)
// and its largest eigenvalue nu0 > 0 ([Uncertainty.Largest]). Along an eigenvector whose
// value exceeds nu0 the step would be reversed.
//
// It is for vanilla gradients alone: the natural gradient's covariance is the inverse
// of an ill-conditioned matrix, whose largest eigenvalues are all about the same, so
// that the correction would leave next to nothing.
func UBAC(b compute.Backend, g compute.Block, c linop.Operator, nu0 float64) {
	if !(nu0 > 0) {
		panic(fmt.Sprintf("estimators: UBAC's largest eigenvalue is %g, want a positive number", nu0))
	}
	s := compute.NewScope(b)
	defer s.Release()
	compute.Axpy(b, -1/nu0, linop.Mul(s, c, g, false), g)
}

// Largest is the matrix's largest eigenvalue: exact, in closed form, with the empirical
// Fisher matrix, all of which but the damping lies in the span of P; otherwise by a block
// Krylov method, from below.
func (u *Uncertainty) Largest(rng *rand.Rand) (float64, error) {
	s := compute.NewScope(u.backend)
	defer s.Release()
	if u.fisher == nil {
		return u.leadingValue(u.Projected(s))
	}
	const depth = 5 // 1e-8 of the value from the exact one, on the golden batches
	return u.leadingValue(u.Randomized(s, 1, depth, rng))
}

func (u *Uncertainty) leadingValue(pairs *Eigenpairs, err error) (float64, error) {
	if err != nil {
		return 0, err
	}
	return pairs.Values[0], nil
}
