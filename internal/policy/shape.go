package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/dbqpg/dbqpg/internal/nn"
)

// Shape is the size of a Gaussian policy: a tanh network from the observation to
// the action's mean, and a log standard deviation per action dimension that does
// not depend on the state. Its parameters are one flat vector: w1 (out × in,
// row-major), b1, w2, b2, ..., then log_std.
type Shape struct {
	Observation, Action int
	Hidden              []int
}

// DefaultHidden returns the paper's hidden layers.
func DefaultHidden() []int { return []int{64, 64} }

// maxWidth bounds every dimension of a shape, and thereby the memory that a hostile
// message can make a reader allocate.
const maxWidth = 1 << 16

// Validate returns an error unless all dimensions are between 1 and 65536.
func (s Shape) Validate() error {
	for _, size := range s.Mean().Sizes {
		if size < 1 || size > maxWidth {
			return fmt.Errorf("policy: layer sizes %v: each must be between 1 and %d", s.Mean().Sizes, maxWidth)
		}
	}
	return nil
}

// Mean returns the network that maps an observation to the action's mean.
func (s Shape) Mean() nn.MLP {
	return nn.MLP{Sizes: slices.Concat([]int{s.Observation}, s.Hidden, []int{s.Action})}
}

// NumParams returns p, the length of the flat parameter vector.
func (s Shape) NumParams() int { return s.Mean().NumParams() + s.Action }

// lastLayerScale shrinks the initial last layer, so that the first actions are
// nearly all noise (the authors' code).
const lastLayerScale = 0.1

// Init draws the initial parameters: PyTorch's default for linear layers, the last
// layer's weights times 0.1, its bias 0. std has the standard deviation of each
// action dimension, which is above 0; nil: 1.
func (s Shape) Init(rng *rand.Rand, std []float64) []float64 {
	if std != nil && len(std) != s.Action {
		panic(fmt.Sprintf("policy: %d standard deviations for %d action dimensions", len(std), s.Action))
	}
	network := s.Mean()
	params := append(network.Init(rng), make([]float64, s.Action)...)
	layers := network.Layers()
	last := layers[len(layers)-1]
	for i := last.Weights; i < last.Bias; i++ {
		params[i] *= lastLayerScale
	}
	clear(params[last.Bias:])
	logStd := params[network.NumParams():]
	for i, x := range std {
		logStd[i] = math.Log(x)
	}
	return params
}
