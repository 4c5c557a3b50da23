package gp

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// FisherKernel is the matrix K_f = U'G^-1 U, n × n, as it is defined
// (eqn:kernel_equations), and not by U's leading singular vectors. It is the paper's
// first approach (eqn:appendix_fisher_kernel_vector_product): a product is one with U,
// a vector-Jacobian product, a solution with G by conjugate gradients, and one with U',
// a Jacobian-vector product.
type FisherKernel struct {
	linop.Operator
	inverse *linop.Inverse // G^-1
	leading compute.Block  // F, n × r with FF' near K_f, to precondition with
}

// ExactFisher says how products with G^-1 are computed. The zero value is ready to use.
type ExactFisher struct {
	// CG solves with G; zero fields stand for 1000 iterations and the squared residual
	// 1e-20. Solvers that multiply with K_f ask for less (package comment, "Both ways to
	// the Fisher kernel"). Its preconditioner is made here.
	CG   linop.CG
	Rank int    // of the preconditioner; 0 means 100, or as many as there are
	Seed uint64 // of the preconditioner, one for each batch as [Iterative] has it
}

// Kernel makes K_f of the scores u (p × n) and the Fisher matrix g (p × p, without
// damping), to which it adds damping times the identity, damping > 0. It keeps both; its
// blocks live in s. The errors are those of linop.Nystrom.
//
// Leading eigenpairs (e, Q) of g precondition the solutions with it (Frangella, Tropp and
// Udell 2021), and F = U'Q diag(e + damping)^-1/2 those with the kernel.
func (f ExactFisher) Kernel(s *compute.Scope, u, g linop.Operator, damping float64) (*FisherKernel, error) {
	if !(damping > 0) {
		panic(fmt.Sprintf("gp: damping %g, want a positive number", damping))
	}
	b := s.Backend()
	p, n := u.Dims()
	if f.CG.MaxIterations == 0 {
		f.CG.MaxIterations = 1000
	}
	if f.CG.Tolerance == 0 {
		f.CG.Tolerance = 1e-20
	}
	if f.Rank == 0 {
		f.Rank = 100
	}
	near, err := newPreconditioner(s, g, damping, min(f.Rank, p, n), rand.New(rand.NewPCG(f.Seed, preconditionerStream)))
	if err != nil {
		return nil, fmt.Errorf("gp: the Fisher matrix: %w", err)
	}
	f.CG.Preconditioner = near.power(s, -1)
	inverse := linop.NewInverse(b, linop.NewSum(b, g, linop.NewNoise(b, p, damping)), f.CG)
	scaled := near.scaledVectors(s, func(share float64) float64 { return math.Sqrt(share / damping) })
	return &FisherKernel{
		Operator: linop.NewProduct(b, linop.NewTranspose(u), linop.NewProduct(b, inverse, u)),
		inverse:  inverse,
		leading:  linop.Mul(s, u, scaled, true),
	}, nil
}

// EmpiricalFisher is G = UU'/n (eqn:kernel_equations), p × p, of n samples' scores u.
func EmpiricalFisher(b compute.Backend, u linop.Operator) linop.Operator {
	_, n := u.Dims()
	return linop.NewScale(b, 1/float64(n), linop.NewProduct(b, u, linop.NewTranspose(u)))
}

// Iterations is the number of products with G so far, one for a block of columns.
func (k *FisherKernel) Iterations() int { return k.inverse.Iterations() }

// check returns the error of the first product that failed, if one did, rather than
// err, which it caused.
func (k *FisherKernel) check(err error) error {
	if k == nil || k.inverse.Err() == nil {
		return err
	}
	return fmt.Errorf("gp: the Fisher kernel's G^-1: %w", k.inverse.Err())
}
