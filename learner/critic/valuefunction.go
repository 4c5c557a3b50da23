package critic

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/nn"
	"github.com/dbqpg/dbqpg/internal/nn/blocks"
	"github.com/dbqpg/dbqpg/learner/optim"
	"github.com/dbqpg/dbqpg/learner/state"
)

const (
	valueWidth        = 64   // of both hidden layers
	valueLearningRate = 2e-3 // of Adam, without weight decay
	valueMinibatch    = 128  // samples, at least
	// momentsWeight is the weight of a batch's moments in the running ones. The first batches weigh more: of k, each
	// 1/k.
	momentsWeight = 0.1
)

// ValueFunction is a value function that has a network of its own and learns for as long as it pays. Its network f
// predicts standardised targets,
//
//	V(s) = mean + deviation f(s)
//
// where mean and deviation are running moments of the targets: a network that must itself reach returns of hundreds
// needs thousands of steps.
type ValueFunction struct {
	network   nn.MLP    // o-64-64-1, tanh
	params    []float64 // its parameters
	moments   moments   // of the targets
	optimizer *optim.Adam
	passes    int       // over the last batch; 0 before the first
	halfway   []float64 // params halfway through these
}

// moments are the running mean and variance of the targets.
type moments struct {
	batches        float64 // so far
	mean, variance float64
}

// add includes a batch of targets.
func (m *moments) add(targets []float64) {
	m.batches++
	weight := max(momentsWeight, 1/m.batches)
	mean, variance := stat.PopMeanVariance(targets, nil)
	d := mean - m.mean
	m.mean += weight * d
	m.variance = (1-weight)*(m.variance+weight*d*d) + weight*variance
}

// deviation returns the standard deviation, or 1 if the targets do not vary.
func (m *moments) deviation() float64 {
	if m.variance > 0 {
		return math.Sqrt(m.variance)
	}
	return 1
}

// NewValueFunction returns a value function of o observation dimensions.
func NewValueFunction(o int, rng *rand.Rand) *ValueFunction {
	network := nn.MLP{Sizes: []int{o, valueWidth, valueWidth, 1}}
	n := network.NumParams()
	return &ValueFunction{
		network: network, params: network.Init(rng), halfway: make([]float64, n),
		optimizer: optim.NewAdam(n, valueLearningRate, 0),
	}
}

// Sizes returns the sizes of the network's layers.
func (v *ValueFunction) Sizes() []int { return v.network.Sizes }

// Values returns V at observations (n × o, normalised), of length n, on the host.
func (v *ValueFunction) Values(s *compute.Scope, observations compute.Block) []float64 {
	_, h := v.forward(s, v.params, observations)
	values := compute.ToSlice(s.Backend(), h.Output())
	floats.Scale(v.moments.deviation(), values)
	floats.AddConst(v.moments.mean, values)
	return values
}

// forward evaluates f with the given parameters at observations.
func (v *ValueFunction) forward(s *compute.Scope, params []float64, observations compute.Block) (blocks.Net,
	blocks.Activations) {
	net := blocks.Bind(v.network, s.FromSlice(len(params), 1, params))
	return net, net.Forward(s, observations)
}

// Learn regresses V on the targets of n observations (n × o, normalised): passes over minibatches, as many as
// [ValueFunction.next] says but no more than epochs. It returns their number. An error is an [*optim.NotFiniteError]
// and leaves the value function unchanged.
//
// Minibatch j of m has the observations j, j+m, j+2m, ...: each is spread evenly over all trajectories, so there is
// nothing to shuffle.
func (v *ValueFunction) Learn(b compute.Backend, observations compute.Block, targets []float64,
	epochs int) (passes int, err error) {
	if len(targets) != observations.Rows || epochs < 1 {
		panic(fmt.Sprintf("critic: %d targets for %s observations, %d epochs", len(targets), observations.Shape(),
			epochs))
	}
	if err := optim.CheckFinite("target of the value function", targets); err != nil {
		return 0, err
	}
	s := compute.NewScope(b)
	defer s.Release()
	before := state.Save(v.Visit)
	v.passes = v.next(b, observations, v.standardized(s, targets), epochs)
	v.moments.add(targets)
	y := v.standardized(s, targets)
	for i := range v.passes {
		if i == v.passes/2 {
			copy(v.halfway, v.params)
		}
		v.pass(b, observations, y)
	}
	if err := optim.CheckFinite("step of the value function", v.params); err != nil {
		return 0, errors.Join(err, state.Restore(before, v.Visit))
	}
	return v.passes, nil
}

// standardized returns the targets (n × 1) as f should predict them.
func (v *ValueFunction) standardized(s *compute.Scope, targets []float64) compute.Block {
	y := slices.Clone(targets)
	floats.AddConst(-v.moments.mean, y)
	floats.Scale(1/v.moments.deviation(), y)
	return s.FromSlice(len(y), 1, y)
}

// next returns the number of passes over a new batch. No data are held out: a batch is new to what was learned from the
// last one (progressive validation), so if the second half of the passes over that one has lowered the error on this,
// there are a quarter more, otherwise a quarter fewer.
func (v *ValueFunction) next(b compute.Backend, observations, y compute.Block, epochs int) int {
	quarter := (v.passes + 3) / 4
	switch {
	case v.passes == 0:
		return epochs
	case v.squaredError(b, v.params, observations, y) < v.squaredError(b, v.halfway, observations, y):
		return min(v.passes+quarter, epochs)
	default:
		return min(max(v.passes-quarter, 1), epochs)
	}
}

// squaredError returns the sum of (f(s) - y)² with the given parameters.
func (v *ValueFunction) squaredError(b compute.Backend, params []float64, observations, y compute.Block) float64 {
	s := compute.NewScope(b)
	defer s.Release()
	_, h := v.forward(s, params, observations)
	compute.Axpy(b, -1, y, h.Output())
	return b.Dot(h.Output(), h.Output())
}

// pass takes a step on every minibatch.
func (v *ValueFunction) pass(b compute.Backend, observations, y compute.Block) {
	m := max(1, y.Rows/valueMinibatch)
	for j := range m {
		gradient := v.gradient(b, observations.RowRange(j, y.Rows).EveryRow(m), y.RowRange(j, y.Rows).EveryRow(m))
		v.optimizer.Step(v.params, gradient)
	}
}

// gradient returns the gradient of the mean of (f(s) - y)² in the parameters.
func (v *ValueFunction) gradient(b compute.Backend, observations, y compute.Block) []float64 {
	s := compute.NewScope(b)
	defer s.Release()
	net, h := v.forward(s, v.params, observations)
	signal := s.New(y.Rows, 1)
	compute.Copy(b, signal, h.Output())
	compute.Axpy(b, -1, y, signal)
	compute.Scale(b, 2/float64(y.Rows), signal)
	dst := s.New(len(v.params), 1)
	net.VJP(b, h, signal, dst)
	return compute.ToSlice(b, dst)
}

// Visit visits all that the value function has learned, and its optimiser.
func (v *ValueFunction) Visit(s *state.Visitor) {
	v.Learned(s, false)
	s.Int("passes", &v.passes)
	s.Array("halfway", v.halfway)
	s.Part("optimizer", v.optimizer.Visit)
}

// Learned visits all that the value function has learned without the optimiser.
func (v *ValueFunction) Learned(s *state.Visitor, _ bool) {
	s.Array("params", v.params)
	s.Numbers("moments", state.Number{To: &v.moments.batches, Check: state.Count}, state.Number{To: &v.moments.mean},
		state.Number{To: &v.moments.variance, Check: state.NotNegative})
}
