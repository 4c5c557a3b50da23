package policy

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestNormalizerClips(t *testing.T) {
	n := Normalizer{Mean: []float64{1, -2}, Std: []float64{2, 0}, Clip: 5}
	x := []float32{4, -2, 1e9, 3, -1e9, -3}
	want := []float64{1.5, 0, 5, 5, -5, -5}
	got := make([]float64, len(x))
	n.Apply(got, x)
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-7 {
			t.Errorf("element %d: %v, want %v", i, got[i], want[i])
		}
	}
	n.Clip = 0
	if n.Apply(got, x); got[2] < 4e8 {
		t.Errorf("without a bound, %v", got[2])
	}
}

// Moments merged batch by batch against two passes over everything at once, with
// means a million times the deviation.
func TestMomentsAgreeWithTwoPasses(t *testing.T) {
	const dim = 5
	rng := rand.New(rand.NewPCG(5, 5))
	m := NewMoments(dim)
	var all []float32
	for _, count := range []int{1, 0, 3, 1000, 17, 400} {
		batch := make([]float32, count*dim)
		for i := range batch {
			batch[i] = float32(math.Pow(10, float64(i%dim))*(1+1e-2*rng.NormFloat64()) + float64(count))
		}
		m.Add(batch)
		all = append(all, batch...)
	}
	n := m.Normalizer(5)
	count := len(all) / dim
	if m.Count != float64(count) {
		t.Errorf("count %v, want %d", m.Count, count)
	}
	for d := range dim {
		mean, m2 := 0.0, 0.0
		for i := range count {
			mean += float64(all[i*dim+d]) / float64(count)
		}
		for i := range count {
			m2 += math.Pow(float64(all[i*dim+d])-mean, 2)
		}
		std := math.Sqrt(m2 / float64(count-1))
		if math.Abs(n.Mean[d]-mean) > 1e-12*math.Abs(mean) || math.Abs(n.Std[d]-std) > 1e-11*std {
			t.Errorf("dimension %d: mean %v std %v, want %v %v", d, n.Mean[d], n.Std[d], mean, std)
		}
	}
}

func TestNormalizerOfFewObservations(t *testing.T) {
	m := NewMoments(2)
	for range 2 { // of none, then of one
		n := m.Normalizer(5)
		if n.Mean[0] != 0 || n.Std[1] != 1 || n.Clip != 5 {
			t.Errorf("of %v observations: %v", m.Count, n)
		}
		m.Add([]float32{3, 4})
	}
	if n := m.Normalizer(5); n.Mean[0] != 3 || n.Std[0] != 0 {
		t.Errorf("of two equal observations: %v", n)
	}
}
