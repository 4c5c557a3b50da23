//go:build gpu

package cuda

import (
	"math"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// Affine implements [compute.Backend].
func (b *Backend) Affine(dst compute.Block, alpha float64, x compute.Block, beta, shift float64) {
	stride := compute.BroadcastRow("affine", dst, x)
	n, k := dst.Rows, dst.Cols
	if stride != 0 {
		n, k = compute.Flat(dst, x)
	}
	if shift == 0 && (alpha != 0 || beta != 0) {
		shift = math.Copysign(0, -1) // leaves -0 unchanged
	}
	b.each("k_affine", n, k, ptr(dst), long(dst.Stride), real(alpha), ptr(x), long(stride), real(beta), real(shift))
}

// Mul implements [compute.Backend].
func (b *Backend) Mul(dst, w, x compute.Block, beta float64) {
	rows, cols := compute.Broadcast("mul", dst, w)
	compute.SameShape("mul", dst, x)
	n, k := dst.Rows, dst.Cols
	if rows != 0 && cols != 0 {
		n, k = compute.Flat(dst, w, x)
	}
	b.each("k_mul", n, k, ptr(dst), long(dst.Stride), ptr(w), long(rows), long(cols), ptr(x), long(x.Stride),
		real(beta))
}

// DivideWhere implements [compute.Backend].
func (b *Backend) DivideWhere(dst, x, y, low, high compute.Block) {
	compute.SameShape("divide", dst, x, y, low, high)
	n, k := compute.Flat(dst, x, y, low, high)
	b.each("k_divide_where", n, k, ptr(dst), long(dst.Stride), ptr(x), long(x.Stride), ptr(y), long(y.Stride),
		ptr(low), long(low.Stride), ptr(high), long(high.Stride))
}
