// Package cholesky factorises on a backend the r × r matrix M = noise I + B'B of the Gaussian
// process's closed form (package gp).
package cholesky

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// Factor is the upper triangular factor R of M = R'R, on a backend. The host factorises the
// diagonal blocks; the rest consists of matrix products, which use all cores for a rough kernel
// (order 1,300), and M does not leave the backend.
type Factor struct {
	backend compute.Backend
	// factor holds R above its diagonal blocks, and the inverses of these blocks. The
	// elements below are undefined.
	factor   compute.Block
	width    int       // order of the diagonal blocks, except the last
	diagonal []float64 // diagonal of R
}

// The order of a diagonal block. The host's work takes r width² operations, and narrower
// blocks make the products slow. A matrix of order up to oneBlock is a single block, on which
// the host is as fast.
const (
	blockWidth = 128
	oneBlock   = 384
)

// worstCondition is the condition number of M beyond which solutions have no correct digits.
// It is estimated as the ratio of M's largest element to the noise, which bound its
// eigenvalues: where the noise is negligible beside B'B, (y - B c)/noise has no correct digits.
const worstCondition = 1e15

// Factorize returns the factor of M = noise I + gram, allocated in s. It uses only the elements
// on and above the diagonal of gram, whose eigenvalues must be non-negative up to rounding. The
// error is a [*NotPositiveDefiniteError].
func Factorize(s *compute.Scope, gram compute.Block, noise float64) (Factor, error) {
	b, r := s.Backend(), gram.Rows
	e := &NotPositiveDefiniteError{Size: r, Noise: noise}
	for _, x := range compute.ToSlice(b, gram.Diagonal()) {
		e.LargestElement = math.Max(e.LargestElement, x+noise) // NaN stays
	}
	if !(e.LargestElement < worstCondition*noise) {
		return Factor{}, e
	}
	width := blockWidth
	if r <= oneBlock {
		width = r
	}
	c := Factor{backend: b, factor: s.New(r, r), width: width}
	if !c.factorize(gram, noise) {
		return Factor{}, e
	}
	return c, nil
}

// factorize finds the factor of noise I + gram, row after row of blocks (the left-looking
// order: Golub and Van Loan 2013, section 4.2),
//
//	R_kk'R_kk = M_kk - sum_i<k R_ik'R_ik,  R_kj = R_kk^-T (M_kj - sum_i<k R_ik'R_ij)
//
// and reports whether it exists.
func (c *Factor) factorize(gram compute.Block, noise float64) (ok bool) {
	b, r := c.backend, c.factor.Rows
	scratch := compute.NewScope(b)
	defer scratch.Release()
	rows := scratch.New(c.width, r)
	for k := range c.blocks() {
		lo, hi := c.block(k)
		row, left := rows.View(0, hi-lo, lo, r), hi-lo
		compute.Copy(b, row, gram.View(lo, hi, lo, r))
		diagonal := row.ColRange(0, left).Diagonal()
		b.Affine(diagonal, 1, diagonal, 0, noise)
		if lo > 0 {
			above := c.factor.RowRange(0, lo)
			b.Gemm(true, false, -1, above.ColRange(lo, hi), above.ColRange(lo, r), 1, row)
		}
		if !c.factorizeBlock(c.inverted(k), row.ColRange(0, left)) {
			return false
		}
		if hi < r {
			b.Gemm(true, false, 1, c.inverted(k), row.ColRange(left, r-lo), 0, c.right(k))
		}
	}
	return true
}

// factorizeBlock sets inverse to R^-1 with R'R = m, appends the diagonal of R to diagonal, and
// reports whether R exists.
func (c *Factor) factorizeBlock(inverse, m compute.Block) (ok bool) {
	n := m.Rows
	x := compute.ToSlice(c.backend, m)
	upper, ok := lapack64.Potrf(blas64.Symmetric{N: n, Stride: n, Data: x, Uplo: blas.Upper})
	if !ok {
		return false
	}
	for i := range n {
		c.diagonal = append(c.diagonal, x[i*n+i])
		clear(x[i*n : i*n+i])
	}
	lapack64.Trtri(upper)
	c.backend.Upload(inverse, x)
	return true
}

// blocks returns the number of diagonal blocks.
func (c Factor) blocks() int { return (c.factor.Rows + c.width - 1) / c.width }

// block returns the range of rows of diagonal block k.
func (c Factor) block(k int) (lo, hi int) { return k * c.width, min((k+1)*c.width, c.factor.Rows) }

// inverted returns R_kk^-1.
func (c Factor) inverted(k int) compute.Block {
	lo, hi := c.block(k)
	return c.factor.View(lo, hi, lo, hi)
}

