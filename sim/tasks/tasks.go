// Package tasks holds the MuJoCo tasks, one file each: a task's observation, reward, termination and
// reset noise. The -v4 and -v5 tasks follow Gymnasium's environments of these names number by number
// (gymnasium/envs/mujoco/*_v4.py, *_v5.py). The -v2 tasks are the v4 ones but for the external contact forces on the
// bodies: these are zero, as they were with MuJoCo 2.0, on which the published results of the -v2 tasks were obtained.
package tasks

import (
	"embed"
	"fmt"
	"math/rand/v2"

	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/mujoco"
)

// A task defines an environment. Its functions read the engine's state.
type task struct {
	// perturb adds the reset noise to the initial positions and velocities.
	perturb func(rng *rand.Rand, qpos, qvel []float64)
	// contactForces reports whether the engine computes the external contact forces, at some cost. Otherwise they are
	// zero, as in every -v2 task: MuJoCo computes them only if asked since 2.0, and the -v2 tasks do not ask.
	contactForces bool
	// observe writes the observation.
	observe func(d *mujoco.Data, observation []float64)
	// measure is a quantity that the reward compares before and after a step: mostly the robot's position along x, in
	// m.
	measure func(d *mujoco.Data) float64
	// reward is a step's reward.
	reward func(s step) float64
	// healthy reports whether the episode may go on; nil: always.
	healthy func(d *mujoco.Data) bool
}

// A step holds the inputs of its reward.
type step struct {
	*mujoco.Data            // the state after it
	action        []float64 // as given, not clamped
	before, after float64   // task.measure
	duration      float64   // in s
	healthy       bool      // task.healthy after it
}

// velocity is the mean speed over the step.
func (s step) velocity() float64 { return (s.after - s.before) / s.duration }

// alive is the reward for not having fallen, which the step that ends an episode earns too before v5.
func (s step) alive(reward float64, version int) float64 {
	if version >= 5 && !s.healthy {
		return 0
	}
	return reward
}

// families makes the tasks of a name, all versions of it, for their model. Each file adds its own.
var families = map[string]func(m *mujoco.Model, version int) task{}

// assets are the MJCF models, which set-up fetches (the folder's README keeps it from being empty before).
//
//go:embed assets
var assets embed.FS

// New returns a new instance of the named task, to be closed. The error wraps sim.ErrUnknownTask if there is
// no such task.
func New(name string) (sim.Env, error) {
	spec, err := sim.Lookup(name)
	if err != nil {
		return nil, err
	}
	e, err := newEnv(spec)
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", name, err)
	}
	return e, nil
}

func newEnv(spec sim.Spec) (*env, error) {
	mjcf, err := assets.ReadFile("assets/" + spec.Model)
	if err != nil {
		return nil, fmt.Errorf("the robot's model is not in this build (run `make setup` before building): %w", err)
	}
	model, err := mujoco.Compile(mjcf)
	if err != nil {
		return nil, err
	}
	data, err := mujoco.NewData(model)
	if err != nil {
		model.Close()
		return nil, err
	}
	family, version := sim.SplitName(spec.Name)
	return &env{
		spec:  spec,
		task:  families[family](model, version),
		model: model,
		data:  data,
		dt:    model.Timestep() * float64(spec.FrameSkip),
		qpos:  make([]float64, model.NumPositions()),
		qvel:  make([]float64, model.NumVelocities()),
	}, nil
}
