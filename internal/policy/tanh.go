package policy

import "math"

// tanhSlice replaces each element by its hyperbolic tangent, accurate to a few units
// in the last place and in two thirds of the time of math.Tanh: no branches, one
// division, overlapping sums. With t = -2|x| and E = expm1(t),
//
//	tanh |x| = -E / (2 + E),
//
// which involves no cancellation. To compute E, write t = k ln 2 + r with |r| <= ln(2)/2. Then
// E = 2^k expm1(r) + (2^k - 1), and expm1(r) = 2r / (C - r) where
//
//	C = r coth(r/2) = 2 + r²/6 - r⁴/360 + ...
//
// is even in r, so six terms suffice. One division computes both fractions.
func tanhSlice(x []float64) {
	for i, v := range x {
		t := -2 * math.Abs(v)
		if t < tanhOne {
			t = tanhOne
		}
		shifted := t*math.Log2E + roundShift // its low bits are the nearest integer k
		k := shifted - roundShift
		r := t - k*ln2High - k*ln2Low
		r2 := r * r
		r4 := r2 * r2
		denominator := (2 - r + r2*(c1+c2*r2)) + r4*r2*(c3+c4*r2+r4*(c5+c6*r2)) // C - r
		power := math.Float64frombits((math.Float64bits(shifted) + 1023) << 52) // 2^k
		numerator := power*2*r + (power-1)*denominator
		x[i] = math.Copysign(numerator/(2*denominator+numerator), v)
	}
}

const (
	tanhOne = -40 // tanh(20) rounds to 1
	// ln 2 in two parts; k*ln2High is exact for |k| < 2^20.
	ln2High = 6.93147180369123816490e-01
	ln2Low  = 1.90821492927058770002e-10
	// A float64 of this size has no fraction bits, so adding it rounds.
	roundShift = 3 << 51

	c1 = 1. / 6
	c2 = -1. / 360
	c3 = 1. / 15120
	c4 = -1. / 604800
	c5 = 1. / 23950080
	c6 = -691. / 653837184000
)
