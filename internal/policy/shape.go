package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/dbqpg/dbqpg/internal/nn"
	"github.com/dbqpg/dbqpg/sim"
)

// Shape is the size of a policy: a tanh network from the observation to the parameters of the action's distribution.
// Those of a Gaussian policy are the action's mean, besides a log standard deviation per dimension that does not depend
// on the state. Those of a categorical policy are logits: Choices[0] numbers for the first component of the action,
// Choices[1] for the second, and so on; the components are independent given the observation. The parameters are one
// flat vector: w1 (out × in, row-major), b1, w2, b2, ..., then a Gaussian policy's log_std.
type Shape struct {
	Observation, Action int
	Hidden              []int
	Choices             []int // of each component of the action, an index from 0; nil: the policy is Gaussian
}

// ShapeOf returns the shape of a policy with these hidden layers for a task.
func ShapeOf(task sim.Spec, hidden []int) Shape {
	return Shape{task.ObservationDim, task.ActionDim, hidden, task.Choices}
}

// DefaultHidden returns the paper's hidden layers.
func DefaultHidden() []int { return []int{64, 64} }

// maxWidth bounds every dimension of a shape, and thereby the memory that a hostile
// message can make a reader allocate.
const maxWidth = 1 << 16

// Validate returns an error unless all dimensions are between 1 and 65536, and there are choices for each component of
// the action or for none.
func (s Shape) Validate() error {
	if s.Choices != nil && len(s.Choices) != s.Action {
		return fmt.Errorf("policy: choices %v for %d components of the action", s.Choices, s.Action)
	}
	for _, size := range slices.Concat(s.Choices, s.Network().Sizes) {
		if size < 1 || size > maxWidth {
			return fmt.Errorf("policy: layer sizes %v, choices %v: each must be between 1 and %d", s.Network().Sizes,
				s.Choices, maxWidth)
		}
	}
	return nil
}

// Network returns the network that maps an observation to the mean or the logits.
func (s Shape) Network() nn.MLP {
	outputs := s.Action
	if s.Choices != nil {
		outputs = 0
		for _, n := range s.Choices {
			outputs += n
		}
	}
	return nn.MLP{Sizes: slices.Concat([]int{s.Observation}, s.Hidden, []int{outputs})}
}

// NumParams returns p, the length of the flat parameter vector.
func (s Shape) NumParams() int {
	if s.Choices != nil {
		return s.Network().NumParams()
	}
	return s.Network().NumParams() + s.Action
}

// lastLayerScale shrinks the initial last layer, so that the first actions are
// nearly all noise (the authors' code).
const lastLayerScale = 0.1

// Init draws the initial parameters: PyTorch's default for linear layers, the last
// layer's weights times 0.1, its bias 0. std has a Gaussian policy's standard deviation
// of each action dimension, which is above 0; nil: 1.
func (s Shape) Init(rng *rand.Rand, std []float64) []float64 {
	params := make([]float64, s.NumParams())
	network := s.Network()
	copy(params, network.Init(rng))
	layers := network.Layers()
	last := layers[len(layers)-1]
	for i := last.Weights; i < last.Bias; i++ {
		params[i] *= lastLayerScale
	}
	clear(params[last.Bias:])
	logStd := params[network.NumParams():]
	if std != nil && len(std) != len(logStd) {
		panic(fmt.Sprintf("policy: %d standard deviations, want %d", len(std), len(logStd)))
	}
	for i, x := range std {
		logStd[i] = math.Log(x)
	}
	return params
}
