package computetest

import "github.com/dbqpg/dbqpg/estimators/compute"

// Fill sets each element of dst to v.
func (o *OpaqueBackend) Fill(dst compute.Block, v float64) { o.wrapped.Fill(o.open(dst), v) }

// Copy copies src to dst.
func (o *OpaqueBackend) Copy(dst, src compute.Block) {
	o.wrapped.Copy(o.same("Copy", dst, src), o.open(src))
}

// Scale multiplies x by alpha.
func (o *OpaqueBackend) Scale(alpha float64, x compute.Block) { o.wrapped.Scale(alpha, o.open(x)) }

// Axpy adds alpha*x to y.
func (o *OpaqueBackend) Axpy(alpha float64, x, y compute.Block) {
	o.wrapped.Axpy(alpha, o.open(x), o.same("Axpy", y, x))
}

// Affine sets dst to scale*x + shift.
func (o *OpaqueBackend) Affine(dst compute.Block, scale float64, x compute.Block, shift float64) {
	o.wrapped.Affine(o.same("Affine", dst, x), scale, o.open(x), shift)
}

// Mul sets dst to a*b.
func (o *OpaqueBackend) Mul(dst, a, b compute.Block) {
	o.wrapped.Mul(o.same("Mul", dst, a, b), o.open(a), o.open(b))
}

// MulAdd adds a*b to dst.
func (o *OpaqueBackend) MulAdd(dst, a, b compute.Block) {
	o.wrapped.MulAdd(o.same("MulAdd", dst, a, b), o.open(a), o.open(b))
}

// ScaleRows sets row i of dst to w_i times row i of x.
func (o *OpaqueBackend) ScaleRows(dst, w, x compute.Block) {
	o.wrapped.ScaleRows(o.same("ScaleRows", dst, w, x), o.open(w), o.open(x))
}

// Dot is the sum of x*y.
func (o *OpaqueBackend) Dot(x, y compute.Block) float64 {
	return o.wrapped.Dot(o.open(x), o.open(y))
}

// RowDots sets dst to beta*dst plus the rows' sums of a*b.
func (o *OpaqueBackend) RowDots(dst, a, b compute.Block, beta float64) {
	o.wrapped.RowDots(o.same("RowDots", dst, a, b), o.open(a), o.open(b), beta)
}

// SumRows sets dst to the sum of x's rows.
func (o *OpaqueBackend) SumRows(dst, x compute.Block) {
	o.wrapped.SumRows(o.apart("SumRows", dst, x), o.open(x))
}

// ColDots sets dst to the columns' sums of x*y.
func (o *OpaqueBackend) ColDots(dst, x, y compute.Block) {
	o.wrapped.ColDots(o.apart("ColDots", dst, x, y), o.open(x), o.open(y))
}

// AxpyCols adds alpha_j times column j of x to that of y.
func (o *OpaqueBackend) AxpyCols(alpha, x, y compute.Block) {
	o.apart("AxpyCols", y, alpha)
	o.wrapped.AxpyCols(o.open(alpha), o.open(x), o.same("AxpyCols", y, x))
}

// DivideWhere sets dst to a/b where mask is positive.
func (o *OpaqueBackend) DivideWhere(dst, a, b, mask compute.Block) {
	o.wrapped.DivideWhere(o.same("DivideWhere", dst, a, b, mask), o.open(a), o.open(b), o.open(mask))
}

// Exceeds sets dst to 0 where x <= factor*y.
func (o *OpaqueBackend) Exceeds(dst, x, y compute.Block, factor float64) {
	o.wrapped.Exceeds(o.same("Exceeds", dst, x, y), o.open(x), o.open(y), factor)
}

// Extremes finds the smallest and the largest element.
func (o *OpaqueBackend) Extremes(x compute.Block) (low, high compute.Extreme) {
	return o.wrapped.Extremes(o.open(x))
}

// AddAt adds v to an element.
func (o *OpaqueBackend) AddAt(x compute.Block, i, j int, v float64) {
	o.wrapped.AddAt(o.open(x), i, j, v)
}

