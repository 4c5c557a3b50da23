package cpu

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// serial implements [compute.Backend] in the calling goroutine. The bodies of panels
// compute with it, and Backend distributes it over panels.
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
	if dst.Stride == dst.Cols {
		copy(to, src)
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
	if src.Stride == src.Cols {
		copy(dst, from)
		return
	}
	for i := range src.Rows {
		copy(dst[i*src.Cols:(i+1)*src.Cols], from[i*src.Stride:])
	}
}

func (s *serial) Affine(dst compute.Block, alpha float64, x compute.Block, beta, shift float64) {
	stride := compute.BroadcastRow("affine", dst, x)
	if alpha == 0 {
		alpha, x, beta, stride = beta, dst, 0, dst.Stride
	}
	n, k := dst.Rows, dst.Cols
	if stride != 0 {
		n, k = compute.Flat(dst, x)
	}
	to, from := elements(dst), elements(x)
	switch {
	case to == nil:
	case alpha == 0:
		fill(to, dst.Stride, n, k, shift)
	case alpha == 1 && beta == 0 && shift == 0:
		for i := range n {
			copy(to[i*dst.Stride:i*dst.Stride+k], from[i*stride:])
		}
	default:
		if shift == 0 {
			shift = math.Copysign(0, -1) // leaves -0 unchanged
		}
		affine(to, dst.Stride, alpha, from, stride, beta, shift, n, k)
	}
}

func (s *serial) Mul(dst, w, x compute.Block, beta float64) {
	rows, cols := compute.Broadcast("mul", dst, w)
	compute.SameShape("mul", dst, x)
	n, k := dst.Rows, dst.Cols
	if rows != 0 && cols != 0 {
		n, k = compute.Flat(dst, w, x)
	}
	if e := elements(dst); e != nil {
		mul(e, dst.Stride, elements(w), rows, cols, elements(x), x.Stride, beta, n, k)
	}
}

func (s *serial) DivideWhere(dst, a, b, x, y compute.Block) {
	compute.SameShape("divide", dst, a, b, x, y)
	at := func(x compute.Block, i, j int) *float64 { return &x.Buffer.(*buffer).data[x.Offset+i*x.Stride+j] }
	for i := range dst.Rows {
		for j := range dst.Cols {
			quotient := *at(a, i, j) / *at(b, i, j)
			if *at(x, i, j) <= *at(y, i, j) {
				quotient = 0
			}
			*at(dst, i, j) = quotient
		}
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
		compute.Scale(s, beta, dst)
		return
	}
	if e := elements(dst); e != nil {
		rowDots(e, dst.Stride, elements(a), a.Stride, elements(b), b.Stride, beta, a.Rows, a.Cols)
	}
}

func (s *serial) SumRows(dst, x compute.Block) {
	checkRow("sum rows", dst, x)
	if x.Rows == 0 {
		compute.Fill(s, dst, 0)
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
		compute.Fill(s, dst, 0)
	case x.Cols == 1:
		elements(dst)[0] = s.Dot(x, y)
	case x.Cols > 1:
		colDots(elements(dst), elements(x), x.Stride, elements(y), y.Stride, x.Rows, x.Cols)
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
		compute.Scale(s, beta, c)
		return
	}
	blas64.Gemm(transpose(transA), transpose(transB), alpha, general(a), general(b), beta, general(c))
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
		compute.Fill(s, dst, 0)
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
