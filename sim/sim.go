// Package sim says what an environment is and which tasks there are. The tasks themselves are in sim/tasks.
package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/dbqpg/dbqpg/internal/nearest"
)

// A Spec describes one task. Its slices are shared and not to be changed.
type Spec struct {
	Name           string    // as in Gymnasium, e.g. "Swimmer-v2"
	Model          string    // the MJCF file that describes the robot
	ObservationDim int       // length of an observation
	ActionDim      int       // length of an action: one control an actuator
	Low, High      []float64 // bounds of an action, as in Gymnasium's action_space: the engine clamps controls to them
	FrameSkip      int       // engine steps an action is applied for
	TimeLimit      int       // steps after which an episode that has not terminated is ended
}

// specs is the one table of tasks, sorted by name. A -v2 task has the observations and rewards that were published
// under its name, on today's MuJoCo: Gymnasium's v4 with all external contact forces zero, as MuJoCo 2.0 left them.
// The last 84 numbers that Ant and the humanoids observe are these forces.
var specs = []Spec{
	spec("Ant-v2", "ant.xml", 111, 8, 1, 5, 1000),
	spec("HalfCheetah-v2", "half_cheetah.xml", 17, 6, 1, 5, 1000),
	spec("Hopper-v2", "hopper.xml", 11, 3, 1, 4, 1000),
	spec("Humanoid-v2", "humanoid.xml", 376, 17, 0.4, 5, 1000),
	spec("HumanoidStandup-v2", "humanoidstandup.xml", 376, 17, 0.4, 5, 1000),
	spec("Swimmer-v2", "swimmer.xml", 8, 2, 1, 4, 1000),
	spec("Walker2d-v2", "walker2d.xml", 17, 6, 1, 4, 1000),
}

// spec returns a row of the table. Each element of an action is within ±bound.
func spec(name, model string, observations, actions int, bound float64, frameSkip, timeLimit int) Spec {
	low, high := slices.Repeat([]float64{-bound}, actions), slices.Repeat([]float64{bound}, actions)
	return Spec{name, model, observations, actions, low, high, frameSkip, timeLimit}
}

// Tasks returns every task, sorted by name.
func Tasks() []Spec { return slices.Clone(specs) }

// Lookup returns the task of that name, or an *UnknownTaskError.
func Lookup(name string) (Spec, error) {
	for _, spec := range specs {
		if spec.Name == name {
			return spec, nil
		}
	}
	var names []string
	for _, spec := range specs {
		names = append(names, spec.Name)
	}
	meant, _ := nearest.Name(name, names)
	return Spec{}, &UnknownTaskError{Name: name, Nearest: meant}
}

// An UnknownTaskError reports that there is no task of a name, and suggests the nearest name.
type UnknownTaskError struct {
	Name    string
	Nearest string
}

func (e *UnknownTaskError) Error() string {
	return fmt.Sprintf("unknown task %q: did you mean %s?", e.Name, e.Nearest)
}

// An Env is one running instance of a task. It is used by one goroutine at a time; different ones are independent.
//
// Lengths of slices are those of the Spec; anything else is a programmer's mistake and panics. An error means that
// the engine could not continue, for instance because a control is not a number; after one, only Reset and Close
// may be called.
type Env interface {
	Spec() Spec

	// Reset starts an episode: it puts the engine back to its initial state with nothing carried over (the
	// contact solver's warm start cleared), draws the task's reset noise from rng and writes the first observation.
	Reset(rng *rand.Rand, observation []float64) error

	// Step applies the action as given for FrameSkip engine steps, writes the observation after it and returns
	// the step's reward and whether the task's own rules end the episode (the time limit is the caller's).
	// The engine clamps controls to their range; the reward's control cost does not.
	Step(action, observation []float64) (reward float64, terminated bool, err error)

	// Close frees the engine's memory. Closing twice is harmless.
	Close() error
}

// A StateSetter is an Env whose engine state can be set, as replaying a recorded trace needs.
type StateSetter interface {
	// SetState starts an episode like Reset, at the given positions and velocities (the engine's qpos and qvel)
	// in place of the noisy initial ones. Wrong lengths and numbers that are not finite are errors.
	SetState(qpos, qvel, observation []float64) error
}
