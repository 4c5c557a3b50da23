//go:build gpu

package cuda

import "github.com/dbqpg/dbqpg/estimators/compute"

// Fill implements [compute.Backend].
func (b *Backend) Fill(dst compute.Block, v float64) {
	n, k := flat(dst)
	threads := tile(n, k)
	b.launch("k_fill", cover(n, k, threads), threads, ptr(dst), long(dst.Stride), long(n), long(k), real(v))
}

// Copy implements [compute.Backend].
func (b *Backend) Copy(dst, src compute.Block) {
	compute.SameShape("copy", dst, src)
	n, k := flat(dst, src)
	b.each("k_copy", n, k, ptr(dst), long(dst.Stride), ptr(src), long(src.Stride))
}

// Scale implements [compute.Backend].
func (b *Backend) Scale(alpha float64, x compute.Block) {
	n, k := flat(x)
	b.each("k_scale", n, k, real(alpha), ptr(x), long(x.Stride))
}

// Axpy implements [compute.Backend].
func (b *Backend) Axpy(alpha float64, x, y compute.Block) {
	compute.SameShape("axpy", x, y)
	n, k := flat(x, y)
	b.each("k_axpy", n, k, real(alpha), ptr(x), long(x.Stride), ptr(y), long(y.Stride))
}

// AxpyCols implements [compute.Backend].
func (b *Backend) AxpyCols(alpha, x, y compute.Block) {
	compute.SameShape("axpy of columns", x, y)
	want("axpy of columns", alpha, 1, x.Cols)
	b.each("k_axpy_cols", x.Rows, x.Cols, ptr(alpha), ptr(x), long(x.Stride), ptr(y), long(y.Stride))
}

// Affine implements [compute.Backend].
func (b *Backend) Affine(dst compute.Block, scale float64, x compute.Block, shift float64) {
	compute.SameShape("affine", dst, x)
	n, k := flat(dst, x)
	b.each("k_affine", n, k, ptr(dst), long(dst.Stride), real(scale), ptr(x), long(x.Stride), real(shift))
}

// Mul implements [compute.Backend].
func (b *Backend) Mul(dst, x, y compute.Block) {
	compute.SameShape("mul", dst, x, y)
	n, k := flat(dst, x, y)
	b.each("k_mul", n, k, ptr(dst), long(dst.Stride), ptr(x), long(x.Stride), ptr(y), long(y.Stride))
}

// MulAdd implements [compute.Backend].
func (b *Backend) MulAdd(dst, x, y compute.Block) {
	compute.SameShape("muladd", dst, x, y)
	n, k := flat(dst, x, y)
	b.each("k_mul_add", n, k, ptr(dst), long(dst.Stride), ptr(x), long(x.Stride), ptr(y), long(y.Stride))
}

// ScaleRows implements [compute.Backend].
func (b *Backend) ScaleRows(dst, w, x compute.Block) {
	compute.SameShape("scale rows", dst, x)
	want("scale rows", w, x.Rows, 1)
	b.each("k_scale_rows", x.Rows, x.Cols, ptr(dst), long(dst.Stride), ptr(w), long(w.Stride), ptr(x), long(x.Stride))
}

// DivideWhere implements [compute.Backend].
func (b *Backend) DivideWhere(dst, x, y, mask compute.Block) {
	compute.SameShape("divide", dst, x, y, mask)
	n, k := flat(dst, x, y, mask)
	b.each("k_divide_where", n, k, ptr(dst), long(dst.Stride), ptr(x), long(x.Stride), ptr(y), long(y.Stride),
		ptr(mask), long(mask.Stride))
}

// Exceeds implements [compute.Backend].
func (b *Backend) Exceeds(dst, x, y compute.Block, factor float64) {
	compute.SameShape("exceeds", dst, x, y)
	n, k := flat(dst, x, y)
	b.each("k_exceeds", n, k, ptr(dst), long(dst.Stride), ptr(x), long(x.Stride), ptr(y), long(y.Stride), real(factor))
}

// AddAt implements [compute.Backend].
func (b *Backend) AddAt(x compute.Block, i, j int, v float64) {
	b.launch("k_add_at", line(1), line(1), ptr(x.View(i, i+1, j, j+1)), real(v))
}
