package gorgoniatest

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/dbqpg/dbqpg/internal/nn"
)

// The oracle on a network that is differentiated by hand: f = c tanh(w x + b), twice, for nothing may accumulate.
func TestGradient(t *testing.T) {
	const w, b, x, c = 0.7, -0.2, 1.5, 3
	tanh := math.Tanh(w*x + b)
	slope := c * (1 - tanh*tanh)
	for range 2 {
		value, gradient := Gradient([]float64{w, b}, func(g *Graph) *gorgonia.Node {
			return g.WeightedSum([]float64{c},
				g.MLP(nn.MLP{Sizes: []int{1, 1}, TanhOutput: true}, g.Matrix(1, 1, []float64{x})))
		})
		want := []float64{c * tanh, slope * x, slope}
		for i, got := range append([]float64{value}, gradient...) {
			if math.Abs(got-want[i]) > 1e-15 {
				t.Errorf("value and gradient: number %d is %v, want %v", i, got, want[i])
			}
		}
	}
}

func TestParametersMustBeUsedUp(t *testing.T) {
	for want, taken := range map[string]int{"1 of 3 parameters are not": 2, "1 × 4 parameters, 3 are left": 4} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("panic %q, want one with %q", got, want)
				}
			}()
			Gradient(make([]float64, 3), func(g *Graph) *gorgonia.Node {
				return g.WeightedSum(make([]float64, taken), g.Parameters(1, taken))
			})
		}()
	}
}
