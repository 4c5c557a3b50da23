package tasks

import "github.com/dbqpg/dbqpg/sim/mujoco"

// A Scene is a sim.Env that can be drawn: each of this package's.
type Scene interface {
	// Simulation returns the engine's model and state. They are only to be looked at, but for forces that disturb the
	// robot.
	Simulation() (*mujoco.Model, *mujoco.Data)
	// StepSeconds returns how long a step is, in the simulation.
	StepSeconds() float64
}

var _ Scene = (*env)(nil)

func (e *env) Simulation() (*mujoco.Model, *mujoco.Data) { return e.model, e.data }

func (e *env) StepSeconds() float64 { return e.dt }
