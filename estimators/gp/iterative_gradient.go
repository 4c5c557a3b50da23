package gp

import (
	"math"
	"math/rand/v2"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// Gradient implements [Posterior]. Its traces are, with the preconditioner
// P = Q diag(e) Q' + noise I,
//
//	tr K^-1 A = tr P^-1 A + tr (P^1/2 K^-1 P^1/2 - I) (P^-1/2 A P^-1/2)
//
// The first term needs no solution with K. It is exact over the eigenvectors Q. Beyond them,
// where A is small, it is estimated with random vectors w uniform on the sphere, so that the
// noise, by far the largest part of K there, does not add to the variance (as in Hutch++;
// Meyer, Musco, Musco and Woodruff 2021). The second term, which is small if P is close to K,
// is estimated with random vectors g that share w.
func (p *iterativePosterior) Gradient(features compute.Block) (Hyper, error) {
	s := compute.NewScope(p.backend)
	defer s.Release()
	b, n, q, m := p.backend, p.alpha.Rows, p.preconditioner.vectors, p.solver.Probes
	rng := stream(p.solver.Seed, traceStream)
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

// drawProbes fills w (n × m) with random vectors for which the mean of ww' is I - QQ'.
func (p *iterativePosterior) drawProbes(w compute.Block, rng *rand.Rand) {
	b, q := p.backend, p.preconditioner.vectors
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

// gradient returns 1/2 <alpha alpha' - K^-1, dK> / n with xx' for the identity in the first
// trace and gg' for that in the second: the derivative of the bilinear form
// 1/2 sum_j u_j'K v_j of the columns of
//
//	u = [alpha, -P^-1 x, (P^-1 - K^-1) P^1/2 g],  v = [alpha, x, P^-1/2 g]
func (p *iterativePosterior) gradient(features, x, g compute.Block) (Hyper, error) {
	s := compute.NewScope(p.backend)
	defer s.Release()
	b, n, columns := p.backend, p.alpha.Rows, 1+x.Cols+g.Cols
	u, v, solved := s.New(n, columns), s.New(n, columns), s.New(n, g.Cols)
	if err := p.solve(solved, linop.Mul(s, p.preconditioner.power(s, 0.5), g, false)); err != nil {
		return Hyper{}, err
	}
	compute.Copy(b, u.Col(0), p.alpha)
	compute.Copy(b, v.Col(0), p.alpha)
	compute.Copy(b, v.ColRange(1, 1+x.Cols), x)
	p.solver.CG.Preconditioner.MulTo(u.ColRange(1, 1+x.Cols), x, false)
	compute.Scale(b, -1, u.ColRange(1, 1+x.Cols))
	probed := v.ColRange(1+x.Cols, columns)
	p.preconditioner.power(s, -0.5).MulTo(probed, g, false)
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
