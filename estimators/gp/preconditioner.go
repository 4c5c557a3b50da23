package gp

import (
	"math"
	"math/rand/v2"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// The random streams of a fit. Each use has a stream of its own, so that results do not depend
// on earlier requests.
const (
	preconditionerStream = iota
	statePreconditionerStream
	determinantStream
	traceStream
)

// stream returns the random stream for one use of a seed.
func stream(seed, use uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, use)) }

// preconditioner is P = Q diag(e) Q' + noise I, close to K = A + noise I, for leading
// eigenpairs (e, Q) of the kernel matrix A. If they include all eigenvalues above the noise,
// conjugate gradients with P take a handful of iterations, whatever the condition number of K.
// (The authors' code uses a pivoted Cholesky factor of A of rank 50.)
type preconditioner struct {
	vectors compute.Block // Q, n × their number
	noise   float64
	shares  []float64 // share of the noise in P along each column of Q
	logDet  float64   // log det P
}

// newPreconditioner computes eigenpairs of a, allocated in s. The errors are those of
// linop.Nystrom.
func newPreconditioner(s *compute.Scope, a linop.Operator, noise float64, rank int, rng *rand.Rand) (*preconditioner,
	error) {
	eigen, err := linop.Nystrom(s, a, rank, rng)
	if err != nil {
		return nil, err
	}
	n, k := eigen.Vectors.Rows, len(eigen.Values)
	p := &preconditioner{vectors: eigen.Vectors, noise: noise, shares: make([]float64, k)}
	p.logDet = float64(n-k) * math.Log(noise)
	for j, e := range eigen.Values {
		p.shares[j] = noise / (max(e, 0) + noise)
		p.logDet += math.Log(noise / p.shares[j])
	}
	return p, nil
}

// power returns P^a = noise^a (Q diag(shares^-a) Q' + I - QQ'), with its blocks in s.
func (p *preconditioner) power(s *compute.Scope, a float64) linop.Operator {
	changed := p.scaledVectors(s, func(share float64) float64 { return math.Sqrt(math.Abs(math.Pow(share, -a) - 1)) })
	b, scale := s.Backend(), math.Pow(p.noise, a)
	return linop.NewSum(b, linop.NewScaledIdentity(b, changed.Rows, scale),
		linop.NewLowRank(b, math.Copysign(scale, a), changed))
}

// scaledVectors returns Q diag(f(shares)).
func (p *preconditioner) scaledVectors(s *compute.Scope, f func(share float64) float64) compute.Block {
	k := len(p.shares)
	diagonal := make([]float64, k)
	for j, share := range p.shares {
		diagonal[j] = f(share)
	}
	scaled := s.New(p.vectors.Rows, k)
	s.Backend().Gemm(false, false, 1, p.vectors, s.Diagonal(diagonal), 0, scaled)
	return scaled
}

// congruence returns H A H for symmetric matrices of the same size.
func congruence(b compute.Backend, h linop.Operator, a linop.Multiply) linop.Multiply {
	return func(dst, x compute.Block) error {
		s := compute.NewScope(b)
		defer s.Release()
		product := s.New(x.Rows, x.Cols)
		if err := a(product, linop.Mul(s, h, x, false)); err != nil {
			return err
		}
		h.MulTo(dst, product, false)
		return nil
	}
}
