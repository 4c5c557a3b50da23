package gp

import (
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
// Alpha and the cores are exact. The zero value is ready to use.
type Iterative struct {
	CG     linop.CG     // zero fields: 1000 iterations, squared residual 1e-18
	LogDet linop.LogDet // zero fields: 10 probes, 20 steps
	Rank   int          // of the preconditioner; 0 means 150 + k, or n if that is less
	Probes int          // random vectors for the traces; 0 means 10
	Seed   uint64       // of all that is random
}

// withDefaults fills in the zero fields for n samples and k Fisher vectors.
func (i Iterative) withDefaults(n, k int) Iterative {
	defaults := func(x *int, value int) {
		if *x == 0 {
			*x = value
		}
	}
	defaults(&i.CG.MaxIterations, 1000)
	defaults(&i.Rank, min(150+k, n))
	defaults(&i.Probes, 10)
	if i.CG.Tolerance == 0 {
		i.CG.Tolerance = 1e-18
	}
	return i
}

// iterativePosterior is what Iterative.Fit returns.
type iterativePosterior struct {
	inputs
	solver Iterative
	random *rand.Rand
	state  linop.Operator  // c1 K_s
	slope  linop.Operator  // its derivative in l
	grid   *linop.Toeplitz // c1 c_o R
	fisher linop.Operator  // c2 K_f
	noise  linop.Operator
	inner  *preconditioner
	alpha  compute.Block
	value  float64
}

// Fit implements [Solver].
func (i Iterative) Fit(s *compute.Scope, k Kernel, d Data) (Posterior, error) {
	in, err := prepare(s, k, d)
	if err != nil {
		return nil, err
	}
	b, n, g := s.Backend(), d.Features.Rows, grid()
	p := &iterativePosterior{inputs: in, solver: i.withDefaults(n, d.Fisher.Cols), random: rand.New(rand.NewPCG(i.Seed, 0))}
	column, slope := k.column(g)
	for point := range column {
		column[point] *= k.C1 * k.OutputScale
		slope[point] *= k.C1 * k.OutputScale
	}
	p.grid = linop.NewToeplitz(s, column)
	p.state = linop.NewInterp(b, p.scaled, g, p.grid)
	p.slope = linop.NewInterp(b, p.scaled, g, linop.NewToeplitz(s, slope))
	p.fisher = linop.NewLowRank(b, k.fisherScale(n), d.Fisher)
	p.noise = linop.NewNoise(b, n, k.Noise)
	p.alpha = s.New(n, 1)
	if p.inner, err = newPreconditioner(s, linop.NewSum(b, p.state, p.fisher), k.Noise, p.solver.Rank, p.random); err != nil {
		return nil, err
	}
	p.solver.CG.Preconditioner = p.inner.inverse
	if err := p.solve(); err != nil {
		return nil, err
	}
	return p, nil
}

// matrix is K.
func (p *iterativePosterior) matrix() linop.Operator {
	return linop.NewSum(p.backend, p.state, p.fisher, p.noise)
}

// solve finds alpha and the log likelihood, log det K by way of
// log det P + log det P^-1/2 K P^-1/2 with the preconditioner P.
func (p *iterativePosterior) solve() error {
	b, y := p.backend, p.data.Targets
	if _, err := p.solver.CG.Solve(b, p.matrix(), p.alpha, y); err != nil {
		return err
	}
	logDet, err := p.solver.LogDet.Estimate(b, &congruence{b, p.inner.root, p.matrix()}, p.random)
	if err != nil {
		return err
	}
	p.value = logLikelihood(y.Rows, b.Dot(y, p.alpha), p.inner.logDet+logDet.Value)
	return nil
}

// Alpha implements [Posterior].
func (p *iterativePosterior) Alpha() compute.Block { return p.alpha }

// LogLikelihood implements [Posterior].
func (p *iterativePosterior) LogLikelihood() float64 { return p.value }

// FisherCore implements [Posterior].
func (p *iterativePosterior) FisherCore() (*mat.SymDense, error) { return p.core(p.matrix()) }

// StateCore implements [Posterior].
func (p *iterativePosterior) StateCore() (*mat.SymDense, error) {
	return p.core(linop.NewSum(p.backend, p.state, p.noise))
}

// core is V'A^-1 V.
func (p *iterativePosterior) core(a linop.Operator) (*mat.SymDense, error) {
	s := compute.NewScope(p.backend)
	defer s.Release()
	v := p.data.Fisher
	solved, small := s.New(v.Rows, v.Cols), s.New(v.Cols, v.Cols)
	if _, err := p.solver.CG.Solve(p.backend, a, solved, v); err != nil {
		return nil, err
	}
	p.backend.Gemm(true, false, 1, v, solved, 0, small)
	return symmetric(v.Cols, compute.ToSlice(p.backend, small)), nil
}

// Gradient implements [Posterior]. Its traces are tr A = tr Q'AQ + tr (I-QQ')A(I-QQ')
// with the preconditioner's eigenvectors Q, and only the second of these, which is
// small, by random vectors (Hutch++; Meyer, Musco, Musco and Woodruff 2021). They are
// uniform on the sphere, so that the noise, far the largest part of K there, does not
// add to the variance.
func (p *iterativePosterior) Gradient(features compute.Block) (Hyper, error) {
	s := compute.NewScope(p.backend)
	defer s.Release()
	n, q := p.alpha.Rows, p.inner.vectors
	m := min(p.solver.Probes, n-q.Cols)
	probes := s.New(n, q.Cols+m)
	p.backend.Copy(probes.ColRange(0, q.Cols), q)
	if m > 0 {
		p.drawProbes(probes.ColRange(q.Cols, q.Cols+m))
	}
	return p.gradient(features, probes)
}

// drawProbes fills w (n × m) with random vectors such that ww' is I - QQ' on average.
func (p *iterativePosterior) drawProbes(w compute.Block) {
	b, q := p.backend, p.inner.vectors
	s := compute.NewScope(b)
	defer s.Release()
	random := make([]float64, w.Rows*w.Cols)
	for i := range random {
		random[i] = p.random.NormFloat64()
	}
	b.Upload(w, random)
	overlap := s.New(q.Cols, w.Cols)
	b.Gemm(true, false, 1, q, w, 0, overlap)
	b.Gemm(false, false, -1, q, overlap, 1, w)
	length := float64(w.Rows-q.Cols) / float64(w.Cols)
	for j := range w.Cols {
		b.Scale(math.Sqrt(length/b.Dot(w.Col(j), w.Col(j))), w.Col(j))
	}
}

// gradient is 1/2 <alpha alpha' - K^-1, dK> / n with the sum of w w' over the probes w
// for the identity that follows K^-1: the derivative of the bilinear form
// 1/2 sum_j u_j'K v_j of the columns of
//
//	[u_j] = [alpha, -K^-1 w_1, -K^-1 w_2, ...],  [v_j] = [alpha, w_1, w_2, ...]
func (p *iterativePosterior) gradient(features, probes compute.Block) (Hyper, error) {
	compute.SameShape("the gradient in the features", p.scaled, features)
	s := compute.NewScope(p.backend)
	defer s.Release()
	b, n, columns := p.backend, p.alpha.Rows, 1+probes.Cols
	u, v, product := s.New(n, columns), s.New(n, columns), s.New(n, columns)
	b.Copy(u.Col(0), p.alpha)
	b.Copy(v.Col(0), p.alpha)
	b.Copy(v.ColRange(1, columns), probes)
	solved := u.ColRange(1, columns)
	if _, err := p.solver.CG.Solve(b, p.matrix(), solved, probes); err != nil {
		return Hyper{}, err
	}
	b.Scale(-1, solved)

	p.featureGradient(features, u, v)
	b.Scale(1/float64(2*n), features)
	p.scaling.Backward(b, features, p.scaled)
	form := func(a linop.Operator) float64 {
		a.MulTo(product, v, false)
		return b.Dot(u, product) / 2 / float64(n)
	}
	return Hyper{
		Lengthscale:    form(p.slope),
		OutputScale:    form(p.state) / p.kernel.OutputScale,
		FisherVariance: form(p.fisher) / p.kernel.FisherVariance,
		Noise:          form(p.noise) / p.kernel.Noise,
	}, nil
}

// featureGradient sets dst (n × d) to the derivative of sum_j u_j'(c1 K_s)v_j in the
// scaled features: column j of K_s is W_j R W_j', and both of its factors W_j move.
func (p *iterativePosterior) featureGradient(dst, u, v compute.Block) {
	b, g := p.backend, grid()
	s := compute.NewScope(b)
	defer s.Release()
	onGrid, table := s.New(g.Size, u.Cols), s.New(g.Size, u.Cols)
	other := s.New(dst.Rows, 1)
	half := func(out, z, x, y compute.Block) {
		b.InterpolateTrans(onGrid, z, x, g)
		p.grid.MulTo(table, onGrid, false)
		b.InterpolateGrad(out, z, table, y, g)
	}
	for j := range dst.Cols {
		half(dst.Col(j), p.scaled.Col(j), u, v)
		half(other, p.scaled.Col(j), v, u)
		b.Axpy(1, other, dst.Col(j))
	}
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
