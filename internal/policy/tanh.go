package policy

import "math"

// tanhSlice replaces each element by its hyperbolic tangent, to a few units in
// the last place and about three times as fast as math.Tanh. With t = -2|x|,
//
//	tanh |x| = -expm1(t) / (2 + expm1(t)),
//
// which cancels nowhere. For expm1, t = k ln 2 + r with |r| <= ln(2)/2, and then
// expm1(t) = 2^k expm1(r) + (2^k - 1), where expm1(r) is its Taylor series.
func tanhSlice(x []float64) {
	for i, v := range x {
		t := -2 * math.Abs(v)
		if !(t > tanhOne) {
			x[i] = math.Copysign(1, v)
			if v != v {
				x[i] = v
			}
			continue
		}
		k := int64(t*log2E - 0.5)
		r := t - float64(k)*ln2High - float64(k)*ln2Low
		scale := math.Float64frombits(uint64(1023+k) << 52)
		e := scale*expm1Series(r) + (scale - 1)
		x[i] = math.Copysign(e/(2+e), v)
	}
}

const (
	tanhOne = -40 // tanh(20) rounds to 1
	log2E   = math.Log2E
	// ln 2 in two parts; k*ln2High is exact for |k| < 2^20.
	ln2High = 6.93147180369123816490e-01
	ln2Low  = 1.90821492927058770002e-10
)

// expm1Series is exp(r) - 1 for |r| <= ln(2)/2: r + r²/2! + ... + r^14/14!, whose
// remainder is below 1e-18 relative. The powers are paired (Estrin) so that the
// processor can overlap the sums.
func expm1Series(r float64) float64 {
	const (
		c3  = 1. / 6
		c4  = 1. / 24
		c5  = 1. / 120
		c6  = 1. / 720
		c7  = 1. / 5040
		c8  = 1. / 40320
		c9  = 1. / 362880
		c10 = 1. / 3628800
		c11 = 1. / 39916800
		c12 = 1. / 479001600
		c13 = 1. / 6227020800
		c14 = 1. / 87178291200
	)
	r2 := r * r
	r4 := r2 * r2
	low := (0.5 + c3*r) + r2*(c4+c5*r)
	mid := (c6 + c7*r) + r2*(c8+c9*r)
	high := (c10 + c11*r) + r2*(c12+c13*r+c14*r2)
	return r + r2*(low+r4*(mid+r4*high))
}
