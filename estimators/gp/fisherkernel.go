package gp

import (
	"fmt"

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
	inverse *linop.Inverse
}

// NewFisherKernel makes K_f of the scores u (p × n) and the Fisher matrix g (p × p,
// positive definite: with its damping), both of which it keeps. The zero fields of
// method, conjugate gradients for G, stand for 1000 iterations and the squared residual
// 1e-18: solvers that multiply with K_f ask for less (package comment, "Both ways to
// the Fisher kernel").
func NewFisherKernel(b compute.Backend, u, g linop.Operator, method linop.CG) *FisherKernel {
	if method.MaxIterations == 0 {
		method.MaxIterations = 1000
	}
	if method.Tolerance == 0 {
		method.Tolerance = 1e-18
	}
	inverse := linop.NewInverse(b, g, method)
	return &FisherKernel{linop.NewProduct(b, linop.NewTranspose(u), linop.NewProduct(b, inverse, u)), inverse}
}

// EmpiricalFisher is G = UU'/n + damping I (eqn:kernel_equations), p × p, of n samples'
// scores u.
func EmpiricalFisher(b compute.Backend, u linop.Operator, damping float64) linop.Operator {
	p, n := u.Dims()
	outer := linop.NewProduct(b, u, linop.NewTranspose(u))
	return linop.NewSum(b, linop.NewScale(b, 1/float64(n), outer), linop.NewNoise(b, p, damping))
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
