package gp

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// Iterative conditions the process in the paper's way, through products with K alone:
// preconditioned conjugate gradients for the solutions, stochastic Lanczos quadrature
// for the log determinant, probe vectors for the traces. LogLikelihood and Gradient
// are estimates, close ones where the preconditioner's rank is that of the kernels;
// Alpha and the cores are exact, to CG's tolerance. The zero value is ready to use.
type Iterative struct {
	// FisherKernel is K_f by exact products; nil means n V V'. V then serves the cores
	// alone.
	FisherKernel *FisherKernel
	// CG solves with K; zero fields stand for 1000 iterations and the squared residual
	// 1e-18, or 1e-12 with a [FisherKernel], whose products have errors of their own.
	CG     linop.CG
	LogDet linop.LogDet // zero fields: 10 probes, 20 steps
	Rank   int          // of the preconditioner; 0 means 150 + that of the Fisher kernel's leading part, or n if that is less
	Probes int          // random vectors for the traces; 0 means 10
	// Seed is that of all that is random. Fits with one seed draw the same random vectors,
	// and their estimates are off in the same direction: a run that fits many batches
	// derives one for each from its own seed and the iteration.
	Seed uint64
}

// withDefaults fills in the zero fields for a batch.
func (i Iterative) withDefaults(d Data) Iterative {
	defaults := func(x *int, value int) {
		if *x == 0 {
			*x = value
		}
	}
	defaults(&i.CG.MaxIterations, 1000)
	fisher := d.Fisher
	if i.FisherKernel != nil {
		fisher = i.FisherKernel.leading
	}
	defaults(&i.Rank, min(stateRank+fisher.Cols, fisher.Rows))
	defaults(&i.Probes, 10)
	if i.CG.Tolerance == 0 {
		i.CG.Tolerance = 1e-18
		if i.FisherKernel != nil {
			i.CG.Tolerance = 1e-12
		}
	}
	return i
}

// stateRank is the number of eigenvectors of K_s to precondition with, more than the
// noise leaves to find of a smooth kernel.
const stateRank = 150

// The random streams of a fit. Each use has its own, so that no result depends on what
// was asked for before it.
const (
	preconditionerStream = iota
	statePreconditionerStream
	determinantStream
	traceStream
)

func (i Iterative) random(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(i.Seed, stream)) }

