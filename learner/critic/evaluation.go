package critic

import (
	"fmt"
	"slices"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/nn"
	"github.com/dbqpg/dbqpg/internal/nn/blocks"
)

// featureSizes are the layers of phi after the observation.
var featureSizes = []int{64, 48, 10}

// Features returns the network phi for o observation dimensions, o-64-48-10, all tanh.
func Features(o int) nn.MLP {
	return nn.MLP{Sizes: slices.Concat([]int{o}, featureSizes), TanhOutput: true}
}

// Value returns phi with the value head, o-64-48-10-1. Its parameters are those of
// phi (w1 b1 w2 b2 w3 b3), then the head's weights and bias.
func Value(o int) nn.MLP {
	return nn.MLP{Sizes: slices.Concat([]int{o}, featureSizes, []int{1})}
}

// Evaluation contains the features and values of a batch of observations under one
// parameter vector. Its blocks live in the scope it was made in.
type Evaluation struct {
	backend     compute.Backend
	params      compute.Block // of Value
	observed    int           // o
	features    compute.Block // phi(s), n × 10
	activations blocks.Activations
}

// Evaluate runs the network Value with the flat params on observations (n × o,
// normalised).
func Evaluate(s *compute.Scope, params []float64, observations compute.Block) *Evaluation {
	e := &Evaluation{backend: s.Backend(), observed: observations.Cols}
	if want := Value(e.observed).NumParams(); len(params) != want {
		panic(fmt.Sprintf("critic: %d parameters for %s observations, want %d", len(params), observations.Shape(),
			want))
	}
	e.params = s.FromSlice(len(params), 1, params)
	e.activations = blocks.Bind(Value(e.observed), e.params).Forward(s, observations)
	e.features = e.activations[len(featureSizes)]
	return e
}

// Features returns the process's view of the states: phi(s), n × 10, or with raw
// features the observations, n × o.
func (e *Evaluation) Features() compute.Block { return e.features }

// Values returns V(s), of length n, on the host.
func (e *Evaluation) Values() []float64 { return compute.ToSlice(e.backend, e.activations.Output()) }

// lossGradient returns the mean squared error of the values against the returns, and its gradient in all parameters.
func (e *Evaluation) lossGradient(returns []float64) (float64, []float64) {
	b, values := e.backend, e.activations.Output()
	s := compute.NewScope(b)
	defer s.Release()
	n := float64(values.Rows)
	difference := s.FromSlice(values.Rows, 1, returns)
	compute.Scale(b, -1, difference)
	compute.Axpy(b, 1, values, difference)
	loss := b.Dot(difference, difference) / n
	compute.Scale(b, 2/n, difference)
	dst := s.New(e.params.Rows, 1)
	blocks.Bind(Value(e.observed), e.params).VJP(b, e.activations, difference, dst)
	return loss, compute.ToSlice(b, dst)
}

// FeatureGradient propagates a gradient in the features (n × 10) back to the
// parameters of phi.
func (e *Evaluation) FeatureGradient(features compute.Block) []float64 {
	s := compute.NewScope(e.backend)
	defer s.Release()
	signal := s.New(features.Rows, features.Cols)
	compute.Copy(e.backend, signal, features)
	phi := Features(e.observed)
	dst := s.New(phi.NumParams(), 1)
	net := blocks.Bind(phi, e.params.RowRange(0, phi.NumParams()))
	net.VJP(e.backend, e.activations[:len(phi.Sizes)], signal, dst)
	return compute.ToSlice(e.backend, dst)
}
