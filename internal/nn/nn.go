// Package nn is the layout of multilayer perceptrons: layer sizes, and where each
// layer's parameters lie in one flat vector. Package blocks evaluates them.
package nn

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// MLP is the shape of a multilayer perceptron: fully connected layers with tanh
// between them. Its parameters are one flat vector, layer by layer: the weights
// (out × in, row-major), then the bias (out).
type MLP struct {
	// Sizes are the input's, the hidden layers' and the output's dimensions; at
	// least two, all positive.
	Sizes []int
	// TanhOutput puts a tanh on the last layer too.
	TanhOutput bool
}

// Layer is one layer's place in the flat parameters.
type Layer struct {
	In, Out int
	// Weights and Bias are the offsets of the first weight and of the first bias.
	Weights, Bias int
}

// End returns the offset just after the layer's parameters.
func (l Layer) End() int { return l.Bias + l.Out }

// Layers lists the network's layers in order.
func (m MLP) Layers() []Layer {
	if len(m.Sizes) < 2 {
		panic(fmt.Sprintf("nn: a network of sizes %v needs an input and an output", m.Sizes))
	}
	layers := make([]Layer, len(m.Sizes)-1)
	offset := 0
	for i := range layers {
		in, out := m.Sizes[i], m.Sizes[i+1]
		if in <= 0 || out <= 0 {
			panic(fmt.Sprintf("nn: a network of sizes %v", m.Sizes))
		}
		layers[i] = Layer{In: in, Out: out, Weights: offset, Bias: offset + in*out}
		offset = layers[i].End()
	}
	return layers
}

// NumParams returns the length of the flat parameter vector.
func (m MLP) NumParams() int {
	layers := m.Layers()
	return layers[len(layers)-1].End()
}

// Init draws parameters: weights and biases uniform on ±1/sqrt(in), which is
// PyTorch's default for a linear layer.
func (m MLP) Init(rng *rand.Rand) []float64 {
	params := make([]float64, m.NumParams())
	for _, layer := range m.Layers() {
		bound := 1 / math.Sqrt(float64(layer.In))
		for i := layer.Weights; i < layer.End(); i++ {
			params[i] = bound * (2*rng.Float64() - 1)
		}
	}
	return params
}
