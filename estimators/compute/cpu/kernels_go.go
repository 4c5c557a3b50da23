//go:build !cgo || purego

package cpu

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

const blasName = "gonum"

// The kernels without C, several times slower: for builds without a C compiler, and as an
// independent check of kernels.c.

func row(x []float64, stride, i, k int) []float64 { return x[i*stride : i*stride+k] }

func fill(x []float64, xs, n, k int, v float64) {
	for i := range n {
		for j := range k {
			x[i*xs+j] = v
		}
	}
}

func affine(d []float64, ds int, alpha float64, x []float64, xs int, beta, shift float64, n, k int) {
	for i := range n {
		for j := range k {
			v := shift
			if beta != 0 {
				v += beta * d[i*ds+j]
			}
			d[i*ds+j] = alpha*x[i*xs+j] + v
		}
	}
}

func mul(d []float64, ds int, w []float64, ws, wc int, x []float64, xs int, beta float64, n, k int) {
	for i := range n {
		for j := range k {
			v := w[i*ws+j*wc] * x[i*xs+j]
			if beta != 0 {
				v += beta * d[i*ds+j]
			}
			d[i*ds+j] = v
		}
	}
}

func dot(x []float64, xs int, y []float64, ys, n, k int) float64 {
	sum := 0.0
	for i := range n {
		sum += floats.Dot(row(x, xs, i, k), row(y, ys, i, k))
	}
	return sum
}

func rowDots(d []float64, ds int, a []float64, as int, b []float64, bs int, beta float64, n, k int) {
	for i := range n {
		s := floats.Dot(row(a, as, i, k), row(b, bs, i, k))
		if beta != 0 {
			s += beta * d[i*ds]
		}
		d[i*ds] = s
	}
}

func sumRows(d, x []float64, xs, n, k int) {
	fill(d, k, 1, k, 0)
	for i := range n {
		floats.Add(d[:k], row(x, xs, i, k))
	}
}

func colDots(d, x []float64, xs int, y []float64, ys, n, k int) {
	fill(d, k, 1, k, 0)
	for i := range n {
		b := row(y, ys, i, k)
		for j, a := range row(x, xs, i, k) {
			d[j] += a * b[j]
		}
	}
}

func tanh(z []float64, zs int, bias []float64, n, k int) {
	for i := range n {
		for j := range k {
			z[i*zs+j] = math.Tanh(z[i*zs+j] + bias[j])
		}
	}
}

func tanhGrad(d []float64, ds int, h []float64, hs, n, k int) {
	for i := range n {
		for j := range k {
			d[i*ds+j] *= 1 - h[i*hs+j]*h[i*hs+j]
		}
	}
}

// place returns the first of the four grid points of z, and the position u in [0, 1] of z
// between the second and the third.
func place(z float64, g compute.Grid) (first int, u float64) {
	at := min(max((z-g.Low)/g.Step, 1), float64(g.Size-2))
	cell := 1
	if !math.IsNaN(at) {
		cell = min(int(at), g.Size-3)
	}
	return cell - 1, at - float64(cell)
}

func weights(u float64) [4]float64 {
	return [4]float64{((-0.5*u+1)*u - 0.5) * u, (1.5*u-2.5)*u*u + 1, ((-1.5*u+2)*u + 0.5) * u, (0.5*u - 0.5) * u * u}
}

func weightGrads(u, step float64) [4]float64 {
	return [4]float64{((-1.5*u+2)*u - 0.5) / step, (4.5*u - 5) * u / step, ((-4.5*u+4)*u + 0.5) / step,
		(1.5*u - 1) * u / step}
}

func interpolate(d []float64, ds int, z []float64, zs int, table []float64, ts int, g compute.Grid, n, r int) {
	fill(d, ds, n, r, 0)
	for i := range n {
		first, u := place(z[i*zs], g)
		for q, w := range weights(u) {
			floats.AddScaled(row(d, ds, i, r), w, row(table, ts, first+q, r))
		}
	}
}

func interpolateTrans(d []float64, ds int, z []float64, zs int, x []float64, xs int, g compute.Grid, n, r int) {
	fill(d, ds, g.Size, r, 0)
	for i := range n {
		first, u := place(z[i*zs], g)
		for q, w := range weights(u) {
			floats.AddScaled(row(d, ds, first+q, r), w, row(x, xs, i, r))
		}
	}
}

func interpolateGrad(d []float64, ds int, z []float64, zs int, table []float64, ts int, c []float64, cs int,
	g compute.Grid, n, r int) {
	for i := range n {
		first, u := place(z[i*zs], g)
		sum := 0.0
		for q, w := range weightGrads(u, g.Step) {
			sum += w * floats.Dot(row(table, ts, first+q, r), row(c, cs, i, r))
		}
		d[i*ds] = sum
	}
}

// interpolateGram computes block (i, j) of W'W from columns i and j of z.
func interpolateGram(d []float64, ds int, zi, zj []float64, zs int, g compute.Grid, n int) {
	fill(d, ds, g.Size, g.Size, 0)
	for i := range n {
		first, u := place(zi[i*zs], g)
		second, v := place(zj[i*zs], g)
		b := weights(v)
		for q, a := range weights(u) {
			floats.AddScaled(row(d, ds, first+q, g.Size)[second:second+4], a, b[:])
		}
	}
}

// interpolateGramGrad adds the contribution of block (i, j) of Q to column i of the gradient.
func interpolateGramGrad(d []float64, ds int, zi, zj []float64, zs int, q []float64, qs int, g compute.Grid, n int) {
	for i := range n {
		first, u := place(zi[i*zs], g)
		second, v := place(zj[i*zs], g)
		b := weights(v)
		for p, a := range weightGrads(u, g.Step) {
			d[i*ds] += a * floats.Dot(row(q, qs, first+p, g.Size)[second:second+4], b[:])
		}
	}
}

func groupOuter(dst []float64, dsts int, d []float64, ds int, h []float64, hs int, g *compute.Groups,
	lo, hi, dk, hk int, _ []float64) {
	for group := lo; group < hi; group++ {
		out := mat.NewDense(dk, hk, row(dst, dsts, group-lo, dk*hk))
		out.Zero()
		for _, i := range g.Order[g.Bounds[group]:g.Bounds[group+1]] {
			out.RankOne(out, g.Signs[i], mat.NewVecDense(dk, row(d, ds, int(i), dk)),
				mat.NewVecDense(hk, row(h, hs, int(i), hk)))
		}
	}
}

func groupSum(dst []float64, dsts int, x []float64, xs int, g *compute.Groups, lo, hi, k int) {
	fill(dst, dsts, hi-lo, k, 0)
	for group := lo; group < hi; group++ {
		for _, i := range g.Order[g.Bounds[group]:g.Bounds[group+1]] {
			floats.AddScaled(row(dst, dsts, group-lo, k), g.Signs[i], row(x, xs, int(i), k))
		}
	}
}
