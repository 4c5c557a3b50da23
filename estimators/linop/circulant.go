package linop

import (
	"math/bits"

	"gonum.org/v1/gonum/dsp/fourier"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// circulant is a symmetric Toeplitz matrix of order n as the corner of a circulant one
// of order m >= 2n-1, whose first column is
//
//	t_0, t_1, ..., t_n-1, 0, ..., 0, t_n-1, ..., t_1.
//
// The discrete Fourier transform F diagonalises it, C = F^-1 diag(F c) F, and as it is
// symmetric its eigenvalues F c are real. So one complex transform there and back
// multiplies two real columns x and y, as x + iy. The transforms run on the host.
type circulant struct {
	b           compute.Backend
	n           int
	eigenvalues []float64 // over m, the transforms' factor
	transform   *fourier.CmplxFFT
	sequence    []complex128 // of m, for work
}

func newCirculant(b compute.Backend, t []float64) *circulant {
	n := len(t)
	m := 1 << bits.Len(uint(2*n-2)) // powers of two are the fastest
	c := &circulant{b: b, n: n, eigenvalues: make([]float64, m),
		transform: fourier.NewCmplxFFT(m), sequence: make([]complex128, m)}
	for i, v := range t {
		c.sequence[i] = complex(v, 0)
		c.sequence[(m-i)%m] = complex(v, 0)
	}
	c.transform.Coefficients(c.sequence, c.sequence)
	for i, v := range c.sequence {
		c.eigenvalues[i] = real(v) / float64(m)
	}
	return c
}

// Dims implements [Operator].
func (c *circulant) Dims() (rows, cols int) { return c.n, c.n }

// MulTo implements [Operator].
func (c *circulant) MulTo(dst, x compute.Block, trans bool) {
	checkMul("Toeplitz", c, dst, x, trans)
	k := x.Cols
	values := compute.ToSlice(c.b, x)
	for j := 0; j < k; j += 2 {
		c.mulPair(values, j, k)
	}
	c.b.Upload(dst, values)
}

// mulPair multiplies columns j and j+1 of the row-major n × k values in place.
func (c *circulant) mulPair(values []float64, j, k int) {
	pair := j+1 < k
	clear(c.sequence[c.n:])
	for i := range c.n {
		c.sequence[i] = complex(values[i*k+j], 0)
		if pair {
			c.sequence[i] += complex(0, values[i*k+j+1])
		}
	}
	c.transform.Coefficients(c.sequence, c.sequence)
	for i, e := range c.eigenvalues {
		c.sequence[i] = complex(e*real(c.sequence[i]), e*imag(c.sequence[i]))
	}
	c.transform.Sequence(c.sequence, c.sequence)
	for i := range c.n {
		values[i*k+j] = real(c.sequence[i])
		if pair {
			values[i*k+j+1] = imag(c.sequence[i])
		}
	}
}
