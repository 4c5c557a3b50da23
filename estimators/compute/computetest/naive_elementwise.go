package computetest

import (
	"math"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

func (naive) Fill(dst compute.Block, v float64) {
	each(dst.Rows, dst.Cols, func(i, j int) { *at(dst, i, j) = v })
}

func (naive) Copy(dst, src compute.Block) {
	compute.SameShape("Copy", dst, src)
	each(dst.Rows, dst.Cols, func(i, j int) { *at(dst, i, j) = *at(src, i, j) })
}

func (naive) Scale(alpha float64, x compute.Block) {
	each(x.Rows, x.Cols, func(i, j int) { *at(x, i, j) *= alpha })
}

func (naive) Axpy(alpha float64, x, y compute.Block) {
	compute.SameShape("Axpy", x, y)
	each(x.Rows, x.Cols, func(i, j int) { *at(y, i, j) += alpha * *at(x, i, j) })
}

func (naive) Affine(dst compute.Block, scale float64, x compute.Block, shift float64) {
	compute.SameShape("Affine", dst, x)
	each(x.Rows, x.Cols, func(i, j int) { *at(dst, i, j) = scale**at(x, i, j) + shift })
}

func (naive) Mul(dst, a, b compute.Block) {
	compute.SameShape("Mul", dst, a, b)
	each(dst.Rows, dst.Cols, func(i, j int) { *at(dst, i, j) = *at(a, i, j) * *at(b, i, j) })
}

func (naive) MulAdd(dst, a, b compute.Block) {
	compute.SameShape("MulAdd", dst, a, b)
	each(dst.Rows, dst.Cols, func(i, j int) { *at(dst, i, j) += *at(a, i, j) * *at(b, i, j) })
}

func (naive) ScaleRows(dst, w, x compute.Block) {
	compute.SameShape("ScaleRows", dst, x)
	wantShape("ScaleRows", w, x.Rows, 1)
	each(x.Rows, x.Cols, func(i, j int) { *at(dst, i, j) = *at(w, i, 0) * *at(x, i, j) })
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

func (naive) AxpyCols(alpha, x, y compute.Block) {
	compute.SameShape("AxpyCols", x, y)
	wantShape("AxpyCols", alpha, 1, x.Cols)
	each(x.Rows, x.Cols, func(i, j int) { *at(y, i, j) += *at(alpha, 0, j) * *at(x, i, j) })
}

func (naive) DivideWhere(dst, a, b, mask compute.Block) {
	compute.SameShape("DivideWhere", dst, a, b, mask)
	each(dst.Rows, dst.Cols, func(i, j int) {
		if *at(mask, i, j) > 0 {
			*at(dst, i, j) = *at(a, i, j) / *at(b, i, j)
		} else {
			*at(dst, i, j) = 0
		}
	})
}

func (naive) Exceeds(dst, x, y compute.Block, factor float64) {
	compute.SameShape("Exceeds", dst, x, y)
	each(dst.Rows, dst.Cols, func(i, j int) {
		if *at(x, i, j) <= factor**at(y, i, j) {
			*at(dst, i, j) = 0
		} else {
			*at(dst, i, j) = 1
		}
	})
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

func (naive) AddAt(x compute.Block, i, j int, v float64) { *at(x, i, j) += v }

func (naive) AddRow(x, row compute.Block) {
	wantShape("AddRow", row, 1, x.Cols)
	each(x.Rows, x.Cols, func(i, j int) { *at(x, i, j) += *at(row, 0, j) })
}

func (naive) Tanh(z, bias compute.Block) {
	wantShape("Tanh", bias, 1, z.Cols)
	each(z.Rows, z.Cols, func(i, j int) { *at(z, i, j) = math.Tanh(*at(z, i, j) + *at(bias, 0, j)) })
}

func (naive) TanhGrad(d, h compute.Block) {
	compute.SameShape("TanhGrad", d, h)
	each(d.Rows, d.Cols, func(i, j int) { *at(d, i, j) *= 1 - *at(h, i, j)**at(h, i, j) })
}

func (naive) GaussianScores(mean, logStd, x, mu, logSigma compute.Block) {
	compute.SameShape("GaussianScores", mean, logStd, x, mu)
	wantShape("GaussianScores", logSigma, 1, x.Cols)
	each(x.Rows, x.Cols, func(i, j int) {
		sigma := math.Exp(*at(logSigma, 0, j))
		standard := (*at(x, i, j) - *at(mu, i, j)) / sigma
		*at(mean, i, j) = standard / sigma
		*at(logStd, i, j) = standard*standard - 1
	})
}
