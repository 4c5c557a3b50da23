package gp

import (
	"math"
	"math/rand/v2"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// preconditioner is P = Q diag(e) Q' + noise I, close to K = A + noise I, for leading
// eigenpairs (e, Q) of the kernel matrix A. Where they are all of A's that exceed the
// noise, conjugate gradients with P take a handful of iterations, whatever K's
// condition. (The authors' code takes a pivoted Cholesky factor of rank 50 of A.)
type preconditioner struct {
	vectors compute.Block  // Q, n × their number
	inverse linop.Operator // P^-1
	root    linop.Operator // P^-1/2
	logDet  float64        // log det P
}

// newPreconditioner finds eigenpairs of a, in s. The errors are those of
// linop.Nystrom.
func newPreconditioner(s *compute.Scope, a linop.Operator, noise float64, rank int, rng *rand.Rand) (*preconditioner, error) {
	eigen, err := linop.Nystrom(s, a, rank, rng)
	if err != nil {
		return nil, err
	}
	p := &preconditioner{vectors: eigen.Vectors}
	n, k := eigen.Vectors.Rows, len(eigen.Values)
	p.logDet = float64(n-k) * math.Log(noise)
	shares := make([]float64, k) // of the noise in P along Q
	for j, e := range eigen.Values {
		shares[j] = noise / (max(e, 0) + noise)
		p.logDet += math.Log(noise / shares[j])
	}
	p.inverse = p.function(s, 1/noise, func(share float64) float64 { return share }, shares)
	p.root = p.function(s, 1/math.Sqrt(noise), math.Sqrt, shares)
	return p, nil
}

// function is scale (Q diag(f(shares)) Q' + I - QQ').
func (p *preconditioner) function(s *compute.Scope, scale float64, f func(share float64) float64, shares []float64) linop.Operator {
	b, k := s.Backend(), len(shares)
	lost := make([]float64, k*k)
	for j, share := range shares {
		lost[j*k+j] = math.Sqrt(1 - f(share))
	}
	shrunk := s.New(p.vectors.Rows, k)
	b.Gemm(false, false, 1, p.vectors, s.FromSlice(k, k, lost), 0, shrunk)
	return linop.NewSum(b, linop.NewNoise(b, p.vectors.Rows, scale), linop.NewLowRank(b, -scale, shrunk))
}

// congruence is H A H for symmetric operators of one size.
type congruence struct {
	b    compute.Backend
	h, a linop.Operator
}

// Dims implements [linop.Operator].
func (c *congruence) Dims() (rows, cols int) { return c.a.Dims() }

// MulTo implements [linop.Operator].
func (c *congruence) MulTo(dst, x compute.Block, _ bool) {
	s := compute.NewScope(c.b)
	defer s.Release()
	product := linop.Mul(s, c.a, linop.Mul(s, c.h, x, false), false)
	c.h.MulTo(dst, product, false)
}
