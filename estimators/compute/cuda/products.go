//go:build gpu

package cuda

import (
	"fmt"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// Gemm implements [compute.Backend].
func (b *Backend) Gemm(transA, transB bool, alpha float64, x, y compute.Block, beta float64, c compute.Block) {
	m, inner := opShape(x, transA)
	innerY, n := opShape(y, transB)
	if inner != innerY || c.Rows != m || c.Cols != n {
		panic(fmt.Sprintf("cuda: product of a %d × %d and a %d × %d block to a %s block", m, inner, innerY, n,
			c.Shape()))
	}
	switch {
	case m == 0 || n == 0:
	case inner > 0:
		b.dgemm(transA, transB, alpha, x, y, beta, c)
	default:
		compute.Scale(b, beta, c)
	}
}

// opShape returns the shape of x, transposed if trans is set.
func opShape(x compute.Block, trans bool) (rows, cols int) {
	if trans {
		return x.Cols, x.Rows
	}
	return x.Rows, x.Cols
}

// Gram implements [compute.Backend].
func (b *Backend) Gram(dst, x compute.Block) {
	want("gram", dst, x.Cols, x.Cols)
	switch {
	case x.Cols == 0:
	case x.Rows == 0:
		compute.Fill(b, dst, 0)
	default:
		b.dsyrk(false, true, 1, x, 0, dst)
		b.mirror(dst)
	}
}

// mirror copies the upper triangle of x to the lower one.
func (b *Backend) mirror(x compute.Block) {
	threads := tile(x.Rows, x.Cols)
	b.launch("k_mirror", cover(x.Rows, x.Cols, threads), threads, ptr(x), long(x.Stride), long(x.Rows))
}
