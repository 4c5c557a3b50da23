package gradient

import (
	"fmt"
	"math"

	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/internal/nn"
	"github.com/dbqpg/dbqpg/internal/npz"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/learner/critic"
)

// Batch is a batch of n samples with the networks and numbers to evaluate it, validated:
// all shapes fit and all numbers are finite and in their range.
type Batch struct {
	Observations []float64 // n × o, normalised
	Actions      []float64 // n × a
	Targets      []float64 // n
	Trajectories critic.Trajectories

	// Queries are m further states and actions to be evaluated; there may be none.
	QueryObservations []float64 // m × o, normalised
	QueryActions      []float64 // m × a

	Shape  policy.Shape
	Policy []float64 // flat parameters of Shape
	Critic []float64 // flat parameters of critic.Value

	Kernel                          gp.Kernel
	Rank                            int     // of the scores' decomposition
	Epsilon, Damping, Gamma, Lambda float64 // bound of UAPG, of the Fisher matrix, discount, GAE
}

// Samples returns n.
func (b *Batch) Samples() int { return len(b.Targets) }

// Queries returns m.
func (b *Batch) Queries() int { return len(b.QueryActions) / b.Shape.Action }

// Parse checks the arrays of a batch file; those it does not know are ignored. The
// error names the first wrong array, and its right form.
func Parse(arrays npz.Arrays) (*Batch, error) {
	r := &reader{arrays: arrays}
	b := new(Batch)
	b.Observations = r.floats("observations", -1, -1)
	n, o := r.dim("observations", 0), r.dim("observations", 1)
	b.Actions = r.floats("actions", n, -1)
	b.Targets = r.floats("targets", n)
	b.Trajectories = critic.Trajectories{Rewards: r.floats("rewards", n), Lengths: r.episodes("dones", n)}

	b.Shape = policy.Shape{Observation: o, Action: r.dim("actions", 1),
		Hidden: []int{r.dim("policy_w1", 0), r.dim("policy_w2", 0)}}
	if r.check(b.Shape.Validate()); r.err != nil {
		return nil, r.err
	}
	_, observed := arrays["query_observations"]
	if _, acted := arrays["query_actions"]; observed || acted {
		b.QueryObservations = r.floats("query_observations", -1, o)
		b.QueryActions = r.floats("query_actions", r.dim("query_observations", 0), b.Shape.Action)
	}
	b.Policy = append(r.network("policy", b.Shape.Network()), r.floats("policy_log_std", b.Shape.Action)...)
	b.Critic = r.network("feature", critic.Features(o))
	b.Critic = append(b.Critic, r.floats("value_w", 1, lastSize(critic.Features(o)))...)
	b.Critic = append(b.Critic, r.floats("value_b", 1)...)

	number := func(name string) float64 { return r.within(name, -math.MaxFloat64, math.MaxFloat64) }
	b.Kernel = gp.Kernel{C1: number("c1"), C2: number("c2"), Hyper: gp.Hyper{
		Base: []float64{number("lengthscale")}, OutputScale: number("outputscale"),
		FisherVariance: number("fisher_variance"), Noise: number("noise"),
	}}
	b.Epsilon = r.within("epsilon", 1, math.MaxFloat64)
	b.Damping = r.within("damping", math.SmallestNonzeroFloat64, math.MaxFloat64)
	b.Gamma, b.Lambda = r.within("gamma", 0, 1), r.within("gae_lambda", 0, 1)
	rank := r.within("rank", -1<<31, 1<<31)
	if b.Rank = int(rank); rank != math.Trunc(rank) {
		r.check(fmt.Errorf("rank is %v, want a whole number", rank))
	}
	if r.check(b.Kernel.Validate()); r.err != nil {
		return nil, r.err
	}
	if n, p := b.Samples(), len(b.Policy); b.Rank < 1 || b.Rank > min(n, p) {
		return nil, &linop.RankError{Rank: b.Rank, Samples: n, Parameters: p}
	}
	return b, nil
}

// reader takes arrays out of a file; after the first error it returns zeros.
type reader struct {
	arrays npz.Arrays
	err    error
}

// check keeps the first error.
func (r *reader) check(err error) {
	if r.err == nil {
		r.err = err
	}
}

// floats returns an array of finite numbers, none of its dimensions 0; -1 matches any.
func (r *reader) floats(name string, shape ...int) []float64 {
	if r.err != nil {
		return nil
	}
	x, err := r.arrays.Float64s(name, shape...)
	if r.check(err); err != nil {
		return nil
	}
	if len(x) == 0 {
		r.check(fmt.Errorf("array %q is empty: its shape is %v", name, r.arrays[name].Shape))
	}
	for i, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			r.check(fmt.Errorf("array %q: element %d (row-major) is %v", name, i, v))
			return nil
		}
	}
	return x
}

// dim returns one dimension of an array, 1 where it has no such dimension, which an
// earlier or a later floats reports.
func (r *reader) dim(name string, axis int) int {
	if shape := r.arrays[name].Shape; axis < len(shape) {
		return shape[axis]
	}
	if _, ok := r.arrays[name]; !ok {
		r.check(fmt.Errorf("array %q is missing", name))
	}
	return 1
}

// network returns the flat parameters of PREFIX_w1, PREFIX_b1, PREFIX_w2, ...
func (r *reader) network(prefix string, m nn.MLP) []float64 {
	var flat []float64
	for i, layer := range m.Layers() {
		flat = append(flat, r.floats(fmt.Sprintf("%s_w%d", prefix, i+1), layer.Out, layer.In)...)
		flat = append(flat, r.floats(fmt.Sprintf("%s_b%d", prefix, i+1), layer.Out)...)
	}
	return flat
}

// within returns a scalar in [low, high].
func (r *reader) within(name string, low, high float64) float64 {
	if r.err != nil {
		return 1
	}
	x, err := r.arrays.Float64(name)
	if r.check(err); err == nil && !(x >= low && x <= high) {
		r.check(fmt.Errorf("%s is %v, want a number between %v and %v", name, x, low, high))
	}
	return x
}

// episodes returns the lengths of the episodes whose last steps are true.
func (r *reader) episodes(name string, n int) (lengths []int) {
	if r.err != nil {
		return nil
	}
	dones, err := r.arrays.Bools(name, n)
	if r.check(err); err != nil {
		return nil
	}
	start := 0
	for i, done := range dones {
		if done {
			lengths = append(lengths, i+1-start)
			start = i + 1
		}
	}
	if start != n {
		r.check(fmt.Errorf("array %q: its last element is false, but the batch's last step must end an episode", name))
	}
	return lengths
}

// lastSize returns the number of a network's outputs.
func lastSize(m nn.MLP) int { return m.Sizes[len(m.Sizes)-1] }
