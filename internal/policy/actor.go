package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

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
		return nil, fmt.Errorf("policy: %d parameters for layers %v, want %d", len(params), shape.Network().Sizes,
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
	network := shape.Network()
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

// Act samples an action for a raw observation. A Gaussian policy's is mean + std*noise, with the noise drawn from rng
// one dimension after another. A categorical policy's components are indices, each drawn with one uniform number. The
// action is rounded to float32, and that value is the one to apply and to record.
func (a *Actor) Act(observation []float32, rng *rand.Rand, action []float32) {
	outputs := a.outputs("Act", observation, action)
	for i, n := range a.shape.Choices {
		action[i] = float32(draw(outputs[:n], rng.Float64()))
		outputs = outputs[n:]
	}
	for i, std := range a.std {
		action[i] = float32(outputs[i] + std*rng.NormFloat64())
	}
}

// ActMode is Act without the noise: the action is the distribution's mode, which is a Gaussian's mean, and of equally
// likely choices the first. It draws nothing from rng.
func (a *Actor) ActMode(observation []float32, _ *rand.Rand, action []float32) {
	outputs := a.outputs("ActMode", observation, action)
	for i, n := range a.shape.Choices {
		action[i] = float32(slices.Index(outputs, slices.Max(outputs[:n])))
		outputs = outputs[n:]
	}
	for i := range a.std {
		action[i] = float32(outputs[i])
	}
}

// draw returns the choice at the quantile u in [0, 1) of the distribution with these logits, which it overwrites.
func draw(logits []float64, u float64) int {
	largest, sum := slices.Max(logits), 0.0
	for i, x := range logits {
		logits[i] = math.Exp(x - largest)
		sum += logits[i]
	}
	u *= sum
	last := len(logits) - 1
	for i, weight := range logits[:last] {
		if u -= weight; u < 0 {
			return i
		}
	}
	return last
}

// outputs is Outputs for a method that writes an action.
func (a *Actor) outputs(method string, observation, action []float32) []float64 {
	if len(action) != a.shape.Action {
		panic(fmt.Sprintf("policy: %s into %d action dimensions, want %d", method, len(action), a.shape.Action))
	}
	return a.Outputs(observation)
}

// Outputs returns the network's outputs for a raw observation, the mean or the logits, valid until the next call.
func (a *Actor) Outputs(observation []float32) []float64 {
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
