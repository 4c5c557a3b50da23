package estimators

import (
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
)

// Quadrature is deep Bayesian quadrature (eq:GP_grad): the gradient's integral under a
// Gaussian process that is conditioned on the targets,
//
//	g = kappa U alpha,  alpha = (c1 K_s + kappa K_f + sigma² I)^-1 y,  kappa = c2 v
//
// Without a correction it is DBQPG, with one UAPG or UBAC.
type Quadrature struct {
	Kernel     gp.Kernel
	Solver     gp.Solver
	Integral   Integral   // nil: [PlainIntegral]
	Correction Correction // nil: none
}

// Condition fits the process to the batch's targets, in s.
func (q *Quadrature) Condition(s *compute.Scope, batch *Batch) (gp.Posterior, error) {
	return q.Solver.Fit(s, q.Kernel, gp.Data{Features: batch.Features, Fisher: batch.SVD.V, Targets: batch.Targets})
}

// Estimate implements [Estimator].
func (q *Quadrature) Estimate(s *compute.Scope, batch *Batch) (*Estimate, error) {
	posterior, err := q.Condition(s, batch)
	if err != nil {
		return nil, err
	}
	return q.Integrate(s, batch, posterior)
}

// Integrate returns the estimate of a process that has been conditioned on the batch.
func (q *Quadrature) Integrate(s *compute.Scope, batch *Batch, posterior gp.Posterior) (_ *Estimate, err error) {
	integral := q.Integral
	if integral == nil {
		integral = PlainIntegral{}
	}
	weights, err := integral.Weights(s, batch, q.Kernel, posterior.Alpha())
	if err != nil {
		return nil, err
	}
	e := newEstimate(s, batch, weights)
	e.Posterior, e.kappa = posterior, q.Kernel.FisherWeight()
	err = e.correctBy(s, q.Correction)
	return e, err
}

// An Integral is how the process is integrated against the scores: it turns alpha into the
// weights w of the gradient U w. With the Fisher kernel of its definition,
//
//	E[u(z) kappa k_f(z, z_i)] = kappa E[uu'] G^-1 u(z_i) = kappa u(z_i)
//
// so that w = kappa alpha. But no solver has that kernel: it is cut off at a rank, or damped,
// and alpha is far too large in the directions of U's row space where that has taken the
// kernel away. The other integrals allow for it.
type Integral interface {
	// Weights allocates w (n × 1) in s, given alpha (n × 1) under the kernel k. The error is
	// that of a product with the kernel.
	Weights(s *compute.Scope, batch *Batch, k gp.Kernel, alpha compute.Block) (compute.Block, error)
}

// PlainIntegral is the paper's and the authors' w = kappa alpha.
type PlainIntegral struct{}

// Weights implements [Integral].
func (PlainIntegral) Weights(s *compute.Scope, _ *Batch, k gp.Kernel, alpha compute.Block) (compute.Block, error) {
	w := s.New(alpha.Rows, 1)
	s.Backend().Affine(w, k.FisherWeight(), alpha, 0, 0)
	return w, nil
}

// CompletedIntegral completes the kernel n V V', cut off at a rank, to that of all of U's row
// space, where the Fisher kernel's eigenvalue is n everywhere. On the directions left out
// the process has the noise sigma² alone, where it should have kappa n more, and so
//
//	w = kappa (rho alpha + (1 - rho) V V'alpha),  rho = sigma²/(kappa n + sigma²)
//
// Without the state kernel (c1 = 0) U w is exactly what the kernel of full rank gives. With it, w is the targets less
// the posterior mean of their state part, times kappa/(sigma² + kappa n): Monte Carlo with a baseline.
type CompletedIntegral struct{}

// Weights implements [Integral].
func (CompletedIntegral) Weights(s *compute.Scope, batch *Batch, k gp.Kernel, alpha compute.Block) (compute.Block,
	error) {
	kappa := k.FisherWeight()
	rho := k.Noise / (kappa*float64(alpha.Rows) + k.Noise)
	b, v := s.Backend(), batch.SVD.V
	w, inner := s.New(alpha.Rows, 1), s.New(v.Cols, 1)
	b.Gemm(true, false, 1, v, alpha, 0, inner)
	b.Affine(w, kappa*rho, alpha, 0, 0)
	b.Gemm(false, false, kappa*(1-rho), v, inner, 1, w)
	return w, nil
}

// DampedIntegral is for a Fisher kernel K_f = U'(G + lambda I)^-1 U whose matrix is damped,
// with the empirical G = UU'/n: the damping is in the kernel, but not in the expectation of
// uu', which is G, so that
//
//	E[u(z) k_f(z, z_i)] = G (G + lambda I)^-1 u(z_i) = U K_f e_i / n,  w = kappa K_f alpha / n
type DampedIntegral struct{ Kernel *gp.FisherKernel } // K_f, n × n

// Weights implements [Integral].
func (d DampedIntegral) Weights(s *compute.Scope, _ *Batch, k gp.Kernel, alpha compute.Block) (compute.Block, error) {
	w := s.New(alpha.Rows, 1)
	err := d.Kernel.Multiply(w, alpha)
	compute.Scale(s.Backend(), k.FisherWeight()/float64(alpha.Rows), w)
	return w, err
}
