package blocks_test

import (
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/gorgoniatest"
	"github.com/dbqpg/dbqpg/internal/nn/blocks"
)

// oracle returns the sum of the network's outputs at samples [from, to), weighted by signal, and its gradient in the
// parameters, by gorgonia.
func (f fixture) oracle(from, to int, signal []float64) (value float64, gradient []float64) {
	return gorgoniatest.Gradient(f.params, func(g *gorgoniatest.Graph) *gorgonia.Node {
		inputs := g.Matrix(to-from, f.in, f.inputs[from*f.in:to*f.in])
		return g.WeightedSum(signal, g.MLP(f.mlp, inputs))
	})
}

func TestVJPAgreesWithGorgonia(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		value, want := f.oracle(0, f.samples, f.signal)
		h := f.net.Forward(f.scope, f.inputBlock)
		f.check(t, "weighted outputs", []float64{f.backend.Dot(h.Output(), f.signalBlock)}, []float64{value})
		gradient := f.scope.New(len(f.params), 1)
		f.net.VJP(f.backend, h, f.signalBlock, gradient)
		f.check(t, "vjp", compute.ToSlice(f.backend, gradient), want)
	})
}

// An output's movement along a direction is its gradient times the direction.
func TestJVPAgreesWithGorgonia(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		direction := normals(len(f.params), rand.New(rand.NewPCG(5, 5)))
		samples := min(f.samples, 3)
		var want []float64
		for i := range samples {
			for j := range f.out {
				unit := make([]float64, f.out)
				unit[j] = 1
				_, row := f.oracle(i, i+1, unit)
				sum := 0.0
				for k, v := range direction {
					sum += row[k] * v
				}
				want = append(want, sum)
			}
		}
		h := f.net.Forward(f.scope, f.inputBlock.RowRange(0, samples))
		along := blocks.Bind(f.mlp, f.scope.FromSlice(len(direction), 1, direction))
		f.check(t, "jvp", compute.ToSlice(f.backend, f.net.JVPRows(f.scope, h, along)), want)
	})
}
