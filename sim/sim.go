// Package sim defines environments and lists the tasks, which package tasks implements.
package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// A Spec describes one task. Its slices are shared and not to be changed.
type Spec struct {
	Name           string    // as in Gymnasium, e.g. "Swimmer-v5"
	Model          string    // the MJCF file that describes the robot
	ObservationDim int       // length of an observation
	ActionDim      int       // length of an action: one control an actuator
	Low, High      []float64 // bounds of an action, as in Gymnasium's action_space: the engine clamps controls to them
	Choices        []int     // of each element of an action, which is an index from 0; nil: elements are real numbers
	FrameSkip      int       // engine steps an action is applied for
	TimeLimit      int       // steps after which an episode that has not terminated is ended
	Truncates      bool      // a limit of the environment's own may end an episode earlier: it is a Remote
}

// specs is the one table of tasks. A -v4 or -v5 task is Gymnasium's of that name. A -v2 task has the observations and
// rewards that were published under its name, on today's MuJoCo: Gymnasium's v4 with all external contact forces zero,
// as MuJoCo 2.0 left them.
var specs = slices.Concat(
	rows("Ant-v2", "ant.xml", 111, 8, 1, 5, 1000),
	rows("Ant-v4", "ant.xml", 27, 8, 1, 5, 1000),
	rows("Ant-v5", "ant.xml", 105, 8, 1, 5, 1000),
	rows("HalfCheetah-v2 HalfCheetah-v4 HalfCheetah-v5", "half_cheetah.xml", 17, 6, 1, 5, 1000),
	rows("Hopper-v2 Hopper-v4 Hopper-v5", "hopper.xml", 11, 3, 1, 4, 1000),
	rows("Humanoid-v2 Humanoid-v4", "humanoid.xml", 376, 17, 0.4, 5, 1000),
	rows("Humanoid-v5", "humanoid.xml", 348, 17, 0.4, 5, 1000),
	rows("HumanoidStandup-v2 HumanoidStandup-v4", "humanoidstandup.xml", 376, 17, 0.4, 5, 1000),
	rows("HumanoidStandup-v5", "humanoidstandup.xml", 348, 17, 0.4, 5, 1000),
	rows("InvertedPendulum-v2 InvertedPendulum-v4 InvertedPendulum-v5", "inverted_pendulum.xml", 4, 1, 3, 2, 1000),
	rows("Reacher-v2 Reacher-v4", "reacher.xml", 11, 2, 1, 2, 50),
	rows("Reacher-v5", "reacher.xml", 10, 2, 1, 2, 50),
	rows("Swimmer-v2 Swimmer-v4 Swimmer-v5", "swimmer.xml", 8, 2, 1, 4, 1000),
	rows("Walker2d-v2 Walker2d-v4", "walker2d.xml", 17, 6, 1, 4, 1000),
	rows("Walker2d-v5", "walker2d_v5.xml", 17, 6, 1, 4, 1000),
)

// rows returns the tasks of these names. Each element of an action is within ±bound.
func rows(names, model string, observations, actions int, bound float64, frameSkip, timeLimit int) (specs []Spec) {
	low, high := slices.Repeat([]float64{-bound}, actions), slices.Repeat([]float64{bound}, actions)
	for _, name := range strings.Fields(names) {
		specs = append(specs, Spec{Name: name, Model: model, ObservationDim: observations, ActionDim: actions,
			Low: low, High: high, FrameSkip: frameSkip, TimeLimit: timeLimit})
	}
	return specs
}

// Tasks returns every task, sorted by name.
func Tasks() []Spec { return slices.Clone(specs) }

// Newest returns the names of the tasks in their newest versions, sorted.
func Newest() (names []string) {
	for i, spec := range specs {
		family, _ := SplitName(spec.Name)
		if i+1 < len(specs) {
			if next, _ := SplitName(specs[i+1].Name); next == family {
				continue
			}
		}
		names = append(names, spec.Name)
	}
	return names
}

// SplitName splits a task's name into its family and version: "Ant-v5" into "Ant" and 5.
// A name without a version is returned whole, with version 0.
func SplitName(name string) (family string, version int) {
	if i := strings.LastIndex(name, "-v"); i >= 0 {
		if version, err := strconv.Atoi(name[i+2:]); err == nil {
			return name[:i], version
		}
	}
	return name, 0
}

// CheckActions returns an error unless each element of these actions is an index below its number of choices. Actions
// of real numbers need no check.
func (s *Spec) CheckActions(actions []float32) error {
	if s.Choices == nil {
		return nil
	}
	for i, x := range actions {
		if n := s.Choices[i%len(s.Choices)]; !(x >= 0 && x < float32(n) && x == float32(int(x))) {
			return fmt.Errorf("element %d of an action of %s is %v, not an index below %d", i%len(s.Choices), s.Name, x, n)
		}
	}
	return nil
}

// ErrUnknownTask reports the name of a task that does not exist.
var ErrUnknownTask = errors.New("unknown task")

// Lookup returns the named task. The error wraps ErrUnknownTask.
func Lookup(name string) (Spec, error) {
	if i := slices.IndexFunc(specs, func(s Spec) bool { return s.Name == name }); i >= 0 {
		return specs[i], nil
	}
	return Spec{}, fmt.Errorf("%w %q", ErrUnknownTask, name)
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

// ErrNotReset is Step's error before the first Reset and after another error.
var ErrNotReset = errors.New("step without a reset after the start or an error")

// CheckLength panics, in the name of an Env's package, unless one of its arguments has the Spec's length.
func CheckLength(owner, name string, v []float64, want int) {
	if len(v) != want {
		panic(fmt.Sprintf("%s: %s has length %d, want %d", owner, name, len(v), want))
	}
}

// A Saver is an Env whose episodes can be interrupted: another instance of the task goes on from the saved state, on
// any machine of the same engine, and every step after it is the same to the last bit.
type Saver interface {
	Env

	// StateSize returns the length of a state.
	StateSize() int

	// SaveState appends the state to dst: everything that later steps depend on. It is called between Reset, or Step,
	// and the next Step.
	SaveState(dst []float64) []float64

	// LoadState goes on from a saved state, as if its episode had been played here. A wrong length and numbers that are
	// not finite are errors.
	LoadState(state []float64) error
}

// A Remote is an Env that another process simulates: its caller waits most of the time.
type Remote interface {
	Env

	// Truncated reports whether the last step ended the episode without terminating it, before the Spec's time limit.
	Truncated() bool
}
