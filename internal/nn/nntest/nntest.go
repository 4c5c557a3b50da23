// Package nntest evaluates networks slowly and simply, one sample and one scalar at a
// time, as a reference for the fast passes.
package nntest

import (
	"math"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/computetest"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/internal/nn"
)

// Backends returns the backends that everything on blocks is tested with: one too simple
// to be wrong, one whose memory the host cannot read, and the fast one.
func Backends() []compute.Backend {
	return []compute.Backend{computetest.Naive(), computetest.Opaque(cpu.New(2)), cpu.New(3)}
}

// Forward returns the network's output for one input.
func Forward(m nn.MLP, params, input []float64) []float64 {
	value, _ := Dual(m, params, make([]float64, len(params)), input)
	return value
}

// Dual returns the network's output for one input and its derivative along a direction
// in the parameters, by dual numbers.
func Dual(m nn.MLP, params, direction, input []float64) (value, tangent []float64) {
	value, tangent = input, make([]float64, len(input))
	layers := m.Layers()
	for l, layer := range layers {
		z, t := make([]float64, layer.Out), make([]float64, layer.Out)
		for i := range z {
			z[i], t[i] = params[layer.Bias+i], direction[layer.Bias+i]
			for j := range layer.In {
				k := layer.Weights + i*layer.In + j
				z[i] += params[k] * value[j]
				t[i] += direction[k]*value[j] + params[k]*tangent[j]
			}
			if l < len(layers)-1 || m.TanhOutput {
				z[i] = math.Tanh(z[i])
				t[i] *= 1 - z[i]*z[i]
			}
		}
		value, tangent = z, t
	}
	return value, tangent
}

// Jacobian returns the outputs' derivatives in the parameters for one input, outputs ×
// len(params), computed one parameter at a time.
func Jacobian(m nn.MLP, params, input []float64) [][]float64 {
	jacobian := make([][]float64, m.Sizes[len(m.Sizes)-1])
	for i := range jacobian {
		jacobian[i] = make([]float64, len(params))
	}
	unit := make([]float64, len(params))
	for k := range params {
		unit[k] = 1
		_, tangent := Dual(m, params, unit, input)
		for i, t := range tangent {
			jacobian[i][k] = t
		}
		unit[k] = 0
	}
	return jacobian
}

// Distance returns the norm of got - want relative to that of want.
func Distance(got, want []float64) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	difference, norm := 0.0, 0.0
	for i := range want {
		difference += (got[i] - want[i]) * (got[i] - want[i])
		norm += want[i] * want[i]
	}
	if difference == 0 {
		return 0
	}
	return math.Sqrt(difference / norm)
}

// Near fails unless the [Distance] is at most the tolerance.
func Near(t testing.TB, what string, got, want []float64, tolerance float64) {
	t.Helper()
	if d := Distance(got, want); !(d <= tolerance) {
		t.Errorf("%s: off by %.2g", what, d)
	}
}
