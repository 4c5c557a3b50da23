//go:build gpu

package cuda

import "github.com/dbqpg/dbqpg/estimators/compute"

// Tanh implements [compute.Backend].
func (b *Backend) Tanh(z, bias compute.Block) {
	want("tanh", bias, 1, z.Cols)
	b.each("k_tanh", z.Rows, z.Cols, ptr(z), long(z.Stride), ptr(bias))
}

// TanhGrad implements [compute.Backend].
func (b *Backend) TanhGrad(d, h compute.Block) {
	compute.SameShape("tanh gradient", d, h)
	n, k := compute.Flat(d, h)
	b.each("k_tanh_grad", n, k, ptr(d), long(d.Stride), ptr(h), long(h.Stride))
}
