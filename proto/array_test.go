package proto

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// Any bits, also those of NaNs, travel as little-endian bytes, at any length.
func TestArrayBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 23 {
		v := make(Array[float32], n)
		var want []byte
		for i := range v {
			v[i] = math.Float32frombits(rng.Uint32())
			want = binary.LittleEndian.AppendUint32(want, math.Float32bits(v[i]))
		}
		if got := memory(v); !bytes.Equal(got, want) {
			t.Errorf("%d numbers: %x, want %x", n, got, want)
		}
	}
}

// One number that is not finite is found wherever it stands, also beside its opposite; the largest and smallest pass.
func TestAllFinite(t *testing.T) {
	testAllFinite(t, float32(MaxNumber), float32(math.SmallestNonzeroFloat32))
	testAllFinite(t, MaxNumber, math.SmallestNonzeroFloat64)
}

func allFinite[T float32 | float64](v []T) bool { return finite("v", v, 1) == nil }

func testAllFinite[T float32 | float64](t *testing.T, largest, smallest T) {
	for n := range 11 {
		v := make([]T, n)
		for i := range v {
			v[i] = []T{largest, -largest, smallest, -smallest, 0, 1}[i%6]
		}
		if !allFinite(v) {
			t.Errorf("%v", v)
		}
		for i := range v {
			for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1.1 * MaxNumber, 3e38} {
				x, y := v[i], v[(i+1)%n]
				if v[i] = T(bad); allFinite(v) {
					t.Errorf("%v is taken for finite", v)
				}
				if v[(i+1)%n] = T(-bad); allFinite(v) {
					t.Errorf("%v is taken for finite", v)
				}
				v[i], v[(i+1)%n] = x, y
			}
		}
	}
}
