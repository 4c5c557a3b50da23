package tasks

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/mujoco"
)

// ErrReward is returned by Step for a reward that is not a finite number.
var ErrReward = errors.New("reward is not finite")

// env runs one task. It implements sim.Saver.
type env struct {
	spec  sim.Spec
	task  task
	model *mujoco.Model
	data  *mujoco.Data
	dt    float64 // seconds a step

	ready      bool      // the state is one that a step may start from
	at         float64   // task.measure before the next step
	qpos, qvel []float64 // room for a start state
}

func (e *env) Spec() sim.Spec { return e.spec }

func (e *env) Close() error {
	e.ready = false
	e.data.Close()
	e.model.Close()
	return nil
}

func (e *env) Reset(rng *rand.Rand, observation []float64) error {
	copy(e.qpos, e.model.InitialPositions())
	clear(e.qvel)
	e.task.perturb(rng, e.qpos, e.qvel)
	return e.start(e.qpos, e.qvel, observation)
}

// SetState starts an episode like Reset, at the given positions and velocities (the engine's qpos and qvel) in place of
// the noisy initial ones, to replay a recorded trace. Wrong lengths and numbers that are not finite are errors.
func (e *env) SetState(qpos, qvel, observation []float64) error {
	if err := checkNumbers("qpos", qpos, len(e.qpos)); err != nil {
		return err
	}
	if err := checkNumbers("qvel", qvel, len(e.qvel)); err != nil {
		return err
	}
	return e.start(qpos, qvel, observation)
}

// checkNumbers refuses numbers that are not finite.
func checkNumbers(name string, v []float64, want int) error {
	if len(v) != want {
		return fmt.Errorf("%s has %d numbers, want %d", name, len(v), want)
	}
	for i, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("%s[%d] is %v", name, i, x)
		}
	}
	return nil
}

func (e *env) start(qpos, qvel, observation []float64) error {
	sim.CheckLength("tasks", "observation", observation, e.spec.ObservationDim)
	e.ready = false
	if err := e.data.Reset(qpos, qvel); err != nil {
		return err
	}
	e.task.observe(e.data, observation)
	e.at = e.task.measure(e.data)
	e.ready = true
	return nil
}

func (e *env) Step(action, observation []float64) (reward float64, terminated bool, err error) {
	sim.CheckLength("tasks", "action", action, e.spec.ActionDim)
	sim.CheckLength("tasks", "observation", observation, e.spec.ObservationDim)
	if !e.ready {
		return 0, false, sim.ErrNotReset
	}
	e.ready = false
	if err := checkNumbers("action", action, e.spec.ActionDim); err != nil {
		return 0, false, err
	}
	copy(e.data.Controls(), action)
	if err := e.data.Step(e.spec.FrameSkip, e.task.contactForces); err != nil {
		return 0, false, err
	}
	s := step{
		Data: e.data, action: action, duration: e.dt,
		before: e.at, after: e.task.measure(e.data),
		healthy: e.task.healthy == nil || e.task.healthy(e.data),
	}
	e.at = s.after
	e.task.observe(e.data, observation)
	reward = e.task.reward(s)
	if math.IsNaN(reward) || math.IsInf(reward, 0) {
		return 0, false, fmt.Errorf("%w: %v", ErrReward, reward)
	}
	e.ready = true
	return reward, !s.healthy, nil
}

// A state is what the next reward compares with, then the engine's state.

func (e *env) StateSize() int { return 1 + e.model.StateSize() }

func (e *env) SaveState(dst []float64) []float64 {
	if !e.ready {
		panic("tasks: " + sim.ErrNotReset.Error())
	}
	return e.data.Save(append(dst, e.at))
}

func (e *env) LoadState(state []float64) error {
	e.ready = false
	if err := checkNumbers("state", state, e.StateSize()); err != nil {
		return err
	}
	if err := e.data.Load(state[1:]); err != nil {
		return err
	}
	e.at, e.ready = state[0], true
	return nil
}

// Loop is the bare engine on this task: mj_step in C under each row of controls
// (steps × a), without observations, rewards or contact forces. It is what
// benchmarks compare with. The environment must be reset before it is used again.
func (e *env) Loop(controls []float64) error {
	e.ready = false
	return e.data.Loop(controls, e.spec.FrameSkip)
}
