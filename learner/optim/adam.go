package optim

import (
	"fmt"
	"math"
	"slices"

	"github.com/dbqpg/dbqpg/learner/state"
)

// Adam's constants, which are PyTorch's defaults.
const (
	adamBeta1   = 0.9
	adamBeta2   = 0.999
	adamEpsilon = 1e-8
)

// DefaultWeightDecay is the paper's weight decay for policy and critic.
const DefaultWeightDecay = 1e-3

// Adam descends a gradient (Kingma and Ba, 2015) with the semantics of PyTorch's
// torch.optim.Adam: weight decay is coupled, that is, WeightDecay times
// the parameters is added to the gradient first.
type Adam struct {
	LearningRate, WeightDecay float64

	steps  float64
	first  []float64 // running mean of the gradient
	second []float64 // running mean of its square
}

// NewAdam returns an optimiser for n parameters.
func NewAdam(n int, learningRate, weightDecay float64) *Adam {
	return &Adam{
		LearningRate: learningRate, WeightDecay: weightDecay,
		first: make([]float64, n), second: make([]float64, n),
	}
}

// Step updates params by one descent step for gradient; both have n elements.
func (a *Adam) Step(params, gradient []float64) {
	if len(params) != len(a.first) || len(gradient) != len(a.first) {
		panic(fmt.Sprintf("optim: Adam over %d parameters given %d and a gradient of %d", len(a.first), len(params),
			len(gradient)))
	}
	a.steps++
	stepSize := a.LearningRate / (1 - math.Pow(adamBeta1, a.steps))
	correction := math.Sqrt(1 - math.Pow(adamBeta2, a.steps))
	for i, g := range gradient {
		g += a.WeightDecay * params[i]
		a.first[i] += (1 - adamBeta1) * (g - a.first[i])
		a.second[i] = adamBeta2*a.second[i] + (1-adamBeta2)*g*g
		params[i] -= stepSize * a.first[i] / (math.Sqrt(a.second[i])/correction + adamEpsilon)
	}
}

// Visit visits the number of steps and the two running means.
func (a *Adam) Visit(v *state.Visitor) {
	v.Numbers("steps", state.Number{To: &a.steps, Check: state.Count})
	v.Array("first", a.first)
	v.Array("second", a.second, state.NotNegative)
}

// Clone returns a copy with the same state.
func (a *Adam) Clone() *Adam {
	c := *a
	c.first, c.second = slices.Clone(a.first), slices.Clone(a.second)
	return &c
}
