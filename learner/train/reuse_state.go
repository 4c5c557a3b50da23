package train

import (
	"fmt"
	"math"
	"slices"

	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/learner/optim"
	"github.com/dbqpg/dbqpg/proto"
)

// reuseName is the name of the reuse's arrays in a checkpoint.
const reuseName = "reuse"

// The bits of how a kept episode ends.
const (
	endTerminated = 1 << iota
	endGoesOn
	ends
)

// state returns what a later iteration needs: the noise, and the kept batches' episodes, one after another.
func (u *Reuse) state() optim.State {
	kept := optim.State{"noise": slices.Clone(u.noise)}
	add := func(name string, values ...float64) { kept[name] = append(kept[name], values...) }
	for _, b := range u.kept {
		add("episodes", float64(len(b.episodes)))
		for _, e := range b.episodes {
			end := 0.0
			if e.Terminated {
				end += endTerminated
			}
			if e.GoesOn {
				end += endGoesOn
			}
			add("lengths", float64(e.Steps()))
			add("ends", end)
			add("rewards", e.Rewards...)
			add("observations", widen(e.Observations)...)
			add("final_observations", widen(e.FinalObservation)...)
			add("actions", widen(e.Actions)...)
		}
		if b.logProbs != nil {
			add("log_probs", b.logProbs...)
		}
	}
	return kept
}

// restore is the inverse of state, for a policy's shape after so many iterations. logProbs says whether the actions' are
// there. Nothing in the arrays is trusted. An error leaves u as it is.
func (u *Reuse) restore(arrays optim.State, shape policy.Shape, iterations uint64, logProbs bool) error {
	noise, err := arrays.Array("noise", u.Batches)
	if err != nil {
		return err
	}
	if slices.Min(noise) < 0 {
		return fmt.Errorf("the state's array %q has the number %v", "noise", slices.Min(noise))
	}
	var kept []keptBatch
	if batches := int(min(iterations, uint64(u.depth()))); batches > 0 {
		if kept, err = restoreBatches(arrays, shape, batches, logProbs); err != nil {
			return err
		}
	}
	u.kept, u.noise = kept, slices.Clone(noise)
	return nil
}

func restoreBatches(arrays optim.State, shape policy.Shape, batches int, logProbs bool) (kept []keptBatch, err error) {
	whole := func(name string, n, least, most int) (values []int, sum int) {
		x, e := arrays.Array(name, n)
		for _, v := range x {
			if !(v >= float64(least) && v <= float64(most)) || v != float64(int(v)) {
				e = fmt.Errorf("the state's array %q has the number %v", name, v)
				break
			}
			values, sum = append(values, int(v)), sum+int(v)
		}
		if err == nil {
			err = e
		}
		return values, sum
	}
	numbers := func(name string, n int) (x []float64) {
		if err == nil {
			x, err = arrays.Array(name, n)
		}
		return x
	}
	counts, episodes := whole("episodes", batches, 1, math.MaxInt32)
	lengths, steps := whole("lengths", episodes, 1, math.MaxInt32)
	ended, _ := whole("ends", episodes, 0, ends-1)
	rewards, observations := numbers("rewards", steps), numbers("observations", steps*shape.Observation)
	final, actions := numbers("final_observations", episodes*shape.Observation), numbers("actions", steps*shape.Action)
	var behaviour []float64
	if logProbs {
		behaviour = numbers("log_probs", steps)
	}
	if err != nil {
		return nil, err
	}
	cut := func(from *[]float64, n int) (part []float64) {
		part, *from = slices.Clone((*from)[:n]), (*from)[n:]
		return part
	}
	for _, count := range counts {
		var b keptBatch
		for range count {
			n, end := lengths[0], ended[0]
			lengths, ended = lengths[1:], ended[1:]
			b.episodes = append(b.episodes, &proto.Episode{
				Observations: narrow(cut(&observations, n*shape.Observation)), FinalObservation: narrow(cut(&final, shape.Observation)),
				Actions: narrow(cut(&actions, n*shape.Action)), Rewards: cut(&rewards, n),
				Terminated: end&endTerminated != 0, GoesOn: end&endGoesOn != 0,
			})
			if logProbs {
				b.logProbs = append(b.logProbs, cut(&behaviour, n)...)
			}
		}
		kept = append(kept, b)
	}
	return kept, nil
}

func widen(x []float32) []float64 {
	wide := make([]float64, len(x))
	for i, v := range x {
		wide[i] = float64(v)
	}
	return wide
}

func narrow(x []float64) []float32 {
	narrow := make([]float32, len(x))
	for i, v := range x {
		narrow[i] = float32(v)
	}
	return narrow
}
