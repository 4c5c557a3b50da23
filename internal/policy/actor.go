package policy

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
)

// Actor evaluates a policy one observation at a time, on plain slices and
// without allocating. Sums run in one fixed order, whatever else the process
// does, so a policy and a random stream determine the actions. An Actor is used
// by one goroutine.
type Actor struct {
	shape      Shape
	normalizer Normalizer
	layers     []actorLayer
	input      []float64 // the normalised observation
	std        []float64
}

// actorLayer contains one layer's parameters and a buffer for its output.
type actorLayer struct {
	weights, bias, output []float64
}

// NewActor returns an actor with the flat params (copied) for observations
// normalised by n (whose slices it keeps). The error reports a wrong length or a
// value that is not finite.
func NewActor(shape Shape, params []float64, n Normalizer) (*Actor, error) {
	if err := shape.Validate(); err != nil {
		return nil, err
	}
	if len(params) != shape.NumParams() {
		return nil, fmt.Errorf("policy: %d parameters for layers %v, want %d", len(params), shape.Mean().Sizes,
			shape.NumParams())
	}
	if i := firstNonFinite(params); i >= 0 {
		return nil, fmt.Errorf("policy: parameter %d is %v", i, params[i])
	}
	if err := n.validate(shape.Observation); err != nil {
		return nil, err
	}
	own := append([]float64(nil), params...)
	a := &Actor{shape: shape, normalizer: n, input: make([]float64, shape.Observation)}
	network := shape.Mean()
	for _, l := range network.Layers() {
		a.layers = append(a.layers, actorLayer{
			weights: own[l.Weights:l.Bias],
			bias:    own[l.Bias:l.End()],
			output:  make([]float64, l.Out),
		})
	}
	for _, logStd := range own[network.NumParams():] {
		a.std = append(a.std, math.Exp(logStd))
	}
	return a, nil
}

// Act samples an action for a raw observation: mean + std*noise, with the noise drawn
// from rng one dimension after another. The action is rounded to float32, and
// that value is the one to apply and to record.
func (a *Actor) Act(observation []float32, rng *rand.Rand, action []float32) {
	if len(action) != a.shape.Action {
		panic(fmt.Sprintf("policy: Act into %d action dimensions, want %d", len(action), a.shape.Action))
	}
	for i, mean := range a.Mean(observation) {
		action[i] = float32(mean + a.std[i]*rng.NormFloat64())
	}
}

// ActMean is Act without the noise: the action is the mean, rounded to float32. It draws nothing from rng.
func (a *Actor) ActMean(observation []float32, _ *rand.Rand, action []float32) {
	if len(action) != a.shape.Action {
		panic(fmt.Sprintf("policy: ActMean into %d action dimensions, want %d", len(action), a.shape.Action))
	}
	for i, mean := range a.Mean(observation) {
		action[i] = float32(mean)
	}
}

// Mean returns the action's mean for a raw observation, valid until the next call.
func (a *Actor) Mean(observation []float32) []float64 {
	a.normalizer.Apply(a.input, observation)
	// gonum's own kernels, not blas64: the BLAS registered there may differ from
	// one process to the next, and with it the last bits of an action.
	var kernels gonum.Implementation
	x := a.input
	for i, l := range a.layers {
		copy(l.output, l.bias)
		kernels.Dgemv(blas.NoTrans, len(l.output), len(x), 1, l.weights, len(x), x, 1, 1, l.output, 1)
		if i < len(a.layers)-1 {
			tanhSlice(l.output)
		}
		x = l.output
	}
	return x
}

// firstNonFinite returns the index of the first NaN or infinity in x, or -1.
func firstNonFinite(x []float64) int {
	for i, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return i
		}
	}
	return -1
}
