package computetest

import (
	"fmt"
	"math"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

func (naive) Affine(dst compute.Block, alpha float64, x compute.Block, beta, shift float64) {
	if x.Rows == 1 {
		wantShape("Affine", x, 1, dst.Cols)
	} else {
		compute.SameShape("Affine", dst, x)
	}
	each(dst.Rows, dst.Cols, func(i, j int) {
		sum := shift
		if shift == 0 && (alpha != 0 || beta != 0) {
			sum = math.Copysign(0, -1)
		}
		if alpha != 0 {
			sum += alpha * *at(x, min(i, x.Rows-1), j)
		}
		if beta != 0 {
			sum += beta * *at(dst, i, j)
		}
		*at(dst, i, j) = sum
	})
}

func (naive) Mul(dst, w, x compute.Block, beta float64) {
	compute.SameShape("Mul", dst, x)
	if (w.Rows != 1 && w.Rows != x.Rows) || (w.Cols != 1 && w.Cols != x.Cols) {
		panic(fmt.Sprintf("compute: Mul of a %s and a %s block", w.Shape(), x.Shape()))
	}
	each(dst.Rows, dst.Cols, func(i, j int) {
		product := *at(w, min(i, w.Rows-1), min(j, w.Cols-1)) * *at(x, i, j)
		if beta != 0 {
			product += beta * *at(dst, i, j)
		}
		*at(dst, i, j) = product
	})
}

func (naive) DivideWhere(dst, a, b, x, y compute.Block) {
	compute.SameShape("DivideWhere", dst, a, b, x, y)
	each(dst.Rows, dst.Cols, func(i, j int) {
		quotient := *at(a, i, j) / *at(b, i, j)
		if *at(x, i, j) <= *at(y, i, j) {
			quotient = 0
		}
		*at(dst, i, j) = quotient
	})
}

func (naive) Dot(x, y compute.Block) float64 {
	compute.SameShape("Dot", x, y)
	sum := 0.0
	each(x.Rows, x.Cols, func(i, j int) { sum += *at(x, i, j) * *at(y, i, j) })
	return sum
}

func (naive) RowDots(dst, a, b compute.Block, beta float64) {
	compute.SameShape("RowDots", a, b)
	wantShape("RowDots", dst, a.Rows, 1)
	for i := range a.Rows {
		sum := 0.0
		for j := range a.Cols {
			sum += *at(a, i, j) * *at(b, i, j)
		}
		if beta != 0 {
			sum += beta * *at(dst, i, 0)
		}
		*at(dst, i, 0) = sum
	}
}

func (naive) SumRows(dst, x compute.Block) {
	wantShape("SumRows", dst, 1, x.Cols)
	for j := range x.Cols {
		sum := 0.0
		for i := range x.Rows {
			sum += *at(x, i, j)
		}
		*at(dst, 0, j) = sum
	}
}

func (naive) ColDots(dst, x, y compute.Block) {
	compute.SameShape("ColDots", x, y)
	wantShape("ColDots", dst, 1, x.Cols)
	for j := range x.Cols {
		*at(dst, 0, j) = naive{}.Dot(x.Col(j), y.Col(j))
	}
}

func (naive) Extremes(x compute.Block) (low, high compute.Extreme) {
	if x.Rows == 0 || x.Cols == 0 {
		panic("compute: Extremes of an empty block")
	}
	low = compute.Extreme{Value: *at(x, 0, 0)}
	high = low
	each(x.Rows, x.Cols, func(i, j int) {
		if v := *at(x, i, j); v < low.Value {
			low = compute.Extreme{Value: v, Row: i, Col: j}
		}
		if v := *at(x, i, j); v > high.Value {
			high = compute.Extreme{Value: v, Row: i, Col: j}
		}
	})
	return low, high
}

func (naive) Tanh(z, bias compute.Block) {
	wantShape("Tanh", bias, 1, z.Cols)
	each(z.Rows, z.Cols, func(i, j int) { *at(z, i, j) = math.Tanh(*at(z, i, j) + *at(bias, 0, j)) })
}

func (naive) TanhGrad(d, h compute.Block) {
	compute.SameShape("TanhGrad", d, h)
	each(d.Rows, d.Cols, func(i, j int) { *at(d, i, j) *= 1 - *at(h, i, j)**at(h, i, j) })
}
