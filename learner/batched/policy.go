package batched

import (
	"fmt"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/nn/blocks"
	"github.com/dbqpg/dbqpg/internal/policy"
)

// Policy is a policy with one parameter vector, evaluated on a batch's observations;
// every layer of the network is kept. Its blocks live in the scope it was made in.
//
// Inputs that are zero at every observation (the contact forces of Ant-v2, 84 of 111) have
// neither an effect nor a score, so the policy is evaluated without them. Its p parameters,
// those of its scores, Fisher matrix and gradients, are all but these inputs' weights;
// [Policy.Expand] returns to the full vector.
type Policy struct {
	inputs
	backend     compute.Backend
	shape       policy.Shape // without the inputs that are zero
	net         blocks.Net
	activations blocks.Activations
	logStd      []float64 // a; none for discrete actions

	distribution distribution
}

// New evaluates the policy with all its parameters on the normalised observations
// (n × o).
func New(s *compute.Scope, shape policy.Shape, params []float64, observations compute.Block) *Policy {
	if len(params) != shape.NumParams() || observations.Cols != shape.Observation {
		panic(fmt.Sprintf("batched: %d parameters and %s observations for a policy %v", len(params),
			observations.Shape(), shape))
	}
	in := nonzero(s, shape, observations)
	return evaluate(s, in, in.reduce(params), in.of(s, observations))
}

// evaluate runs the network with the p parameters on the inputs (n × o).
func evaluate(s *compute.Scope, in inputs, params []float64, x compute.Block) *Policy {
	shape := in.whole
	shape.Observation = len(in.columns)
	p := shape.Network().NumParams()
	g := &Policy{
		inputs: in, backend: s.Backend(), shape: shape,
		net:    blocks.Bind(shape.Network(), s.FromSlice(p, 1, params[:p])),
		logStd: params[p:],
	}
	g.activations = g.net.Forward(s, x)
	if shape.Choices != nil {
		g.distribution = newCategorical(s, g.Outputs(), shape.Choices)
	} else {
		g.distribution = newGaussian(s, g.Outputs(), g.logStd)
	}
	return g
}

// At returns the policy with other parameters (all of them), evaluated on the same batch.
func (g *Policy) At(s *compute.Scope, params []float64) *Policy {
	return evaluate(s, g.inputs, g.reduce(params), g.activations[0])
}

// Direction allocates in s the direction (p × 1) from one vector of all parameters to another,
// without the parameters that have no effect on the batch.
func (g *Policy) Direction(s *compute.Scope, from, to []float64) compute.Block {
	a, b := g.reduce(from), g.reduce(to)
	floats.Sub(b, a)
	return s.FromSlice(len(b), 1, b)
}

// First returns a view of the policy on the first n observations of the batch.
func (g *Policy) First(n int) *Policy {
	first := *g
	first.activations, first.distribution = g.activations.Rows(0, n), g.distribution.first(n)
	return &first
}

// Backend returns the backend of the policy's blocks.
func (g *Policy) Backend() compute.Backend { return g.backend }

// Samples returns n, the number of observations.
func (g *Policy) Samples() int { return g.activations[0].Rows }

// Outputs returns the network's outputs, the actions' mean (n × a) or logits.
func (g *Policy) Outputs() compute.Block { return g.activations.Output() }

// LogStd returns the logarithms of the standard deviations, one per action dimension; none for discrete actions.
func (g *Policy) LogStd() []float64 { return append([]float64(nil), g.logStd...) }
