package config

import (
	"fmt"
	"math"
)

// Length is how long a run is: a number of iterations, or of environment steps. The other is 0.
type Length struct {
	Iterations uint64
	Steps      uint64 // the run ends with the first batch that reaches them
}

// Of returns how far a run has come, and how far it is to come: in steps if its length is in steps, else in iterations.
func (l Length) Of(iterations, steps uint64) (done, all uint64) {
	if l.Steps > 0 {
		return steps, l.Steps
	}
	return iterations, l.Iterations
}

// Reached reports whether a run is complete after so many iterations and environment steps.
func (l Length) Reached(iterations, steps uint64) bool {
	done, all := l.Of(iterations, steps)
	return done >= all
}

// Unit returns the unit of the length, which is also the name of its setting.
func (l Length) Unit() string {
	if l.Steps > 0 {
		return "steps"
	}
	return "iterations"
}

// Longer returns the flag that makes a complete run twice as long.
func (l Length) Longer(iterations, steps uint64) string {
	done, all := l.Of(iterations, steps)
	if 2*all > done {
		done = all
	}
	return fmt.Sprintf("--%s %d", l.Unit(), 2*done)
}

// validateLength checks the length of a new run.
func (s *Settings) validateLength(v *findings) {
	v.require(s.Iterations > 0 || s.Steps > 0, "--iterations 0: at least 1 is needed, or --steps")
	v.require(s.Iterations == 0 || s.Steps == 0,
		"--iterations %d and --steps %d: give one or the other", s.Iterations, s.Steps)
	if s.Steps == 0 || s.Batch < 1 {
		return
	}
	least := 2 * s.fullBatch()
	if s.From != "" {
		least = s.fullBatch()
	}
	v.require(s.Steps >= least,
		"--steps %d: at least %d are needed, for a batch of %d after the first one, which initialises the "+
			"normaliser; lower --batch", s.Steps, least, s.fullBatch())
}

// CheckRest returns an error if a run in segments, after so many steps, cannot end with exactly s.Steps because the
// rest is less than a batch.
func (s *Settings) CheckRest(steps uint64) error {
	if s.Segment == 0 || s.Steps <= steps || s.Steps-steps >= s.fullBatch() {
		return nil
	}
	return fmt.Errorf("--steps %d: the run has %d, and its next batch %d more; give %d or more", s.Steps, steps,
		s.fullBatch(), steps+s.fullBatch())
}

// fullBatch returns the minimum number of steps in a batch, including those for the Fisher matrix alone.
func (s *Settings) fullBatch() uint64 {
	if s.Segment > 0 {
		return uint64(NumStreams(s.Batch, s.Segment, s.FisherSamples) * s.Segment)
	}
	return uint64(math.Ceil(s.FisherSamples * float64(s.Batch)))
}

// NumStreams returns how many streams play a segment each in a batch of so many steps, multiplied by fisherSamples.
func NumStreams(batch, segment int, fisherSamples float64) int {
	return int(math.Ceil(fisherSamples*float64(batch)/float64(segment) - 1e-9))
}
