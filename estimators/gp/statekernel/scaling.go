package statekernel

import (
	"fmt"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// Bound is the largest absolute value of a scaled feature.
const Bound = 0.95

// Scaling is the affine map that takes the joint minimum and maximum of all
// features to -[Bound] and [Bound].
type Scaling struct {
	Min, Max compute.Extreme
}

// Scale sets dst (n × d) to the scaled features x. The error is a
// [*ConstantFeaturesError].
func Scale(b compute.Backend, dst, x compute.Block) (Scaling, error) {
	low, high := b.Extremes(x)
	s := Scaling{low, high}
	if low.Value >= high.Value {
		return s, &ConstantFeaturesError{Value: low.Value}
	}
	s.Apply(b, dst, x)
	return s, nil
}

// Apply sets dst (m × d) to the features x by the same map. Those that Scale has not seen
// may lie beyond the bounds.
func (s Scaling) Apply(b compute.Backend, dst, x compute.Block) {
	b.Affine(dst, s.factor(), x, 0, -s.factor()*s.Min.Value-Bound)
}

// factor returns the map's slope.
func (s Scaling) factor() float64 { return 2 * Bound / (s.Max.Value - s.Min.Value) }

// Backward turns gradient (n × d), the gradient of some F in the scaled features,
// into the gradient in the features before scaling, in place.
//
// The map is f(x) = factor (x - min) - Bound. Each element feels the factor; the
// minimum and the maximum move all the others as well:
//
//	df/dmin = factor (u - 1),  df/dmax = -factor u,  u = (f + Bound)/(2 Bound)
func (s Scaling) Backward(b compute.Backend, gradient, scaled compute.Block) {
	scope := compute.NewScope(b)
	defer scope.Release()
	ones := scope.New(gradient.Rows, gradient.Cols)
	compute.Fill(b, ones, 1)
	sum := b.Dot(gradient, ones)
	weighted := (b.Dot(gradient, scaled) + Bound*sum) / (2 * Bound)

	factor := s.factor()
	compute.Scale(b, factor, gradient)
	add := func(to compute.Extreme, v float64) {
		x := gradient.Row(to.Row).Col(to.Col)
		b.Affine(x, 1, x, 0, v)
	}
	add(s.Min, factor*(weighted-sum))
	add(s.Max, -factor*weighted)
}

// ConstantFeaturesError reports that all features are equal, so that they cannot be
// scaled: the feature network no longer tells states apart.
type ConstantFeaturesError struct {
	Value float64
}

// Error implements error.
func (e *ConstantFeaturesError) Error() string {
	return fmt.Sprintf("gp: all features are %g: the feature network tells no states apart", e.Value)
}
