package proto

import (
	"encoding/binary"
	"math"
)

// These loops process every episode of a run: they take four or two numbers at a time, without bounds checks in between,
// which makes them about twice as fast as one at a time.

// putFloat32s writes v to dst, four little-endian bytes each.
func putFloat32s(dst []byte, v []float32) {
	for ; len(v) >= 4 && len(dst) >= 16; v, dst = v[4:], dst[16:] {
		binary.LittleEndian.PutUint64(dst, uint64(math.Float32bits(v[0]))|uint64(math.Float32bits(v[1]))<<32)
		binary.LittleEndian.PutUint64(dst[8:], uint64(math.Float32bits(v[2]))|uint64(math.Float32bits(v[3]))<<32)
	}
	for i, x := range v {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(x))
	}
}

// getFloat32s fills v with the numbers that putFloat32s wrote.
func getFloat32s(v []float32, src []byte) {
	for ; len(v) >= 4 && len(src) >= 16; v, src = v[4:], src[16:] {
		low, high := binary.LittleEndian.Uint64(src), binary.LittleEndian.Uint64(src[8:])
		v[0], v[1] = math.Float32frombits(uint32(low)), math.Float32frombits(uint32(low>>32))
		v[2], v[3] = math.Float32frombits(uint32(high)), math.Float32frombits(uint32(high>>32))
	}
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

// allFinite reports whether v contains neither NaN nor infinity: 0 x is NaN for these and 0 for all others, and a sum with
// a NaN stays NaN.
func allFinite[T float32 | float64](v []T) bool {
	var a, b, c, d T
	for ; len(v) >= 4; v = v[4:] {
		a, b, c, d = a+0*v[0], b+0*v[1], c+0*v[2], d+0*v[3]
	}
	for _, x := range v {
		a += 0 * x
	}
	return a+b+c+d == 0
}
