package cpu

import (
	"fmt"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// serial implements [compute.Backend] in the calling goroutine. It is what a
// panel's body computes with, and what Backend spreads over panels.
type serial struct{ pool }

var _ compute.Backend = (*serial)(nil)

func (s *serial) Name() string { return "cpu panel" }

func (s *serial) Distant() bool { return false }

func (s *serial) NumPanels(rows int) int { return (rows + panelRows - 1) / panelRows }

func (s *serial) Panels(rows int, body func(b compute.Backend, panel, lo, hi int)) {
	for panel := range s.NumPanels(rows) {
		body(s, panel, panel*panelRows, min(rows, (panel+1)*panelRows))
	}
}

func (s *serial) Upload(dst compute.Block, src []float64) {
	if len(src) != dst.Rows*dst.Cols {
		panic(fmt.Sprintf("cpu: upload of %d elements to a %s block", len(src), dst.Shape()))
	}
	to := elements(dst)
	if to == nil {
		return
	}
	for i := range dst.Rows {
		copy(to[i*dst.Stride:], src[i*dst.Cols:(i+1)*dst.Cols])
	}
}

func (s *serial) Download(dst []float64, src compute.Block) {
	if len(dst) != src.Rows*src.Cols {
		panic(fmt.Sprintf("cpu: download of a %s block to %d elements", src.Shape(), len(dst)))
	}
	from := elements(src)
	if from == nil {
		return
	}
	for i := range src.Rows {
		copy(dst[i*src.Cols:(i+1)*src.Cols], from[i*src.Stride:])
	}
}

func (s *serial) Fill(dst compute.Block, v float64) {
	if e := elements(dst); e != nil {
		fill(e, dst.Stride, dst.Rows, dst.Cols, v)
	}
}

func (s *serial) Copy(dst, src compute.Block) {
	compute.SameShape("copy", dst, src)
	to, from := elements(dst), elements(src)
	if to == nil {
		return
	}
	if dst.Contiguous() && src.Contiguous() {
		copy(to, from)
		return
	}
	for i := range dst.Rows {
		copy(to[i*dst.Stride:i*dst.Stride+dst.Cols], from[i*src.Stride:])
	}
}

func (s *serial) Scale(alpha float64, x compute.Block) {
	if e := elements(x); e != nil {
		scale(alpha, e, x.Stride, x.Rows, x.Cols)
	}
}

func (s *serial) Axpy(alpha float64, x, y compute.Block) {
	compute.SameShape("axpy", x, y)
	if e := elements(x); e != nil {
		axpy(alpha, e, x.Stride, elements(y), y.Stride, x.Rows, x.Cols)
	}
}

func (s *serial) Affine(dst compute.Block, a float64, x compute.Block, shift float64) {
	compute.SameShape("affine", dst, x)
	if e := elements(x); e != nil {
		affine(elements(dst), dst.Stride, a, e, x.Stride, shift, x.Rows, x.Cols)
	}
}

func (s *serial) Mul(dst, a, b compute.Block) {
	compute.SameShape("mul", dst, a, b)
	if e := elements(dst); e != nil {
		mul(e, dst.Stride, elements(a), a.Stride, elements(b), b.Stride, dst.Rows, dst.Cols)
	}
}

func (s *serial) MulAdd(dst, a, b compute.Block) {
	compute.SameShape("muladd", dst, a, b)
	if e := elements(dst); e != nil {
		mulAdd(e, dst.Stride, elements(a), a.Stride, elements(b), b.Stride, dst.Rows, dst.Cols)
	}
}

func (s *serial) ScaleRows(dst, w, x compute.Block) {
	compute.SameShape("scale rows", dst, x)
	checkColumn("scale rows", w, x)
	if e := elements(dst); e != nil {
		scaleRows(e, dst.Stride, elements(w), w.Stride, elements(x), x.Stride, x.Rows, x.Cols)
	}
}

func (s *serial) Dot(x, y compute.Block) float64 {
	compute.SameShape("dot", x, y)
	e := elements(x)
	if e == nil {
		return 0
	}
	return dot(e, x.Stride, elements(y), y.Stride, x.Rows, x.Cols)
}

func (s *serial) RowDots(dst, a, b compute.Block, beta float64) {
	compute.SameShape("row dots", a, b)
	checkColumn("row dots", dst, a)
	if a.Cols == 0 {
		s.addNothing(beta, dst)
		return
	}
	if e := elements(dst); e != nil {
		rowDots(e, dst.Stride, elements(a), a.Stride, elements(b), b.Stride, beta, a.Rows, a.Cols)
	}
}

func (s *serial) SumRows(dst, x compute.Block) {
	checkRow("sum rows", dst, x)
	if x.Rows == 0 {
		s.Fill(dst, 0)
		return
	}
	if e := elements(dst); e != nil {
		sumRows(e, elements(x), x.Stride, x.Rows, x.Cols)
	}
}

func (s *serial) ColDots(dst, x, y compute.Block) {
	compute.SameShape("column dots", x, y)
	checkRow("column dots", dst, x)
	switch {
	case x.Rows == 0:
		s.Fill(dst, 0)
	case x.Cols == 1:
		elements(dst)[0] = s.Dot(x, y)
	case x.Cols > 1:
		colDots(elements(dst), elements(x), x.Stride, elements(y), y.Stride, x.Rows, x.Cols)
	}
}

func (s *serial) AxpyCols(alpha, x, y compute.Block) {
	compute.SameShape("axpy of columns", x, y)
	checkRow("axpy of columns", alpha, x)
	if e := elements(x); e != nil {
		axpyCols(elements(alpha), e, x.Stride, elements(y), y.Stride, x.Rows, x.Cols)
	}
}

func (s *serial) DivideWhere(dst, a, b, mask compute.Block) {
	compute.SameShape("divide", dst, a, b, mask)
	d, x, y, m := elements(dst), elements(a), elements(b), elements(mask)
	each(dst, func(i, j int) {
		quotient := 0.0
		if m[i*mask.Stride+j] > 0 {
			quotient = x[i*a.Stride+j] / y[i*b.Stride+j]
		}
		d[i*dst.Stride+j] = quotient
	})
}

func (s *serial) Exceeds(dst, x, y compute.Block, factor float64) {
	compute.SameShape("exceeds", dst, x, y)
	d, a, b := elements(dst), elements(x), elements(y)
	each(dst, func(i, j int) {
		exceeds := 1.0
		if a[i*x.Stride+j] <= factor*b[i*y.Stride+j] {
			exceeds = 0
		}
		d[i*dst.Stride+j] = exceeds
	})
}

// each calls f for x's positions: for operations on a row or a few.
func each(x compute.Block, f func(i, j int)) {
	for i := range x.Rows {
		for j := range x.Cols {
			f(i, j)
		}
	}
}

func (s *serial) Extremes(x compute.Block) (min, max compute.Extreme) {
	e := elements(x)
	if e == nil {
		panic("cpu: extremes of an empty block")
	}
	min.Value, max.Value = e[0], e[0]
	for i := range x.Rows {
		for j, v := range e[i*x.Stride : i*x.Stride+x.Cols] {
			if v < min.Value {
				min = compute.Extreme{Value: v, Row: i, Col: j}
			}
			if v > max.Value {
				max = compute.Extreme{Value: v, Row: i, Col: j}
			}
		}
	}
	return min, max
}

func (s *serial) AddAt(x compute.Block, i, j int, v float64) {
	elements(x.View(i, i+1, j, j+1))[0] += v
}

func general(x compute.Block) blas64.General {
	return blas64.General{Rows: x.Rows, Cols: x.Cols, Stride: max(1, x.Stride), Data: elements(x)}
}

func transpose(t bool) blas.Transpose {
	if t {
		return blas.Trans
	}
	return blas.NoTrans
}

func (s *serial) Gemm(transA, transB bool, alpha float64, a, b compute.Block, beta float64, c compute.Block) {
	checkGemm(transA, transB, a, b, c)
	if c.Rows == 0 || c.Cols == 0 {
		return
	}
	if a.Rows == 0 || a.Cols == 0 {
		s.addNothing(beta, c)
		return
	}
	blas64.Gemm(transpose(transA), transpose(transB), alpha, general(a), general(b), beta, general(c))
}

// addNothing sets c to beta*c; a beta of zero makes zeros of anything, NaN too.
func (s *serial) addNothing(beta float64, c compute.Block) {
	if beta == 0 {
		s.Fill(c, 0)
		return
	}
	s.Scale(beta, c)
}

func checkGemm(transA, transB bool, a, b, c compute.Block) {
	m, k, l, n := a.Rows, a.Cols, b.Rows, b.Cols
	if transA {
		m, k = k, m
	}
	if transB {
		l, n = n, l
	}
	if k != l || c.Rows != m || c.Cols != n {
		panic(fmt.Sprintf("cpu: product of a %s (transposed: %t) and a %s (transposed: %t) block to a %s block",
			a.Shape(), transA, b.Shape(), transB, c.Shape()))
	}
}

func checkGram(dst, x compute.Block) {
	if dst.Rows != x.Cols || dst.Cols != x.Cols {
		panic(fmt.Sprintf("cpu: gram of a %s block to a %s block", x.Shape(), dst.Shape()))
	}
}

func (s *serial) Gram(dst, x compute.Block) {
	checkGram(dst, x)
	if x.Rows == 0 {
		s.Fill(dst, 0)
		return
	}
	e := elements(dst)
	if e == nil {
		return
	}
	blas64.Syrk(blas.Trans, 1, general(x), 0,
		blas64.Symmetric{N: dst.Rows, Stride: dst.Stride, Data: e, Uplo: blas.Upper})
	for i := range dst.Rows {
		for j := range i {
			e[i*dst.Stride+j] = e[j*dst.Stride+i]
		}
	}
}
