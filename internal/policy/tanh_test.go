package policy

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestTanhAgreesWithMath(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	x := []float64{0, math.Copysign(0, -1), 5e-324, 1e-300, 1e-20, 1e-9, 0.17, 0.18, 0.35, 0.625, 1, 19.9, 20, 20.1, 22,
		40, 800, 1e300, math.Inf(1)}
	for range 200_000 {
		x = append(x, math.Exp(rng.Float64()*20-15))
	}
	for i := range x {
		x = append(x, -x[i])
	}
	y := append([]float64(nil), x...)
	tanhSlice(y)
	for i, got := range y {
		want := math.Tanh(x[i])
		if math.Abs(got-want) > 2e-15*math.Abs(want) || math.Signbit(got) != math.Signbit(want) {
			t.Fatalf("tanh(%v) = %v, want %v", x[i], got, want)
		}
	}
	nan := []float64{math.NaN()}
	if tanhSlice(nan); nan[0] == nan[0] {
		t.Errorf("tanh(NaN) = %v", nan[0])
	}
}

func BenchmarkTanh(b *testing.B) {
	x, y := make([]float64, 128), make([]float64, 128)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	b.Run("slice", func(b *testing.B) {
		for b.Loop() {
			copy(y, x)
			tanhSlice(y)
		}
	})
	b.Run("math", func(b *testing.B) {
		for b.Loop() {
			for i, v := range x {
				y[i] = math.Tanh(v)
			}
		}
	})
}
