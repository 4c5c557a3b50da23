package train

import (
	"fmt"

	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/learner/state"
)

// network is a learned part of a checkpoint.
type network interface {
	Visit(v *state.Visitor) // all of it
	// Learned visits the part that other runs may start with, which have the same base kernel or not.
	Learned(v *state.Visitor, sameKernel bool)
	Sizes() []int // of the layers
}

// networks returns the learned parts of the checkpoint besides the policy, by name.
func (l *Learner) networks() map[string]network {
	all := map[string]network{}
	if l.Critic != nil {
		all["critic"] = l.Critic
	}
	if values, ok := l.Values.(Network); ok {
		all["value_function"] = values
	}
	return all
}

// Start sets the state of a new run: an empty normaliser, no iteration completed. The
// learner must be new.
func (r *Run) Start(epoch uint64) {
	r.moments = policy.NewMoments(r.Shape.Observation)
	r.counters = runs.Counters{Epoch: epoch}
}

// StartFrom is Start with what another run has learned: its policy, which must have the same shape, and its normaliser;
// and, where both runs have a critic, its networks, with the process's hyperparameters if the base kernel is the same.
// The optimisers start anew.
func (r *Run) StartFrom(c *runs.Checkpoint, epoch uint64) error {
	if _, err := c.PolicyOf(r.Shape); err != nil {
		return err
	}
	r.Start(epoch)
	r.counters.From, r.warm = c.SHA256, true
	arrays := c.State.Arrays
	sameKernel := r.Critic != nil && c.Settings["base_kernel"] == r.Critic.Base().Name()
	err := state.Restore(arrays, func(v *state.Visitor) {
		r.visitPolicy(v)
		for name, network := range r.networks() {
			if _, ok := arrays[name+".params"]; ok {
				v.Part(name, func(v *state.Visitor) { network.Learned(v, sameKernel) })
			}
		}
	})
	if err != nil {
		return fmt.Errorf("%s: %w", c.Location, err)
	}
	return nil
}

// Resume sets the state from a checkpoint, under a new epoch.
func (r *Run) Resume(s *runs.State, epoch uint64) error {
	r.Start(epoch)
	if err := state.Restore(s.Arrays, r.visit); err != nil {
		return fmt.Errorf("the checkpoint: %w", err)
	}
	r.counters = s.Counters
	r.counters.Epoch = epoch
	r.saved = &runs.State{Counters: r.counters, Arrays: s.Arrays}
	return nil
}

// Counters returns how far the run has got.
func (r *Run) Counters() runs.Counters { return r.counters }

// state returns the state from which the run would resume, as far as the counters say.
func (r *Run) state(at runs.Counters) *runs.State {
	networks := map[string][]int{"policy": r.Shape.Network().Sizes}
	for name, network := range r.networks() {
		networks[name] = network.Sizes()
	}
	return &runs.State{Counters: at, Arrays: state.Save(r.visit), Networks: networks}
}

// visitPolicy visits the policy and the normaliser.
func (r *Run) visitPolicy(v *state.Visitor) {
	v.Array("policy.params", r.Params)
	v.Numbers("normalizer.count", state.Number{To: &r.moments.Count, Check: state.Count})
	v.Array("normalizer.mean", r.moments.Mean)
	v.Array("normalizer.m2", r.moments.M2)
}

// visit visits the arrays of a checkpoint.
func (r *Run) visit(v *state.Visitor) {
	r.visitPolicy(v)
	v.Constant("action.low", r.Low)
	v.Constant("action.high", r.High)
	if choices := make([]float64, len(r.Shape.Choices)); len(choices) > 0 {
		for i, n := range r.Shape.Choices {
			choices[i] = float64(n)
		}
		v.Constant("action.choices", choices)
	}
	v.Part("optimizer", r.Optimizer.Visit)
	for name, network := range r.networks() {
		v.Part(name, network.Visit)
	}
	if r.Segment > 0 {
		v.Optional(streamsArray, r.streamRows(), r.parseStreams)
	}
}
