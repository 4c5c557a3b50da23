package gp

import (
	"cmp"
	"fmt"
	"math"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// FisherKernel is the n × n matrix K_f = U'G^-1 U by its definition (eqn:kernel_equations)
// rather than by U's leading singular vectors. This is the paper's first approach
// (eqn:appendix_fisher_kernel_vector_product): a product with it is a vector-Jacobian product
// with U, a solution with G by conjugate gradients, and a Jacobian-vector product with U'.
type FisherKernel struct {
	backend compute.Backend
	scores  linop.Operator // U
	fisher  linop.Operator // G, damped
	cg      linop.CG
	leading compute.Block // F, n × r with FF' near K_f, for preconditioning
}

// ExactFisher specifies how products with G^-1 are computed. The zero value is ready to use.
type ExactFisher struct {
	// CG solves with G; zero fields stand for 1000 iterations and the squared residual
	// 1e-20. Solvers that multiply with K_f ask for less (package comment, "Both ways to
	// the Fisher kernel"). Kernel sets the preconditioner.
	CG   linop.CG
	Rank int    // of the preconditioner; 0 means 100, or as many as there are
	Seed uint64 // of the preconditioner; as for [Iterative], each batch should have its own
}

// Kernel returns K_f for the scores u (p × n) and the Fisher matrix g (p × p, without
// damping), to which it adds damping > 0 times the identity. It retains both; its blocks are
// in s. The errors are those of linop.Nystrom.
//
// Leading eigenpairs (e, Q) of g precondition the solutions with it (Frangella, Tropp and
// Udell 2021), and F = U'Q diag(e + damping)^-1/2 those with the kernel.
func (f ExactFisher) Kernel(s *compute.Scope, u, g linop.Operator, damping float64) (*FisherKernel, error) {
	if !(damping > 0) {
		panic(fmt.Sprintf("gp: damping %g, want a positive number", damping))
	}
	b := s.Backend()
	p, n := u.Dims()
	f.CG.MaxIterations = cmp.Or(f.CG.MaxIterations, 1000)
	f.CG.Tolerance = cmp.Or(f.CG.Tolerance, 1e-20)
	near, err := newPreconditioner(s, g, damping, min(cmp.Or(f.Rank, 100), p, n), stream(f.Seed, preconditionerStream))
	if err != nil {
		return nil, fmt.Errorf("gp: the Fisher matrix: %w", err)
	}
	f.CG.Preconditioner = near.power(s, -1)
	scaled := near.scaledVectors(s, func(share float64) float64 { return math.Sqrt(share / damping) })
	return &FisherKernel{
		backend: b, scores: u, cg: f.CG,
		fisher:  linop.NewSum(b, g, linop.NewScaledIdentity(b, p, damping)),
		leading: linop.Mul(s, u, scaled, true),
	}, nil
}

// Multiply sets dst to K_f x; both are n × m, for any m. The error is that of the solution
// with G.
func (k *FisherKernel) Multiply(dst, x compute.Block) error {
	s := compute.NewScope(k.backend)
	defer s.Release()
	product := linop.Mul(s, k.scores, x, false)
	if _, err := k.cg.Solve(k.backend, k.fisher, product, product); err != nil {
		return fmt.Errorf("gp: the Fisher kernel's G^-1: %w", err)
	}
	k.scores.MulTo(dst, product, true)
	return nil
}
