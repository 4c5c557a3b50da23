package policy

import (
	"fmt"
	"math"
)

// Moments are the running count, mean and sum of squared deviations of each
// observation dimension, over all observations so far. Merging batches in the
// same order gives the same bits.
type Moments struct {
	Count    float64
	Mean, M2 []float64
}

// NewMoments returns empty moments for observations of dim dimensions.
func NewMoments(dim int) Moments {
	return Moments{Mean: make([]float64, dim), M2: make([]float64, dim)}
}

// Add merges a batch: the observations in x, one after another. The batch's own
// moments are computed in two passes and then merged by
//
//	M2 = M2a + M2b + (mean_b - mean_a)² n_a n_b/n
//
// (Chan, Golub and LeVeque, 1983), which is accurate for any number of batches.
func (m *Moments) Add(x []float32) {
	dim := len(m.Mean)
	if dim == 0 || len(x)%dim != 0 {
		panic(fmt.Sprintf("policy: %d values are not observations of %d dimensions", len(x), dim))
	}
	if len(x) > 0 {
		m.merge(batchMoments(x, dim))
	}
}

// batchMoments computes a batch's moments in two passes.
func batchMoments(x []float32, dim int) Moments {
	b := NewMoments(dim)
	b.Count = float64(len(x) / dim)
	for row := x; len(row) > 0; row = row[dim:] {
		for i := range b.Mean {
			b.Mean[i] += float64(row[i])
		}
	}
	for i := range b.Mean {
		b.Mean[i] /= b.Count
	}
	for row := x; len(row) > 0; row = row[dim:] {
		for i, mean := range b.Mean {
			d := float64(row[i]) - mean
			b.M2[i] += d * d
		}
	}
	return b
}

// merge merges b into m.
func (m *Moments) merge(b Moments) {
	n := m.Count + b.Count
	for i := range m.Mean {
		d := b.Mean[i] - m.Mean[i]
		m.Mean[i] += d * b.Count / n
		m.M2[i] += b.M2[i] + d*d*m.Count*b.Count/n
	}
	m.Count = n
}

// Normalizer returns the normaliser with these means and the (n-1) standard deviations,
// clipped at ±clip. With fewer than two observations it is [Identity].
func (m *Moments) Normalizer(clip float64) Normalizer {
	n := Identity(len(m.Mean), clip)
	if m.Count < 2 {
		return n
	}
	copy(n.Mean, m.Mean)
	for i, m2 := range m.M2 {
		n.Std[i] = math.Sqrt(m2 / (m.Count - 1))
	}
	return n
}
