package registry

import (
	"slices"
	"strconv"

	"github.com/dbqpg/dbqpg/proto"
)

// Bounds of what steers runs.
const (
	MaxPriority = 1000    // and -MaxPriority is the least
	MaxLength   = 1 << 32 // iterations or steps
	maxTags     = 16
)

// Pause keeps a run, or an experiment's runs that have not ended, from learners until Resume. A learner that has one gives it up.
type Pause struct {
	Name string `json:"name"`
}

// Resume queues paused runs again.
type Resume struct {
	Name string `json:"name"`
}

// Extend changes how many iterations, or environment steps, a run has in all, or an experiment's runs. Those that are done are queued
// again; a learner that has one gives it up, and whoever takes it next goes on from the last commit.
type Extend struct {
	Name       string `json:"name"`
	Iterations uint64 `json:"iterations,omitzero"`
	Steps      uint64 `json:"steps,omitzero"` // in place of iterations
}

// Prioritize changes the priority of a run, or of an experiment's: free runs of the highest are taken first.
type Prioritize struct {
	Name     string `json:"name"`
	Priority int    `json:"priority"`
}

// Drain keeps runs from a learner until it has left, or until another Drain with Off. It gives up the run that it has.
type Drain struct {
	Learner string `json:"learner"`
	Off     bool   `json:"off,omitempty"`
}

func (o *Pause) check() *Refusal  { return checkName("a name", o.Name, proto.MaxName) }
func (o *Resume) check() *Refusal { return checkName("a name", o.Name, proto.MaxName) }
func (o *Drain) check() *Refusal  { return checkName("a learner's name", o.Learner, maxName) }

// length returns the new length and its unit, the setting's name.
func (o *Extend) length() (n uint64, unit string) {
	if o.Steps > 0 {
		return o.Steps, "steps"
	}
	return o.Iterations, "iterations"
}

func (o *Extend) check() *Refusal {
	if n, unit := o.length(); n < 1 || n > MaxLength {
		return refuse(Invalid, "%d %s; 1 to %d are possible", n, unit, MaxLength)
	}
	if o.Iterations > 0 && o.Steps > 0 {
		return refuse(Invalid, "%d iterations and %d steps: give one or the other", o.Iterations, o.Steps)
	}
	return checkName("a name", o.Name, proto.MaxName)
}

func (o *Prioritize) check() *Refusal {
	return firstOf(checkName("a name", o.Name, proto.MaxName), checkPriority(o.Priority))
}

func checkPriority(p int) *Refusal {
	if p < -MaxPriority || p > MaxPriority {
		return refuse(Invalid, "a priority of %d; %d to %d are possible", p, -MaxPriority, MaxPriority)
	}
	return nil
}

func (o *Pause) apply(s *State) *Response {
	return s.each(o.Name, "over, or paused", func(run *Run) bool { return !run.State.Over() && run.State != Paused }, func(run *Run) { run.end(Paused, "") })
}

func (o *Resume) apply(s *State) *Response {
	return s.each(o.Name, "not paused", func(run *Run) bool { return run.State == Paused }, func(run *Run) { run.end(Queued, "") })
}

func (o *Extend) apply(s *State) *Response {
	n, unit := o.length()
	further := func(run *Run) bool { return run.Iteration() < o.Iterations || run.Steps < o.Steps }
	return s.each(o.Name, "there already", further, func(run *Run) {
		total := Setting{unit, strconv.FormatUint(n, 10)}
		run.Settings = slices.Clone(run.Settings)
		if i := slices.IndexFunc(run.Settings, func(s Setting) bool { return s.Name == "iterations" || s.Name == "steps" }); i >= 0 {
			run.Settings[i] = total
		} else {
			run.Settings = append(run.Settings, total)
		}
		if run.State == Running || run.State == Done {
			run.end(Queued, "")
		}
	})
}

func (o *Prioritize) apply(s *State) *Response {
	return s.each(o.Name, "", func(*Run) bool { return true }, func(run *Run) { run.Priority = o.Priority })
}

func (o *Drain) apply(s *State) *Response {
	i := slices.IndexFunc(s.Seen, func(v Seen) bool { return v.Role == Learner && v.Name == o.Learner })
	if i < 0 {
		return refused(refuse(NotFound, "there is no learner called %s", o.Learner))
	}
	s.Seen[i].Drained = !o.Off
	given := 0
	for r := range s.Runs {
		if run := &s.Runs[r]; !o.Off && run.Lease != nil && run.Lease.Learner == o.Learner {
			run.end(Queued, "")
			s.touch(run)
			given++
		}
	}
	return &Response{Runs: given}
}

// Drained refuses a learner that is to get no runs.
func (s *State) Drained(learner string) *Refusal {
	if !slices.ContainsFunc(s.Seen, func(v Seen) bool { return v.Role == Learner && v.Name == learner && v.Drained }) {
		return nil
	}
	return refuse(Drained, "%s is drained: it gets no runs until \"coordinator drain %s --off\"", learner, learner)
}