// iterativePosterior is what Iterative.Fit returns.
type iterativePosterior struct {
	inputs
	solver Iterative
	state  *linop.Interp    // c1 K_s
	slopes []linop.Operator // its derivatives in the base kernel's hyperparameters
	noise  linop.Operator
	alpha  compute.Block

	leading linop.Operator  // all of kappa K_f without a FisherKernel, with one its leading part
	inner   *preconditioner // of K with that
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
	p.state, p.slopes = k.stateOperators(s, p.scaled)
	p.leading = linop.NewLowRank(b, k.fisherScale(n), d.Fisher)
	if i.FisherKernel != nil {
		p.leading = linop.NewLowRank(b, k.FisherWeight(), i.FisherKernel.leading)
	}
	p.noise = linop.NewScaledIdentity(b, n, k.Noise)
	p.alpha = s.New(n, 1)
	if p.inner, err = newPreconditioner(s, linop.NewSum(b, p.state, p.leading), k.Noise, p.solver.Rank, p.solver.random(preconditionerStream)); err != nil {
		return nil, err
	}
	p.solver.CG.Preconditioner = p.inner.power(s, -1)
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

// LogLikelihood implements [Posterior]. It takes log det K as log det P +
// log det P^-1/2 K P^-1/2 with the preconditioner P, and the standard error is that of the
// second. The error is that of the determinant's estimate.
func (p *iterativePosterior) LogLikelihood() (linop.Estimate, error) {
	b, y := p.backend, p.data.Targets
	s := compute.NewScope(b)
	defer s.Release()
	logDet, err := p.solver.LogDet.Estimate(b, y.Rows, congruence(b, p.inner.power(s, -0.5), p.multiply), p.solver.random(determinantStream))
	if err != nil {
		return linop.Estimate{}, fmt.Errorf("gp: log likelihood: %w", err)
	}
	return linop.Estimate{
		Value:  logLikelihood(y.Rows, b.Dot(y, p.alpha), p.inner.logDet+logDet.Value),
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
	near, err := newPreconditioner(s, p.state, p.kernel.Noise, min(stateRank, p.alpha.Rows), p.solver.random(statePreconditionerStream))
	if err != nil {
		return nil, err
	}
	return p.core(linop.Products(linop.NewSum(p.backend, p.state, p.noise)), near.power(s, -1))
}

// core is V'A^-1 V, with a preconditioner for A.
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
	return symmetric(v.Cols, compute.ToSlice(p.backend, small)), nil
}

// Gradient implements [Posterior]. Its traces are, with the preconditioner
// P = Q diag(e) Q' + noise I,
//
//	tr K^-1 A = tr P^-1 A + tr (P^1/2 K^-1 P^1/2 - I) (P^-1/2 A P^-1/2)
//
// The first takes no solution: it is exact over the eigenvectors Q and, beyond them,
// where A is small, estimated with random vectors w uniform on the sphere, so that the
// noise, far the largest part of K there, does not add to the variance (as Hutch++;
// Meyer, Musco, Musco and Woodruff 2021). The second, small where P is close to K, is
// estimated with random vectors g that share w.
func (p *iterativePosterior) Gradient(features compute.Block) (Hyper, error) {
	s := compute.NewScope(p.backend)
	defer s.Release()
	b, n, q, m := p.backend, p.alpha.Rows, p.inner.vectors, p.solver.Probes
	rng := p.solver.random(traceStream)
	x, g := s.New(n, q.Cols+m), s.New(n, m)
	compute.Copy(b, x.ColRange(0, q.Cols), q)
	w := x.ColRange(q.Cols, q.Cols+m)
	p.drawProbes(w, rng)
	signs := make([]float64, q.Cols*m)
	for i := range signs {
		signs[i] = math.Copysign(1/math.Sqrt(float64(m)), float64(rng.IntN(2))-0.5)
	}
	compute.Copy(b, g, w)
	b.Gemm(false, false, 1, q, s.FromSlice(q.Cols, m, signs), 1, g)
	return p.gradient(features, x, g)
}

// drawProbes fills w (n × m) with random vectors such that ww' is I - QQ' on average.
func (p *iterativePosterior) drawProbes(w compute.Block, rng *rand.Rand) {
	b, q := p.backend, p.inner.vectors
	s := compute.NewScope(b)
	defer s.Release()
	random := make([]float64, w.Rows*w.Cols)
	for i := range random {
		random[i] = rng.NormFloat64()
	}
	b.Upload(w, random)
	overlap := s.New(q.Cols, w.Cols)
	b.Gemm(true, false, 1, q, w, 0, overlap)
	b.Gemm(false, false, -1, q, overlap, 1, w)
	length := float64(w.Rows-q.Cols) / float64(w.Cols)
	for j := range w.Cols {
		compute.Scale(b, math.Sqrt(length/b.Dot(w.Col(j), w.Col(j))), w.Col(j))
	}
}

// gradient is 1/2 <alpha alpha' - K^-1, dK> / n with xx' for the identity in the first
// trace and gg' for that in the second: the derivative of the bilinear form
// 1/2 sum_j u_j'K v_j of the columns of
//
//	u = [alpha, -P^-1 x, (P^-1 - K^-1) P^1/2 g],  v = [alpha, x, P^-1/2 g]
func (p *iterativePosterior) gradient(features, x, g compute.Block) (Hyper, error) {
	s := compute.NewScope(p.backend)
	defer s.Release()
	b, n, columns := p.backend, p.alpha.Rows, 1+x.Cols+g.Cols
	u, v, solved := s.New(n, columns), s.New(n, columns), s.New(n, g.Cols)
	if err := p.solve(solved, linop.Mul(s, p.inner.power(s, 0.5), g, false)); err != nil {
		return Hyper{}, err
	}
	compute.Copy(b, u.Col(0), p.alpha)
	compute.Copy(b, v.Col(0), p.alpha)
	compute.Copy(b, v.ColRange(1, 1+x.Cols), x)
	p.solver.CG.Preconditioner.MulTo(u.ColRange(1, 1+x.Cols), x, false)
	compute.Scale(b, -1, u.ColRange(1, 1+x.Cols))
	probed := v.ColRange(1+x.Cols, columns)
	p.inner.power(s, -0.5).MulTo(probed, g, false)
	compute.Copy(b, u.ColRange(1+x.Cols, columns), probed) // P^-1 P^1/2 g
	compute.Axpy(b, -1, solved, u.ColRange(1+x.Cols, columns))

	if features.Rows > 0 {
		p.state.BilinearGradient(features, u, v)
		compute.Scale(b, 1/float64(2*n), features)
		p.scaling.Backward(b, features, p.scaled)
	}
	return p.hyperGradient(u, v, solved, probed)
}

// hyperGradient takes the bilinear form's derivatives in the hyperparameters. What the
// Fisher kernel has beyond its leading part takes the plain estimate of its trace, with
// the last columns alone, solved = K^-1 P^1/2 g and probed = P^-1/2 g: a product with
// all of them would cost more than the solution did.
func (p *iterativePosterior) hyperGradient(u, v, solved, probed compute.Block) (Hyper, error) {
	b, half := p.backend, 1/float64(2*p.alpha.Rows)
	form := func(a linop.Operator, u, v compute.Block) float64 {
		s := compute.NewScope(b)
		defer s.Release()
		return half * b.Dot(u, linop.Mul(s, a, v, false))
	}
	h := Hyper{
		OutputScale:    form(p.state, u, v) / p.kernel.OutputScale,
		FisherVariance: form(p.leading, u, v) / p.kernel.FisherVariance,
		Noise:          form(p.noise, u, v) / p.kernel.Noise,
	}
	for _, slope := range p.slopes {
		h.Base = append(h.Base, form(slope, u, v))
	}
	if p.solver.FisherKernel == nil {
		return h, nil
	}
	rest := func(u, v compute.Block) (float64, error) {
		s := compute.NewScope(b)
		defer s.Release()
		product := s.New(v.Rows, v.Cols)
		err := p.multiplyFisher(product, v)
		compute.Axpy(b, -1, linop.Mul(s, p.leading, v, false), product)
		return half * b.Dot(u, product), err
	}
	fit, err := rest(p.alpha, p.alpha)
	if err != nil {
		return h, err
	}
	trace, err := rest(solved, probed)
	h.FisherVariance += (fit - trace) / p.kernel.FisherVariance
	return h, err
}

// symmetric is the symmetric part of the row-major k × k matrix a.
func symmetric(k int, a []float64) *mat.SymDense {
	m := mat.NewSymDense(k, nil)
	for i := range k {
		for j := i; j < k; j++ {
			m.SetSym(i, j, (a[i*k+j]+a[j*k+i])/2)
		}
	}
	return m
}
