package proto

import (
	"fmt"
	"math"
)

// An Episode is the result of one ticket, or a part of that of a [Segment]: T steps with o observation and a action
// dimensions. Observations and actions are float32, and the actor acted on exactly these
// values, so that both sides see the same numbers.
type Episode struct {
	Ticket Ticket
	// Engine names the physics engine, its version and the class of CPU: results
	// differ in the last bits between classes.
	Engine string
	// Observations is T x o, row-major: row t is the observation that action t was taken
	// on, not normalised.
	Observations Array[float32]
	// FinalObservation is the observation after the last action, of length o.
	FinalObservation Array[float32]
	// Actions is T x a, row-major, as sampled and applied.
	Actions Array[float32]
	// Rewards has length T.
	Rewards Array[float64]
	// Terminated reports that the task ended the episode; otherwise the time limit did.
	Terminated bool

	// Before is the part of the episode in earlier segments, and GoesOn reports that it continues in the next one.
	// They are not sent: an episode of its own ticket is complete.
	Before Before `msgpack:"-"`
	GoesOn bool   `msgpack:"-"`
}

// Before is the part of an episode that was played before: the number of its steps and the sum of their rewards.
// Partial marks a stream's first episode, which ends early because it counts steps that were never played ([Start]).
type Before struct {
	Steps   int
	Return  float64
	Partial bool
}

// PlayedOn sets Engine.
func (e *Episode) PlayedOn(engine string) { e.Engine = engine }

// Steps returns T.
func (e *Episode) Steps() int { return len(e.Rewards) }

// ObservationDim returns o.
func (e *Episode) ObservationDim() int { return len(e.FinalObservation) }

// ActionDim returns a.
func (e *Episode) ActionDim() int { return len(e.Actions) / max(e.Steps(), 1) }

// Return returns the sum of the rewards, from the episode's first on.
func (e *Episode) Return() float64 {
	sum := e.Before.Return
	for _, r := range e.Rewards {
		sum += r
	}
	return sum
}

func (e *Episode) kind() string { return "episode" }
func (e *Episode) limit() int   { return MaxEpisode }
func (e *Episode) check() error {
	if err := firstError(e.Ticket.check(), checkLength("engine", e.Engine, MaxName)); err != nil {
		return err
	}
	steps, o := e.Steps(), e.ObservationDim()
	if steps == 0 || o == 0 || len(e.Actions) == 0 ||
		len(e.Observations) != steps*o || len(e.Actions)%steps != 0 {
		return fmt.Errorf("%w: %d rewards, %d observations of dimension %d, %d actions",
			ErrShape, steps, len(e.Observations), o, len(e.Actions))
	}
	return firstError(
		finite("observations", e.Observations, o),
		finite("final_observation", e.FinalObservation, 1),
		finite("actions", e.Actions, e.ActionDim()),
		finite("rewards", e.Rewards, 1),
	)
}

// finite returns an error that names the row and column of the first number that is not between -[MaxNumber] and
// MaxNumber.
func finite[T float32 | float64](field string, v []T, columns int) error {
	for i, x := range v {
		if !(x >= -MaxNumber && x <= MaxNumber) {
			return fmt.Errorf("%s: %w: %v at row %d, column %d", field, ErrNotFinite, x, i/columns, i%columns)
		}
	}
	return nil
}

// A Policy is one version of a run's policy, as actors need it.
type Policy struct {
	// Run, Epoch and Batch, the number of the batch that is played with it, identify it.
	Run          string
	Epoch, Batch uint64
	// Task names the task, "Swimmer-v2".
	Task string
	// Hidden are the widths of the hidden layers.
	Hidden []int
	// Params are the parameters as one vector.
	Params Array[float64]
	// Mean and Std, one value per dimension, normalise an observation; the result is
	// clipped at +-Clip, or not clipped if Clip is 0.
	Mean, Std Array[float64]
	Clip      float64
}

// Position returns the position that the policy belongs to.
func (p *Policy) Position() Position { return Position{Epoch: p.Epoch, Batch: p.Batch} }

func (p *Policy) kind() string { return "policy" }
func (p *Policy) limit() int   { return MaxPolicy }
func (p *Policy) check() error {
	if len(p.Params) == 0 || len(p.Mean) == 0 || len(p.Mean) != len(p.Std) {
		return fmt.Errorf("%w: %d parameters, normaliser of %d means and %d standard deviations",
			ErrShape, len(p.Params), len(p.Mean), len(p.Std))
	}
	if len(p.Hidden) > MaxLayers {
		return fmt.Errorf("hidden: %w: %d layers, at most %d are allowed", ErrTooLarge, len(p.Hidden), MaxLayers)
	}
	for _, width := range p.Hidden {
		if width < 1 || width > math.MaxInt32 {
			return fmt.Errorf("hidden: %w: a layer of width %d", ErrInvalid, width)
		}
	}
	for i, s := range p.Std {
		if s < 0 {
			return fmt.Errorf("std: %w: %v at row %d", ErrInvalid, s, i)
		}
	}
	if p.Clip < 0 {
		return fmt.Errorf("clip: %w: %v", ErrInvalid, p.Clip)
	}
	return firstError(
		CheckRun(p.Run),
		checkName("task", p.Task),
		finite("params", p.Params, 1),
		finite("mean", p.Mean, 1),
		finite("std", p.Std, 1),
		finite("clip", []float64{p.Clip}, 1),
	)
}
