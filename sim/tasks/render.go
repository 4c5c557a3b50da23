package tasks

import "github.com/dbqpg/dbqpg/sim/mujoco"

// A Scene is a sim.Env that can be drawn: each of this package's.
type Scene interface {
	// NewRenderer returns what draws this environment, by the goroutine that made it.
	NewRenderer(width, height int) (*mujoco.Renderer, error)
	// Render draws the state into rgb: see mujoco.Renderer.
	Render(r *mujoco.Renderer, rgb []byte) error
	// StepSeconds returns how long a step is, in the simulation.
	StepSeconds() float64
}

var _ Scene = (*env)(nil)

func (e *env) NewRenderer(width, height int) (*mujoco.Renderer, error) {
	return mujoco.NewRenderer(e.model, width, height)
}

func (e *env) Render(r *mujoco.Renderer, rgb []byte) error { return r.Render(e.data, rgb) }

func (e *env) StepSeconds() float64 { return e.dt }
