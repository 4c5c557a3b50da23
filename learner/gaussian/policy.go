package gaussian

import (
	"fmt"
	"math"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/nn/blocks"
	"github.com/dbqpg/dbqpg/internal/policy"
)

// Policy is a policy with one parameter vector, evaluated on a batch's observations;
// every layer of the network is kept. Its blocks live in the scope it was made in.
type Policy struct {
	backend     compute.Backend
	shape       policy.Shape
	net         blocks.Net
	activations blocks.Activations
	logStd      []float64     // a
	inverseStd  compute.Block // 1 × a: 1/std
	precision   compute.Block // 1 × a: 1/std²
}

// New evaluates the policy with the p × 1 block params on the normalised
// observations (n × o). params is viewed, not copied: it must not change while the
// Policy is used.
func New(s *compute.Scope, shape policy.Shape, params, observations compute.Block) *Policy {
	if params.Rows != shape.NumParams() || observations.Cols != shape.Observation {
		panic(fmt.Sprintf("gaussian: %s parameters and %s observations for a policy %v", params.Shape(), observations.Shape(), shape))
	}
	p := shape.Mean().NumParams()
	g := &Policy{
		backend: s.Backend(),
		shape:   shape,
		net:     blocks.Bind(shape.Mean(), params.RowRange(0, p)),
		logStd:  make([]float64, shape.Action),
	}
	g.backend.Download(g.logStd, params.RowRange(p, params.Rows))
	inverseStd, precision := make([]float64, shape.Action), make([]float64, shape.Action)
	for i, logStd := range g.logStd {
		inverseStd[i], precision[i] = math.Exp(-logStd), math.Exp(-2*logStd)
	}
	g.inverseStd, g.precision = s.FromSlice(1, shape.Action, inverseStd), s.FromSlice(1, shape.Action, precision)
	g.activations = g.net.Forward(s, observations)
	return g
}

// At returns the policy with other parameters (p, on the host), evaluated on the same batch.
func (g *Policy) At(s *compute.Scope, params []float64) *Policy {
	return New(s, g.shape, s.FromSlice(len(params), 1, params), g.activations[0])
}

// First returns a view of the policy on the first n observations of the batch.
func (g *Policy) First(n int) *Policy {
	first := *g
	first.activations = g.activations.Rows(0, n)
	return &first
}

// Backend returns the backend of the policy's blocks.
func (g *Policy) Backend() compute.Backend { return g.backend }

// Samples returns n, the number of observations.
func (g *Policy) Samples() int { return g.activations[0].Rows }

// Mean returns the actions' mean, n × a.
func (g *Policy) Mean() compute.Block { return g.activations.Output() }

// LogStd returns the logarithms of the standard deviations, one per action dimension.
func (g *Policy) LogStd() []float64 { return append([]float64(nil), g.logStd...) }

// Entropy returns the policy's differential entropy, which is the same in every state:
// sum_j (log_std_j + log(2 pi e)/2).
func (g *Policy) Entropy() float64 {
	entropy := 0.0
	for _, logStd := range g.logStd {
		entropy += logStd + 0.5*math.Log(2*math.Pi*math.E)
	}
	return entropy
}