// right returns R to the right of diagonal block k.
func (c Factor) right(k int) compute.Block {
	lo, hi := c.block(k)
	return c.factor.View(lo, hi, hi, c.factor.Cols)
}

// Leading returns the factor of the first n rows and columns of M.
func (c Factor) Leading(n int) Factor {
	c.factor, c.diagonal = c.factor.View(0, n, 0, n), c.diagonal[:n]
	return c
}

// LogDet returns log det M.
func (c Factor) LogDet() (sum float64) {
	for _, x := range c.diagonal {
		sum += 2 * math.Log(x)
	}
	return sum
}

// Solve sets x to M^-1 x.
func (c Factor) Solve(x compute.Block) {
	c.Whiten(x)
	for k := c.blocks() - 1; k >= 0; k-- {
		lo, hi := c.block(k)
		if hi < x.Rows {
			c.backend.Gemm(false, false, -1, c.right(k), x.RowRange(hi, x.Rows), 1, x.RowRange(lo, hi))
		}
		c.multiply(false, k, x.RowRange(lo, hi))
	}
}

// Whiten sets x to R'^-1 x, whose Gram matrix is x'M^-1 x.
func (c Factor) Whiten(x compute.Block) {
	for k := range c.blocks() {
		lo, hi := c.block(k)
		c.multiply(true, k, x.RowRange(lo, hi))
		if hi < x.Rows {
			c.backend.Gemm(true, false, -1, c.right(k), x.RowRange(lo, hi), 1, x.RowRange(hi, x.Rows))
		}
	}
}

// multiply sets x to R_kk^-1 x, or with the transpose.
func (c Factor) multiply(transposed bool, k int, x compute.Block) {
	s := compute.NewScope(c.backend)
	defer s.Release()
	product := s.New(x.Rows, x.Cols)
	c.backend.Gemm(transposed, false, 1, c.inverted(k), x, 0, product)
	compute.Copy(c.backend, x, product)
}

// Root returns the upper triangular R^-1, allocated in s. Column after column of blocks,
//
//	(R^-1)_ik = -(sum_i<=j<k (R^-1)_ij R_jk) R_kk^-1
//
// Each is added to the sums for the columns to its right as soon as it is known.
func (c Factor) Root(s *compute.Scope) compute.Block {
	b, r := c.backend, c.factor.Rows
	root := s.New(r, r)
	scratch := compute.NewScope(b)
	defer scratch.Release()
	columns := scratch.New(r, c.width)
	for k := range c.blocks() {
		lo, hi := c.block(k)
		compute.Fill(b, root.RowRange(lo, hi), 0)
		compute.Copy(b, root.View(lo, hi, lo, hi), c.inverted(k))
		if lo > 0 {
			sums := columns.View(0, lo, 0, hi-lo)
			compute.Copy(b, sums, root.View(0, lo, lo, hi))
			b.Gemm(false, false, -1, sums, c.inverted(k), 0, root.View(0, lo, lo, hi))
		}
		if hi < r {
			b.Gemm(false, false, 1, root.View(0, hi, lo, hi), c.right(k), 1, root.View(0, hi, hi, r))
		}
	}
	return root
}

// Inverse returns M^-1 = R^-1 R^-T, allocated in s. It replaces R^-1 column after column of
// blocks, as no column needs those to its left.
func (c Factor) Inverse(s *compute.Scope) compute.Block {
	b, r := c.backend, c.factor.Rows
	x := c.Root(s)
	scratch := compute.NewScope(b)
	defer scratch.Release()
	columns, eye := scratch.New(r, c.width), scratch.Identity(c.width)
	for k := range c.blocks() {
		lo, hi := c.block(k)
		column := columns.View(0, hi, 0, hi-lo)
		b.Gemm(false, true, 1, x.View(0, hi, lo, r), x.View(lo, hi, lo, r), 0, column)
		compute.Copy(b, x.View(0, hi, lo, hi), column)
		if lo > 0 { // M^-1 is symmetric
			b.Gemm(false, true, 1, eye.View(0, hi-lo, 0, hi-lo), column.RowRange(0, lo), 0, x.View(lo, hi, 0, lo))
		}
	}
	return x
}

// NotPositiveDefiniteError reports that the matrix M = noise I + B'B has no Cholesky
// factor in float64: the noise is too small beside the kernel.
type NotPositiveDefiniteError struct {
	Size           int     // order of M
	Noise          float64 // the smallest eigenvalue that M should have
	LargestElement float64 // largest element of M's diagonal; NaN or infinite if M overflowed
}

// Error implements error.
func (e *NotPositiveDefiniteError) Error() string {
	return fmt.Sprintf("gp: the %d × %d kernel matrix is not positive definite in float64: its diagonal reaches %.3g "+
		"and the noise is %.3g; raise the noise",
		e.Size, e.Size, e.LargestElement, e.Noise)
}
