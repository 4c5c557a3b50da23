// Package tasks holds the MuJoCo tasks, one file each: what a task observes, what it rewards, when it ends and how
// it starts. They follow Gymnasium's v4 environments number by number (gymnasium/envs/mujoco/*_v4.py), but for the
// external contact forces on the bodies: these are zero in a -v2 task, as they were with MuJoCo 2.0, on which the
// published results of the -v2 tasks were obtained.
package tasks

import (
	"embed"
	"fmt"
	"math/rand/v2"

	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/mujoco"
)

// A task is what makes one environment differ from another. Its functions read the engine's state.
type task struct {
	// perturb adds the reset noise to the initial positions and velocities.
	perturb func(rng *rand.Rand, qpos, qvel []float64)
	// contactForces reports whether the engine computes the external contact forces, at some cost. Otherwise they are
	// zero, as in every -v2 task: MuJoCo computes them only if asked since 2.0, and the -v2 tasks do not ask.
	contactForces bool
	// observe writes the observation.
	observe func(d *mujoco.Data, observation []float64)
	// position is where the robot is along x, in m: its mean speed over a step is the forward velocity.
	position func(d *mujoco.Data) float64
	// reward is a step's reward, at the state after it.
	reward func(d *mujoco.Data, action []float64, velocity float64) float64
	// healthy reports whether the episode may go on; nil: always.
	healthy func(d *mujoco.Data) bool
}

// tasks makes each task for its model.
var tasks = map[string]func(*mujoco.Model) task{
	"Ant-v2":             newAnt,
	"HalfCheetah-v2":     newHalfCheetah,
	"Hopper-v2":          newHopper,
	"Humanoid-v2":        newHumanoid,
	"HumanoidStandup-v2": newHumanoidStandup,
	"Swimmer-v2":         newSwimmer,
	"Walker2d-v2":        newWalker2d,
}

// assets are the MJCF models, which set-up fetches (the folder's README keeps it from being empty before).
//
//go:embed assets
var assets embed.FS

// New returns a new instance of the named task, to be closed. The error is a *sim.UnknownTaskError where there is
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
	return &env{
		spec:  spec,
		task:  tasks[spec.Name](model),
		model: model,
		data:  data,
		dt:    model.Timestep() * float64(spec.FrameSkip),
		qpos:  make([]float64, model.NumPositions()),
		qvel:  make([]float64, model.NumVelocities()),
	}, nil
}
