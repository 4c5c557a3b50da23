// Package computetest tests compute backends: [TestBackend] is the conformance
// suite that every backend passes, [Naive] the slow twin with which it compares them,
// and [Opaque] a backend whose memory the host cannot read, with which code that
// bypasses the backend fails.
package computetest

import (
	"fmt"
	"math"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// naivePanel is the number of rows of the naive backend's panels: few, so that
// small tests have several.
const naivePanel = 16

// naive computes in one goroutine, one element at a time, in the order of the
// formulas.
type naive struct{}

// naiveBuffer is the memory of a naive backend.
type naiveBuffer []float64

func (x naiveBuffer) Len() int { return len(x) }

// Naive returns a backend that is too simple to be wrong.
func Naive() compute.Backend { return naive{} }

// at returns the address of element (i, j) of x.
func at(x compute.Block, i, j int) *float64 {
	if i < 0 || i >= x.Rows || j < 0 || j >= x.Cols {
		panic(fmt.Sprintf("computetest: element (%d, %d) of a %s block", i, j, x.Shape()))
	}
	return &x.Buffer.(naiveBuffer)[x.Offset+i*x.Stride+j]
}

// each calls f for the positions of a rows × cols matrix in row-major order.
func each(rows, cols int, f func(i, j int)) {
	for i := range rows {
		for j := range cols {
			f(i, j)
		}
	}
}

// wantShape panics, naming operation op, unless x is rows × cols.
func wantShape(op string, x compute.Block, rows, cols int) {
	if x.Rows != rows || x.Cols != cols {
		panic(fmt.Sprintf("compute: %s wants a %d × %d block, not %s", op, rows, cols, x.Shape()))
	}
}

// opShape returns the shape of x, transposed if trans is set.
func opShape(x compute.Block, trans bool) (rows, cols int) {
	if trans {
		return x.Cols, x.Rows
	}
	return x.Rows, x.Cols
}

// opAt returns element (i, j) of x, of x' if trans is set.
func opAt(x compute.Block, trans bool, i, j int) float64 {
	if trans {
		return *at(x, j, i)
	}
	return *at(x, i, j)
}

func (naive) Name() string { return "naive (Go, one goroutine)" }

func (naive) Distant() bool { return false }

func (naive) Alloc(n int) compute.Buffer { return make(naiveBuffer, n) }

func (naive) Release(compute.Buffer) {}

func (naive) Upload(dst compute.Block, src []float64) {
	if len(src) != dst.Rows*dst.Cols {
		panic(fmt.Sprintf("compute: Upload of %d numbers to a %s block", len(src), dst.Shape()))
	}
	each(dst.Rows, dst.Cols, func(i, j int) { *at(dst, i, j) = src[i*dst.Cols+j] })
}

func (naive) Download(dst []float64, src compute.Block) {
	if len(dst) != src.Rows*src.Cols {
		panic(fmt.Sprintf("compute: Download of a %s block to %d numbers", src.Shape(), len(dst)))
	}
	each(src.Rows, src.Cols, func(i, j int) { dst[i*src.Cols+j] = *at(src, i, j) })
}

func (naive) NumPanels(rows int) int { return (rows + naivePanel - 1) / naivePanel }

// Panels processes the panels in reverse, because their order is not guaranteed.
func (b naive) Panels(rows int, body func(b compute.Backend, panel, lo, hi int)) {
	for panel := b.NumPanels(rows) - 1; panel >= 0; panel-- {
		body(b, panel, panel*naivePanel, min(rows, (panel+1)*naivePanel))
	}
}

func (naive) Gemm(transA, transB bool, alpha float64, a, b compute.Block, beta float64, c compute.Block) {
	rows, inner := opShape(a, transA)
	innerB, cols := opShape(b, transB)
	if inner != innerB {
		panic(fmt.Sprintf("compute: Gemm of a %d × %d and a %d × %d block", rows, inner, innerB, cols))
	}
	wantShape("Gemm", c, rows, cols)
	each(rows, cols, func(i, j int) {
		sum := 0.0
		for k := range inner {
			sum += opAt(a, transA, i, k) * opAt(b, transB, k, j)
		}
		old := 0.0
		if beta != 0 {
			old = beta * *at(c, i, j)
		}
		*at(c, i, j) = alpha*sum + old
	})
}

func (b naive) Gram(dst, x compute.Block) { b.Gemm(true, false, 1, x, x, 0, dst) }

// keys returns the cubic convolution kernel at distance s from a grid point, in units
// of the grid's step (Keys 1981, a = -1/2).
func keys(s float64) float64 {
	switch s = math.Abs(s); {
	case s < 1:
		return (1.5*s-2.5)*s*s + 1
	case s < 2:
		return ((-0.5*s+2.5)*s-4)*s + 2
	}
	return 0
}

// keysGrad returns the derivative of keys.
func keysGrad(s float64) float64 {
	sign := 1.0
	if s < 0 {
		s, sign = -s, -1
	}
	switch {
	case s < 1:
		return sign * (4.5*s - 5) * s
	case s < 2:
		return sign * ((-1.5*s+5)*s - 4)
	}
	return 0
}

// position returns z_i in units of the grid's step from its first point, moved to the
// ends of the range that the grid can interpolate in.
func position(z compute.Block, i int, g compute.Grid) float64 {
	if g.Size < 4 {
		panic(fmt.Sprintf("compute: cubic interpolation on a grid of %d points, not 4 or more", g.Size))
	}
	return min(max((*at(z, i, 0)-g.Low)/g.Step, 1), float64(g.Size-2))
}

func (naive) Interpolate(trans bool, dst, z, x compute.Block, g compute.Grid) {
	wantShape("Interpolate", z, z.Rows, 1)
	w := gridWeights(z, g, keys, 1)
	if trans {
		wantShape("Interpolate", x, z.Rows, x.Cols)
		wantShape("Interpolate", dst, g.Size, x.Cols)
	} else {
		wantShape("Interpolate", x, g.Size, x.Cols)
		wantShape("Interpolate", dst, z.Rows, x.Cols)
	}
	each(dst.Rows, dst.Cols, func(i, j int) {
		sum := 0.0
		for l := range x.Rows {
			if trans {
				sum += w[l][i] * *at(x, l, j)
			} else {
				sum += w[i][l] * *at(x, l, j)
			}
		}
		*at(dst, i, j) = sum
	})
}

func (naive) InterpolateGrad(dst, z, table, c compute.Block, g compute.Grid) {
	wantShape("InterpolateGrad", z, c.Rows, 1)
	wantShape("InterpolateGrad", dst, c.Rows, 1)
	wantShape("InterpolateGrad", table, g.Size, c.Cols)
	for i := range c.Rows {
		u := position(z, i, g)
		sum := 0.0
		each(g.Size, c.Cols, func(point, k int) {
			sum += keysGrad(u-float64(point)) / g.Step * *at(table, point, k) * *at(c, i, k)
		})
		*at(dst, i, 0) = sum
	}
}

// gridWeights returns the n × d Size matrix W = [W(z_1), ..., W(z_d)], or its derivatives.
func gridWeights(z compute.Block, g compute.Grid, kernel func(float64) float64, factor float64) [][]float64 {
	w := make([][]float64, z.Rows)
	for i := range w {
		w[i] = make([]float64, z.Cols*g.Size)
		for j := range z.Cols {
			u := position(z.Col(j), i, g)
			for point := range g.Size {
				w[i][j*g.Size+point] = kernel(u-float64(point)) * factor
			}
		}
	}
	return w
}

func (naive) InterpolateGram(dst, z compute.Block, g compute.Grid) {
	wantShape("InterpolateGram", dst, z.Cols*g.Size, z.Cols*g.Size)
	w := gridWeights(z, g, keys, 1)
	each(dst.Rows, dst.Cols, func(p, q int) {
		sum := 0.0
		for i := range w {
			sum += w[i][p] * w[i][q]
		}
		*at(dst, p, q) = sum
	})
}

func (naive) InterpolateGramGrad(dst, z, q compute.Block, g compute.Grid) {
	wantShape("InterpolateGramGrad", q, z.Cols*g.Size, z.Cols*g.Size)
	wantShape("InterpolateGramGrad", dst, z.Rows, z.Cols)
	w, slopes := gridWeights(z, g, keys, 1), gridWeights(z, g, keysGrad, 1/g.Step)
	each(dst.Rows, dst.Cols, func(i, j int) {
		sum := 0.0
		for a := j * g.Size; a < (j+1)*g.Size; a++ {
			for b := range q.Cols {
				sum += slopes[i][a] * *at(q, a, b) * w[i][b]
			}
		}
		*at(dst, i, j) = sum
	})
}

func (naive) GroupOuter(dst, d, h compute.Block, g *compute.Groups) {
	wantShape("GroupOuter", h, d.Rows, h.Cols)
	wantShape("GroupOuter", dst, g.Len(), d.Cols*h.Cols)
	for group := range g.Len() {
		each(d.Cols, h.Cols, func(j, k int) {
			sum := 0.0
			for _, row := range g.Order[g.Bounds[group]:g.Bounds[group+1]] {
				sum += g.Signs[row] * *at(d, int(row), j) * *at(h, int(row), k)
			}
			*at(dst, group, j*h.Cols+k) = sum
		})
	}
}

func (naive) GroupSum(dst, x compute.Block, g *compute.Groups) {
	wantShape("GroupSum", dst, g.Len(), x.Cols)
	each(g.Len(), x.Cols, func(group, j int) {
		sum := 0.0
		for _, row := range g.Order[g.Bounds[group]:g.Bounds[group+1]] {
			sum += g.Signs[row] * *at(x, int(row), j)
		}
		*at(dst, group, j) = sum
	})
}
