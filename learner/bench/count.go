package bench

import (
	"sync/atomic"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// counter is a backend that counts the floating-point operations of what it passes
// on to another: of products, sketches and interpolation, the parts that grow faster
// than the blocks themselves.
type counter struct {
	compute.Backend
	flops *atomic.Int64
}

func newCounter(b compute.Backend) counter { return counter{b, new(atomic.Int64)} }

// Distant implements [compute.Backend]: nothing is computed beside a stage, so that its count is its own.
func (c counter) Distant() bool { return true }

// take returns the count since the last call.
func (c counter) take() float64 { return float64(c.flops.Swap(0)) }

func (c counter) add(factors ...int) {
	n := int64(1)
	for _, f := range factors {
		n *= int64(f)
	}
	c.flops.Add(n)
}

func (c counter) Panels(rows int, body func(b compute.Backend, panel, lo, hi int)) {
	c.Backend.Panels(rows, func(b compute.Backend, panel, lo, hi int) { body(counter{b, c.flops}, panel, lo, hi) })
}

func (c counter) Gemm(transA, transB bool, alpha float64, x, y compute.Block, beta float64, z compute.Block) {
	c.add(2, x.Rows, x.Cols, z.Cols)
	c.Backend.Gemm(transA, transB, alpha, x, y, beta, z)
}

func (c counter) Gram(dst, x compute.Block) {
	c.add(x.Rows, x.Cols, x.Cols+1)
	c.Backend.Gram(dst, x)
}

func (c counter) GroupOuter(dst, d, h compute.Block, g *compute.Groups) {
	c.add(2, d.Rows, d.Cols, h.Cols)
	c.Backend.GroupOuter(dst, d, h, g)
}

func (c counter) Interpolate(trans bool, dst, z, x compute.Block, g compute.Grid) {
	c.add(8, z.Rows, x.Cols)
	c.Backend.Interpolate(trans, dst, z, x, g)
}

func (c counter) InterpolateGrad(dst, z, table, x compute.Block, g compute.Grid) {
	c.add(8, x.Rows, x.Cols)
	c.Backend.InterpolateGrad(dst, z, table, x, g)
}
