package computetest

import "github.com/dbqpg/dbqpg/estimators/compute"

// Affine sets dst to alpha*x + beta*dst + shift.
func (o *OpaqueBackend) Affine(dst compute.Block, alpha float64, x compute.Block, beta, shift float64) {
	o.wrapped.Affine(o.same("Affine", dst, x), alpha, o.open(x), beta, shift)
}

// Mul sets dst to w*x + beta*dst.
func (o *OpaqueBackend) Mul(dst, w, x compute.Block, beta float64) {
	o.wrapped.Mul(o.same("Mul", dst, w, x), o.open(w), o.open(x), beta)
}

// DivideWhere sets dst to a/b, or to 0 where x <= y.
func (o *OpaqueBackend) DivideWhere(dst, a, b, x, y compute.Block) {
	o.wrapped.DivideWhere(o.same("DivideWhere", dst, a, b, x, y), o.open(a), o.open(b), o.open(x), o.open(y))
}

// Dot returns the sum of x*y.
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

// Extremes finds the smallest and the largest element.
func (o *OpaqueBackend) Extremes(x compute.Block) (low, high compute.Extreme) {
	return o.wrapped.Extremes(o.open(x))
}

// Gemm sets c to alpha*op(a)*op(b) + beta*c.
func (o *OpaqueBackend) Gemm(transA, transB bool, alpha float64, a, b compute.Block, beta float64, c compute.Block) {
	o.wrapped.Gemm(transA, transB, alpha, o.open(a), o.open(b), beta, o.apart("Gemm", c, a, b))
}

// Gram sets dst to x'x.
func (o *OpaqueBackend) Gram(dst, x compute.Block) {
	o.wrapped.Gram(o.apart("Gram", dst, x), o.open(x))
}

// Tanh sets z to tanh(z + bias).
func (o *OpaqueBackend) Tanh(z, bias compute.Block) {
	o.wrapped.Tanh(o.apart("Tanh", z, bias), o.open(bias))
}

// TanhGrad multiplies d by 1 - h*h.
func (o *OpaqueBackend) TanhGrad(d, h compute.Block) {
	o.wrapped.TanhGrad(o.same("TanhGrad", d, h), o.open(h))
}

// Interpolate sets dst to op(W(z)) x.
func (o *OpaqueBackend) Interpolate(trans bool, dst, z, x compute.Block, g compute.Grid) {
	o.wrapped.Interpolate(trans, o.apart("Interpolate", dst, z, x), o.open(z), o.open(x), g)
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