// Gemm sets c to alpha*op(a)*op(b) + beta*c.
func (o *OpaqueBackend) Gemm(transA, transB bool, alpha float64, a, b compute.Block, beta float64, c compute.Block) {
	o.wrapped.Gemm(transA, transB, alpha, o.open(a), o.open(b), beta, o.apart("Gemm", c, a, b))
}

// Gram sets dst to x'x.
func (o *OpaqueBackend) Gram(dst, x compute.Block) {
	o.wrapped.Gram(o.apart("Gram", dst, x), o.open(x))
}

// AddRow adds row to each row of x.
func (o *OpaqueBackend) AddRow(x, row compute.Block) {
	o.wrapped.AddRow(o.apart("AddRow", x, row), o.open(row))
}

// Tanh sets z to tanh(z + bias).
func (o *OpaqueBackend) Tanh(z, bias compute.Block) {
	o.wrapped.Tanh(o.apart("Tanh", z, bias), o.open(bias))
}

// TanhGrad multiplies d by 1 - h*h.
func (o *OpaqueBackend) TanhGrad(d, h compute.Block) {
	o.wrapped.TanhGrad(o.same("TanhGrad", d, h), o.open(h))
}

// GaussianScores sets mean and logStd to a Gaussian's scores.
func (o *OpaqueBackend) GaussianScores(mean, logStd, x, mu, logSigma compute.Block) {
	o.apart("GaussianScores", mean, logStd, logSigma)
	o.apart("GaussianScores", logStd, logSigma)
	o.wrapped.GaussianScores(o.same("GaussianScores", mean, x, mu), o.same("GaussianScores", logStd, x, mu),
		o.open(x), o.open(mu), o.open(logSigma))
}

// Interpolate sets dst to W(z) table.
func (o *OpaqueBackend) Interpolate(dst, z, table compute.Block, g compute.Grid) {
	o.wrapped.Interpolate(o.apart("Interpolate", dst, z, table), o.open(z), o.open(table), g)
}

// InterpolateTrans sets dst to W(z)' x.
func (o *OpaqueBackend) InterpolateTrans(dst, z, x compute.Block, g compute.Grid) {
	o.wrapped.InterpolateTrans(o.apart("InterpolateTrans", dst, z, x), o.open(z), o.open(x), g)
}

// InterpolateGrad sets dst to the derivative of an interpolation in z.
func (o *OpaqueBackend) InterpolateGrad(dst, z, table, c compute.Block, g compute.Grid) {
	o.apart("InterpolateGrad", dst, table)
	o.wrapped.InterpolateGrad(o.same("InterpolateGrad", dst, z, c), o.open(z), o.open(table), o.open(c), g)
}

// InterpolateGram sets dst to W'W.
func (o *OpaqueBackend) InterpolateGram(dst, z compute.Block, g compute.Grid) {
	o.wrapped.InterpolateGram(o.apart("InterpolateGram", dst, z), o.open(z), g)
}

// InterpolateGramGrad sets dst to the derivatives of half of w_i'Q w_i.
func (o *OpaqueBackend) InterpolateGramGrad(dst, z, q compute.Block, g compute.Grid) {
	o.wrapped.InterpolateGramGrad(o.apart("InterpolateGramGrad", dst, z, q), o.open(z), o.open(q), g)
}

// GroupOuter sets the rows of dst to the groups' sums of d_i h_i'.
func (o *OpaqueBackend) GroupOuter(dst, d, h compute.Block, g *compute.Groups) {
	o.wrapped.GroupOuter(o.apart("GroupOuter", dst, d, h), o.open(d), o.open(h), g)
}

// GroupSum sets the rows of dst to the groups' sums of x_i.
func (o *OpaqueBackend) GroupSum(dst, x compute.Block, g *compute.Groups) {
	o.wrapped.GroupSum(o.apart("GroupSum", dst, x), o.open(x), g)
}

var _ compute.Backend = (*OpaqueBackend)(nil)
