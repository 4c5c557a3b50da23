//go:build cgo && !purego

package cpu

/*
#cgo CFLAGS: -O3 -I${SRCDIR}/../../../.deps/openblas/include
#cgo LDFLAGS: -L${SRCDIR}/../../../.deps/openblas/lib -lscipy_openblas -lm
#cgo !packaged LDFLAGS: -Wl,-rpath,${SRCDIR}/../../../.deps/openblas/lib
#if !__has_include(<cblas.h>)
#error "OpenBLAS is not set up: run `make setup` first (or build with the tag purego for the slower one in Go)"
#endif
#include "kernels.h"
*/
import "C"

import (
	"unsafe"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// Each wrapper calls C once for a whole block. Slices must not be empty.

func ptr(x []float64) *C.double { return (*C.double)(unsafe.Pointer(unsafe.SliceData(x))) }

func ints(x []int32) *C.int32_t { return (*C.int32_t)(unsafe.Pointer(unsafe.SliceData(x))) }

func fill(x []float64, xs, n, k int, v float64) {
	C.k_fill(ptr(x), C.long(xs), C.long(n), C.long(k), C.double(v))
}

func affine(d []float64, ds int, alpha float64, x []float64, xs int, beta, shift float64, n, k int) {
	C.k_affine(ptr(d), C.long(ds), C.double(alpha), ptr(x), C.long(xs), C.double(beta), C.double(shift), C.long(n),
		C.long(k))
}

func mul(d []float64, ds int, w []float64, ws, wc int, x []float64, xs int, beta float64, n, k int) {
	C.k_mul(ptr(d), C.long(ds), ptr(w), C.long(ws), C.long(wc), ptr(x), C.long(xs), C.double(beta), C.long(n),
		C.long(k))
}

func dot(x []float64, xs int, y []float64, ys, n, k int) float64 {
	return float64(C.k_dot(ptr(x), C.long(xs), ptr(y), C.long(ys), C.long(n), C.long(k)))
}

func rowDots(d []float64, ds int, a []float64, as int, b []float64, bs int, beta float64, n, k int) {
	C.k_row_dots(ptr(d), C.long(ds), ptr(a), C.long(as), ptr(b), C.long(bs), C.double(beta), C.long(n), C.long(k))
}

func sumRows(d, x []float64, xs, n, k int) {
	C.k_sum_rows(ptr(d), ptr(x), C.long(xs), C.long(n), C.long(k))
}

func colDots(d, x []float64, xs int, y []float64, ys, n, k int) {
	C.k_col_dots(ptr(d), ptr(x), C.long(xs), ptr(y), C.long(ys), C.long(n), C.long(k))
}

func tanh(z []float64, zs int, bias []float64, n, k int) {
	C.k_tanh(ptr(z), C.long(zs), ptr(bias), C.long(n), C.long(k))
}

func tanhGrad(d []float64, ds int, h []float64, hs, n, k int) {
	C.k_tanh_grad(ptr(d), C.long(ds), ptr(h), C.long(hs), C.long(n), C.long(k))
}

func interpolate(d []float64, ds int, z []float64, zs int, table []float64, ts int, g compute.Grid, n, r int) {
	C.k_interpolate(ptr(d), C.long(ds), ptr(z), C.long(zs), ptr(table), C.long(ts), C.double(g.Low), C.double(g.Step),
		C.long(g.Size), C.long(n), C.long(r))
}

func interpolateTrans(d []float64, ds int, z []float64, zs int, x []float64, xs int, g compute.Grid, n, r int) {
	C.k_interpolate_trans(ptr(d), C.long(ds), ptr(z), C.long(zs), ptr(x), C.long(xs), C.double(g.Low),
		C.double(g.Step), C.long(g.Size), C.long(n), C.long(r))
}

func interpolateGrad(d []float64, ds int, z []float64, zs int, table []float64, ts int, c []float64, cs int,
	g compute.Grid, n, r int) {
	C.k_interpolate_grad(ptr(d), C.long(ds), ptr(z), C.long(zs), ptr(table), C.long(ts), ptr(c), C.long(cs),
		C.double(g.Low), C.double(g.Step), C.long(g.Size), C.long(n), C.long(r))
}

func interpolateGram(d []float64, ds int, zi, zj []float64, zs int, g compute.Grid, n int) {
	C.k_interpolate_gram(ptr(d), C.long(ds), ptr(zi), ptr(zj), C.long(zs), C.double(g.Low), C.double(g.Step),
		C.long(g.Size), C.long(n))
}

func interpolateGramGrad(d []float64, ds int, zi, zj []float64, zs int, q []float64, qs int, g compute.Grid, n int) {
	C.k_interpolate_gram_grad(ptr(d), C.long(ds), ptr(zi), ptr(zj), C.long(zs), ptr(q), C.long(qs), C.double(g.Low),
		C.double(g.Step), C.long(g.Size), C.long(n))
}

func groupOuter(dst []float64, dsts int, d []float64, ds int, h []float64, hs int, g *compute.Groups,
	lo, hi, dk, hk int, scratch []float64) {
	C.k_group_outer(ptr(dst), C.long(dsts), ptr(d), C.long(ds), ptr(h), C.long(hs), ints(g.Order), ints(g.Bounds),
		ptr(g.Signs), C.long(lo), C.long(hi), C.long(dk), C.long(hk), ptr(scratch))
}

func groupSum(dst []float64, dsts int, x []float64, xs int, g *compute.Groups, lo, hi, k int) {
	C.k_group_sum(ptr(dst), C.long(dsts), ptr(x), C.long(xs), ints(g.Order), ints(g.Bounds), ptr(g.Signs),
		C.long(lo), C.long(hi), C.long(k))
}
