package policy

import (
	"fmt"
	"math"
)

// Normalizer centres and scales observations: y = clip((x - Mean)/(Std + 1e-8),
// ±Clip), with a mean and a standard deviation per dimension. It is constant within an
// iteration.
type Normalizer struct {
	Mean, Std []float64
	// Clip bounds |y|; 0 means no bound.
	Clip float64
}

// stdFloor keeps dimensions that never vary finite.
const stdFloor = 1e-8

// Identity returns the initial normaliser for dim dimensions: mean 0, standard
// deviation 1.
func Identity(dim int, clip float64) Normalizer {
	n := Normalizer{Mean: make([]float64, dim), Std: make([]float64, dim), Clip: clip}
	for i := range n.Std {
		n.Std[i] = 1
	}
	return n
}

// Apply normalises x, consecutive observations, into dst of the same length.
func (n Normalizer) Apply(dst []float64, x []float32) {
	dim := len(n.Mean)
	if len(dst) != len(x) || dim == 0 || len(x)%dim != 0 || len(n.Std) != dim {
		panic(fmt.Sprintf("policy: normalising %d values into %d with %d means and %d standard deviations", len(x),
			len(dst), dim, len(n.Std)))
	}
	clip := n.Clip
	if clip == 0 {
		clip = math.Inf(1)
	}
	for ; len(x) > 0; x, dst = x[dim:], dst[dim:] {
		for i, mean := range n.Mean {
			y := (float64(x[i]) - mean) / (n.Std[i] + stdFloor)
			if y > clip { // min and max are slower: they handle NaN and -0
				y = clip
			} else if y < -clip {
				y = -clip
			}
			dst[i] = y
		}
	}
}

// Scale returns the divisors of observations: Std + 1e-8.
func (n Normalizer) Scale() []float64 {
	scale := make([]float64, len(n.Std))
	for i, std := range n.Std {
		scale[i] = std + stdFloor
	}
	return scale
}

// validate checks a normaliser that came from outside.
func (n Normalizer) validate(dim int) error {
	if len(n.Mean) != dim || len(n.Std) != dim {
		return fmt.Errorf("policy: a normaliser of %d means and %d standard deviations for %d observation dimensions",
			len(n.Mean), len(n.Std), dim)
	}
	if i := firstNonFinite(n.Mean); i >= 0 {
		return fmt.Errorf("policy: the normaliser's mean %d is %v", i, n.Mean[i])
	}
	for i, std := range n.Std {
		if !(std >= 0) || math.IsInf(std, 0) {
			return fmt.Errorf("policy: the normaliser's standard deviation %d is %v", i, std)
		}
	}
	if !(n.Clip >= 0) {
		return fmt.Errorf("policy: the normaliser's clip is %v", n.Clip)
	}
	return nil
}
