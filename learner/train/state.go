package train

import (
	"fmt"
	"slices"

	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/learner/critic"
	"github.com/dbqpg/dbqpg/learner/optim"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// valueFunction is the name of the value function's arrays in a checkpoint.
const valueFunction = "value_function"

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
	p, err := c.PolicyOf(r.Shape)
	if err != nil {
		return err
	}
	r.Start(epoch)
	copy(r.Params, p.Params)
	copy(r.moments.Mean, p.Moments.Mean)
	copy(r.moments.M2, p.Moments.M2)
	r.moments.Count = p.Moments.Count
	r.counters.From, r.warm = c.SHA256, true
	if learned := optim.State(c.State.Arrays).Part("critic"); r.Critic != nil && len(learned) > 0 {
		if err := r.Critic.Adopt(learned, c.Settings["base_kernel"] == r.Critic.Base().Name()); err != nil {
			return fmt.Errorf("%s: %w", c.Location, err)
		}
	}
	if learned := optim.State(c.State.Arrays).Part(valueFunction); r.Value != nil && len(learned) > 0 {
		if err := r.Value.Adopt(learned); err != nil {
			return fmt.Errorf("%s: %w", c.Location, err)
		}
	}
	return nil
}

// Resume sets the state from a checkpoint, under a new epoch.
func (r *Run) Resume(state *runs.State, epoch uint64) error {
	r.Start(epoch)
	arrays := optim.State(state.Arrays)
	count := make([]float64, 1)
	for _, x := range []struct {
		name string
		dst  []float64
	}{
		{"policy.params", r.Params},
		{"normalizer.count", count},
		{"normalizer.mean", r.moments.Mean},
		{"normalizer.m2", r.moments.M2},
	} {
		values, err := arrays.Array(x.name, len(x.dst))
		if err != nil {
			return fmt.Errorf("the checkpoint: %w", err)
		}
		copy(x.dst, values)
	}
	r.moments.Count = count[0]
	for i, name := range []string{"action.low", "action.high"} {
		now := [][]float64{r.Low, r.High}[i]
		if then, ok := arrays[name]; ok && !slices.Equal(then, now) { // format 2 has no bounds
			return fmt.Errorf("the checkpoint: %s was %v and is now %v", name, then, now)
		}
	}
	if err := r.Optimizer.Restore(arrays.Part("optimizer")); err != nil {
		return fmt.Errorf("the checkpoint's optimiser: %w", err)
	}
	if r.Critic != nil {
		if err := r.Critic.Restore(arrays.Part("critic")); err != nil {
			return fmt.Errorf("the checkpoint's critic: %w", err)
		}
	}
	if r.Value != nil {
		if err := r.Value.Restore(arrays.Part(valueFunction)); err != nil {
			return fmt.Errorf("the checkpoint: %w", err)
		}
	}
	if err := r.resumeStreams(arrays); err != nil {
		return fmt.Errorf("the checkpoint: %w", err)
	}
	r.counters = state.Counters
	r.counters.Epoch = epoch
	return nil
}

// Counters returns how far the run has got.
func (r *Run) Counters() runs.Counters { return r.counters }

// state returns the state from which the run would resume, as far as the counters say.
func (r *Run) state(at runs.Counters) *runs.State {
	arrays := optim.State{
		"policy.params":    r.Params,
		"normalizer.count": {r.moments.Count},
		"normalizer.mean":  r.moments.Mean,
		"normalizer.m2":    r.moments.M2,
		"action.low":       r.Low,
		"action.high":      r.High,
	}
	r.saveStreams(arrays)
	networks := map[string][]int{"policy": r.Shape.Mean().Sizes}
	arrays.Join("optimizer", r.Optimizer.State())
	if r.Critic != nil {
		arrays.Join("critic", r.Critic.State())
		networks["critic"] = critic.Value(r.Shape.Observation).Sizes
	}
	if r.Value != nil {
		arrays.Join(valueFunction, r.Value.State())
		networks[valueFunction] = r.Value.Sizes()
	}
	return &runs.State{Counters: at, Arrays: arrays, Networks: networks}
}
