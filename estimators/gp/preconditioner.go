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
	logDet  float64        // log det P

	root, inverseRoot linop.Operator // P^1/2, P^-1/2
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
	power := func(exponent float64) linop.Operator { return p.power(s, noise, exponent, shares) }
	p.inverse, p.root, p.inverseRoot = power(-1), power(0.5), power(-0.5)
	return p, nil
}

// power is P^a = noise^a (Q diag(shares^-a) Q' + I - QQ').
func (p *preconditioner) power(s *compute.Scope, noise, a float64, shares []float64) linop.Operator {
	b, k := s.Backend(), len(shares)
	change := make([]float64, k*k)
	for j, share := range shares {
		change[j*k+j] = math.Sqrt(math.Abs(math.Pow(share, -a) - 1))
	}
	changed := s.New(p.vectors.Rows, k)
	b.Gemm(false, false, 1, p.vectors, s.FromSlice(k, k, change), 0, changed)
	scale := math.Pow(noise, a)
	return linop.NewSum(b, linop.NewNoise(b, p.vectors.Rows, scale), linop.NewLowRank(b, math.Copysign(scale, a), changed))
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
