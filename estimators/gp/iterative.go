package gp

import (
	"cmp"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// Iterative conditions the process as in the paper, by products with K alone:
// preconditioned conjugate gradients for the solutions, stochastic Lanczos quadrature
// for the log determinant, probe vectors for the traces. LogLikelihood and Gradient
// are estimates, which are accurate if the preconditioner has the rank of the kernels;
// Alpha and the cores are exact, to CG's tolerance. The zero value is ready to use.
type Iterative struct {
	// FisherKernel computes exact products with K_f, and V is then used only in the cores;
	// nil means n V V'.
	FisherKernel *FisherKernel
	// CG solves with K. Its zero fields mean 1000 iterations and a squared residual of
	// 1e-18, or 1e-12 with a [FisherKernel], whose products have errors of their own.
	CG     linop.CG
	LogDet linop.LogDet // zero fields: 10 probes, 20 steps
	Rank   int          // rank of the preconditioner; 0 means 150 + that of the Fisher kernel's leading part, at most n
	Probes int          // number of random vectors for the traces; 0 means 10
	// Seed is the seed of all random vectors. Fits with the same seed draw the same ones, so
	// their errors do not average out: a run derives a seed for each batch from its own seed
	// and the iteration.
	Seed uint64
}

// withDefaults fills in the zero fields for a batch.
func (i Iterative) withDefaults(d Data) Iterative {
	fisher, tolerance := d.Fisher, 1e-18
	if i.FisherKernel != nil {
		fisher, tolerance = i.FisherKernel.leading, 1e-12
	}
	i.CG.MaxIterations = cmp.Or(i.CG.MaxIterations, 1000)
	i.CG.Tolerance = cmp.Or(i.CG.Tolerance, tolerance)
	i.Rank = cmp.Or(i.Rank, min(stateRank+fisher.Cols, fisher.Rows))
	i.Probes = cmp.Or(i.Probes, 10)
	return i
}

// stateRank is the number of eigenvectors of K_s in the preconditioner. A smooth kernel has
// fewer eigenvalues above the noise.
const stateRank = 150

// iterativePosterior is the posterior that Iterative.Fit returns.
type iterativePosterior struct {
	inputs
	solver Iterative
	state  *linop.Interp    // c1 K_s
	slopes []linop.Operator // its derivatives in the base kernel's hyperparameters
	noise  linop.Operator
	alpha  compute.Block

	leading        linop.Operator  // kappa K_f, or a FisherKernel's leading part of it
	preconditioner *preconditioner // of c1 K_s + leading + noise I
}

// Fit implements [Solver].
func (i Iterative) Fit(s *compute.Scope, k Kernel, d Data) (Posterior, error) {
	in, err := prepare(s, k, d)
	if err != nil {
		return nil, err
	}
	b, n := s.Backend(), d.Features.Rows
	p := &iterativePosterior{inputs: in, solver: i.withDefaults(d)}
	if err := checkFinite(b, fisherVectors, d.Fisher); err != nil {
		return nil, err
	}
	p.state, p.slopes = k.state().Operators(s, p.scaled)
	p.leading = linop.NewLowRank(b, k.fisherScale(n), d.Fisher)
	if i.FisherKernel != nil {
		p.leading = linop.NewLowRank(b, k.FisherWeight(), i.FisherKernel.leading)
	}
	p.noise = linop.NewScaledIdentity(b, n, k.Noise)
	p.alpha = s.New(n, 1)
	if p.preconditioner, err = newPreconditioner(s, linop.NewSum(b, p.state, p.leading), k.Noise, p.solver.Rank,
		stream(p.solver.Seed, preconditionerStream)); err != nil {
		return nil, err
	}
	p.solver.CG.Preconditioner = p.preconditioner.power(s, -1)
	if err := p.solve(p.alpha, d.Targets); err != nil {
		return nil, err
	}
	return p, nil
}

// multiply sets dst to K x.
func (p *iterativePosterior) multiply(dst, x compute.Block) error {
	s := compute.NewScope(p.backend)
	defer s.Release()
	product := s.New(dst.Rows, dst.Cols)
	if err := p.multiplyFisher(product, x); err != nil {
		return err
	}
	p.state.MulTo(dst, x, false)
	compute.Axpy(p.backend, 1, product, dst)
	p.noise.MulTo(product, x, false)
	compute.Axpy(p.backend, 1, product, dst)
	return nil
}

// multiplyFisher sets dst to kappa K_f x.
func (p *iterativePosterior) multiplyFisher(dst, x compute.Block) error {
	if p.solver.FisherKernel == nil {
		p.leading.MulTo(dst, x, false)
		return nil
	}
	err := p.solver.FisherKernel.Multiply(dst, x)
	compute.Scale(p.backend, p.kernel.FisherWeight(), dst)
	return err
}

// solve sets dst to K^-1 rhs.
func (p *iterativePosterior) solve(dst, rhs compute.Block) error {
	_, err := p.solver.CG.SolveFunc(p.backend, p.multiply, dst, rhs)
	return err
}

// Alpha implements [Posterior].
func (p *iterativePosterior) Alpha() compute.Block { return p.alpha }

// LogLikelihood implements [Posterior]. It computes log det K as log det P +
// log det P^-1/2 K P^-1/2 with the preconditioner P; the standard error is that of the second
// term. The error is that of estimating the determinant.
func (p *iterativePosterior) LogLikelihood() (linop.Estimate, error) {
	b, y := p.backend, p.data.Targets
	s := compute.NewScope(b)
	defer s.Release()
	logDet, err := p.solver.LogDet.Estimate(b, y.Rows, congruence(b, p.preconditioner.power(s, -0.5), p.multiply),
		stream(p.solver.Seed, determinantStream))
	if err != nil {
		return linop.Estimate{}, fmt.Errorf("gp: log likelihood: %w", err)
	}
	return linop.Estimate{
		Value:  logLikelihood(y.Rows, b.Dot(y, p.alpha), p.preconditioner.logDet+logDet.Value),
		StdErr: logDet.StdErr / 2 / float64(y.Rows),
	}, nil
}

// FisherCore implements [Posterior].
func (p *iterativePosterior) FisherCore() (*mat.SymDense, error) {
	return p.core(p.multiply, p.solver.CG.Preconditioner)
}

// StateCore implements [Posterior].
func (p *iterativePosterior) StateCore() (*mat.SymDense, error) {
	s := compute.NewScope(p.backend)
	defer s.Release()
	near, err := newPreconditioner(s, p.state, p.kernel.Noise, min(stateRank, p.alpha.Rows),
		stream(p.solver.Seed, statePreconditionerStream))
	if err != nil {
		return nil, err
	}
	return p.core(linop.Products(linop.NewSum(p.backend, p.state, p.noise)), near.power(s, -1))
}

// core returns V'A^-1 V, with a preconditioner for A.
func (p *iterativePosterior) core(a linop.Multiply, near linop.Operator) (*mat.SymDense, error) {
	s := compute.NewScope(p.backend)
	defer s.Release()
	v, cg := p.data.Fisher, p.solver.CG
	cg.Preconditioner = near
	solved, small := s.New(v.Rows, v.Cols), s.New(v.Cols, v.Cols)
	if _, err := cg.SolveFunc(p.backend, a, solved, v); err != nil {
		return nil, err
	}
	p.backend.Gemm(true, false, 1, v, solved, 0, small)
	return linop.Symmetric(v.Cols, compute.ToSlice(p.backend, small)), nil
}
