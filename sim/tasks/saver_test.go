package tasks

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/sim"
)

// Two environments that take turns, at random, play what one plays alone: to the last bit, over the ends of episodes
// too, with forces and contacts in between.
func TestInterruptedEpisodesAreTheSame(t *testing.T) {
	const steps = 60
	seed := rand.Uint64()
	forEach(t, func(t *testing.T, alone *env) {
		t.Logf("seed %d", seed)
		spec, turns := alone.spec, [2]*env{open(t, alone.spec.Name), open(t, alone.spec.Name)}
		rng, twin := streams.New(seed, 1), streams.New(seed, 1)
		coin := streams.New(seed, 2)
		observation, want := make([]float64, spec.ObservationDim), make([]float64, spec.ObservationDim)
		action := make([]float64, spec.ActionDim)
		check := func(step int) {
			t.Helper()
			if !slices.Equal(observation, want) {
				t.Fatalf("step %d: %v, want %v", step, observation, want)
			}
		}
		reset := func(step int) {
			if err := alone.Reset(twin, want); err != nil {
				t.Fatal(err)
			}
			if err := turns[0].Reset(rng, observation); err != nil {
				t.Fatal(err)
			}
			check(step)
		}
		reset(0)
		handed := 0
		for step := range steps {
			if coin.IntN(3) == 0 {
				state := turns[0].SaveState(nil)
				if len(state) != alone.StateSize() {
					t.Fatalf("a state of %d numbers, want %d", len(state), alone.StateSize())
				}
				if err := turns[1].LoadState(state); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(turns[1].SaveState(nil), state) {
					t.Fatal("what was loaded is not what is saved")
				}
				turns[0], turns[1] = turns[1], turns[0]
				handed++
			}
			for i := range action {
				action[i] = coin.NormFloat64()
			}
			wantReward, wantTerminated, err := alone.Step(action, want)
			if err != nil {
				t.Fatal(err)
			}
			reward, terminated, err := turns[0].Step(action, observation)
			if err != nil {
				t.Fatal(err)
			}
			check(step)
			if reward != wantReward || terminated != wantTerminated {
				t.Fatalf("step %d: reward %v, terminated %v; want %v, %v", step, reward, terminated, wantReward,
					wantTerminated)
			}
			if terminated || coin.IntN(40) == 0 {
				reset(step)
			}
		}
		if handed == 0 {
			t.Error("no state was handed over")
		}
	})
}

func TestHostileStates(t *testing.T) {
	for _, name := range sim.Newest() {
		e := open(t, name)
		play(t, e, 1, 1)
		state := e.SaveState(nil)
		for what, bad := range map[string][]float64{
			"none":     nil,
			"short":    state[1:],
			"long":     append(slices.Clone(state), 0),
			"NaN":      append(slices.Clone(state[:len(state)-1]), math.NaN()),
			"infinite": append([]float64{math.Inf(1)}, state[1:]...),
		} {
			if err := e.LoadState(bad); err == nil {
				t.Errorf("%s: %s: accepted", name, what)
			}
			if _, _, err := e.Step(make([]float64, e.spec.ActionDim),
				make([]float64, e.spec.ObservationDim)); !errors.Is(err, sim.ErrNotReset) {
				t.Errorf("%s: %s: a step after a refused state: %v", name, what, err)
			}
		}
		if err := e.LoadState(state); err != nil {
			t.Error(err)
		}
		// Finite numbers that no simulation would reach are an error of the step, never a crash.
		for _, x := range []float64{math.MaxFloat64, -1} {
			for i := range state {
				absurd := slices.Clone(state)
				absurd[i] = x
				if err := e.LoadState(absurd); err == nil {
					_, _, _ = e.Step(make([]float64, e.spec.ActionDim), make([]float64, e.spec.ObservationDim))
				}
			}
		}
	}
}
