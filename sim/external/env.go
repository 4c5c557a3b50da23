package external

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/dbqpg/dbqpg/sim"
)

// env is one environment of a process. It implements sim.Remote.
type env struct {
	environments *Environments
	file         *File
	spec         sim.Spec
	process      *process // nil once closed
	call         call
	clipped      []float64 // the action
	steps        int       // of the episode
	ready        bool      // a step may be taken
}

func (e *env) Spec() sim.Spec { return e.spec }

// Truncated implements sim.Remote.
func (e *env) Truncated() bool {
	return e.call.truncated && !e.call.terminated && e.steps < e.spec.TimeLimit
}

func (e *env) Close() error {
	e.ready = false
	p := e.process
	if p == nil {
		return nil
	}
	e.process = nil
	return e.environments.leave(p, e.call.index)
}

// move leaves the process, if there is one, for one that is alive.
func (e *env) move() error {
	_ = e.Close() // it is dead
	p, index := e.environments.place(e.file)
	if err := p.open(); err != nil {
		_ = e.environments.leave(p, index)
		return e.wrap(err)
	}
	e.process, e.call.index, e.call.round = p, index, 0
	return nil
}

// Reset draws the seed that the process is given.
func (e *env) Reset(rng *rand.Rand, observation []float64) error {
	sim.CheckLength("external", "observation", observation, e.spec.ObservationDim)
	seed := rng.Uint32()
	if e.process == nil || e.process.dead() {
		if err := e.move(); err != nil {
			return err
		}
	}
	e.steps, e.call.truncated = 0, false
	e.call.seed, e.call.action, e.call.last = seed, nil, false
	return e.wrap(e.ask(observation))
}

// Step clips the action to the task's bounds.
func (e *env) Step(action, observation []float64) (reward float64, terminated bool, err error) {
	sim.CheckLength("external", "action", action, e.spec.ActionDim)
	sim.CheckLength("external", "observation", observation, e.spec.ObservationDim)
	if !e.ready {
		return 0, false, sim.ErrNotReset
	}
	for i, x := range action {
		if math.IsNaN(x) {
			e.ready = false
			return 0, false, e.wrap(fmt.Errorf("number %d of the action is %v", i, x))
		}
		e.clipped[i] = min(max(x, e.spec.Low[i]), e.spec.High[i])
	}
	e.steps++
	c := &e.call
	c.action, c.last = e.clipped, e.steps == e.spec.TimeLimit
	if err := e.ask(observation); err != nil {
		return 0, false, e.wrap(err)
	}
	e.ready = !e.Truncated()
	return c.reward, c.terminated, nil
}

// ask has the call answered and checks the answer.
func (e *env) ask(observation []float64) error {
	c := &e.call
	c.observation, c.reward, c.terminated, c.truncated, c.err = observation, 0, false, false, nil
	e.ready = false
	if err := e.process.ask(c); err != nil {
		return err
	}
	for i, x := range e.call.observation {
		if y := float64(float32(x)); 0*y != 0 {
			return fmt.Errorf("number %d of the observation is %v, which is not a finite float32", i, x)
		}
	}
	if r := e.call.reward; math.IsNaN(r) || math.IsInf(r, 0) {
		return fmt.Errorf("the reward is %v", r)
	}
	e.ready = true
	return nil
}

// wrap says whose error it is.
func (e *env) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("environment %s: %w", e.file.Name, err)
}
