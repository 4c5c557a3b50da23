// Package simtest provides an environment for tests: its steps cost nothing, its episodes are short and vary in length,
// and a test can delay it or make it fail.
package simtest

import (
	"fmt"
	"math/rand/v2"

	"github.com/dbqpg/dbqpg/sim"
)

// Spec describes the toy task.
var Spec = sim.Spec{Name: "Toy", ObservationDim: 3, ActionDim: 2, FrameSkip: 1, TimeLimit: 50}

// Toy is an environment that remembers its actions. An episode's length is drawn at its start, 1 to 80 steps, so that
// the time limit of 50 ends some.
type Toy struct {
	// BeforeStep, if set, is called before each step with the number of steps so far; an error
	// is the step's.
	BeforeStep func(steps int) error

	state  [3]float64
	steps  int
	length int
}

// New returns a toy; its signature is that of tasks.New.
func New(string) (sim.Env, error) { return &Toy{}, nil }

// Spec returns the package's.
func (e *Toy) Spec() sim.Spec { return Spec }

// Reset implements sim.Env.
func (e *Toy) Reset(rng *rand.Rand, observation []float64) error {
	for i := range e.state {
		e.state[i] = rng.NormFloat64()
	}
	e.steps, e.length = 0, 1+rng.IntN(80)
	copy(observation, e.state[:])
	return nil
}

// Step implements sim.Env.
func (e *Toy) Step(action, observation []float64) (reward float64, terminated bool, err error) {
	if e.BeforeStep != nil {
		if err := e.BeforeStep(e.steps); err != nil {
			return 0, false, err
		}
	}
	e.steps++
	for i := range e.state {
		e.state[i] = 0.9*e.state[i] + 0.1*action[i%len(action)]
		reward += e.state[i]
	}
	copy(observation, e.state[:])
	return reward, e.steps >= e.length, nil
}

// StateSize implements sim.Saver.
func (e *Toy) StateSize() int { return 5 }

// SaveState implements sim.Saver.
func (e *Toy) SaveState(dst []float64) []float64 {
	return append(append(dst, e.state[:]...), float64(e.steps), float64(e.length))
}

// LoadState implements sim.Saver.
func (e *Toy) LoadState(state []float64) error {
	if len(state) != e.StateSize() {
		return fmt.Errorf("toy: a state of %d numbers, want %d", len(state), e.StateSize())
	}
	copy(e.state[:], state)
	e.steps, e.length = int(state[3]), int(state[4])
	return nil
}

// Close implements sim.Env.
func (e *Toy) Close() error { return nil }
