package registry

import (
	"slices"

	"github.com/dbqpg/dbqpg/proto"
)

// Bounds of what steers runs.
const (
	MaxPriority = 1000    // and -MaxPriority is the least
	MaxLength   = 1 << 32 // iterations or steps
	maxTags     = 16
)

// Action is a change of a run by an operator.
type Action string

// The actions.
const (
	Cancel     Action = "cancel"     // ends a run, whoever holds it
	Retry      Action = "retry"      // queues a failed or cancelled run, which resumes from its last checkpoint
	Pause      Action = "pause"      // keeps a run from learners; its holder gives it up
	Resume     Action = "resume"     // queues a paused run
	Extend     Action = "extend"     // changes a run's length; one that is done is queued, and a holder gives it up
	Prioritize Action = "prioritize" // changes a run's priority
)

// Length is the number of iterations, or of environment steps, that a run has in all. The zero value is the length in
// the run's settings.
type Length struct {
	Iterations uint64 `json:"iterations,omitzero"`
	Steps      uint64 `json:"steps,omitzero"`
}

// Steer applies an action to a run, or to each run of an experiment that permits it. At least one must.
type Steer struct {
	Name     string `json:"name"` // of the run or the experiment
	Action   Action `json:"action"`
	Length          // for Extend
	Priority int    `json:"priority,omitempty"` // for Prioritize
}

// rule is the meaning of an action.
type rule struct {
	permitted func(*Steer, *Run) bool
	otherwise string // describes a run that does not permit it
	do        func(*Steer, *Run)
}

var rules = map[Action]rule{
	Cancel: {
		func(_ *Steer, r *Run) bool { return !r.State.Over() }, "over",
		func(_ *Steer, r *Run) { r.end(Cancelled, "") },
	},
	Retry: {
		func(_ *Steer, r *Run) bool { return r.State == Failed || r.State == Cancelled },
		"neither failed nor cancelled",
		func(_ *Steer, r *Run) {
			r.end(Queued, "")
			r.Losses = 0
		},
	},
	Pause: {
		func(_ *Steer, r *Run) bool { return !r.State.Over() && r.State != Paused }, "over, or paused",
		func(_ *Steer, r *Run) { r.end(Paused, "") },
	},
	Resume: {
		func(_ *Steer, r *Run) bool { return r.State == Paused }, "not paused",
		func(_ *Steer, r *Run) { r.end(Queued, "") },
	},
	Extend: {
		func(o *Steer, r *Run) bool { return r.Iteration() < o.Iterations || r.Steps < o.Steps }, "there already",
		func(o *Steer, r *Run) {
			if r.Length = o.Length; r.State == Running || r.State == Done {
				r.end(Queued, "")
			}
		},
	},
	Prioritize: {
		func(*Steer, *Run) bool { return true }, "",
		func(o *Steer, r *Run) { r.Priority = o.Priority },
	},
}

func (o *Steer) check() *Refusal {
	if _, ok := rules[o.Action]; !ok {
		return refuse(Invalid, "%.20q is not an action on runs", string(o.Action))
	}
	if n := o.Iterations + o.Steps; o.Action == Extend && (n < 1 || n > MaxLength || o.Iterations > 0 && o.Steps > 0) {
		return refuse(Invalid, "%d iterations, %d steps: one or the other, 1 to %d", o.Iterations, o.Steps, MaxLength)
	}
	return firstOf(checkName("a name", o.Name, proto.MaxName), checkPriority(o.Priority))
}

func checkPriority(p int) *Refusal {
	if p < -MaxPriority || p > MaxPriority {
		return refuse(Invalid, "a priority of %d; %d to %d are possible", p, -MaxPriority, MaxPriority)
	}
	return nil
}

func (o *Steer) apply(s *State) *Response {
	n, rule := 0, rules[o.Action]
	for i := range s.Runs {
		run := &s.Runs[i]
		if (run.Name == o.Name || run.Experiment == o.Name) && rule.permitted(o, run) {
			rule.do(o, run)
			s.touch(run)
			n++
		}
	}
	run := s.Run(o.Name)
	switch {
	case n == 0 && run == nil && s.Experiment(o.Name) == nil:
		return refused(NotFound, "there is no run or experiment called %s", o.Name)
	case n == 0:
		return refused(NotRunning, "%s is %s", o.Name, rule.otherwise)
	case run != nil:
		return s.changed(run)
	}
	return &Response{Runs: n}
}

// Drain keeps runs from a learner until another Drain with Off. It gives up the run that it has.
type Drain struct {
	Learner string `json:"learner"`
	Off     bool   `json:"off,omitempty"`
}

func (o *Drain) check() *Refusal { return checkName("a learner's name", o.Learner, maxName) }

func (o *Drain) apply(s *State) *Response {
	i := slices.Index(s.Drained, o.Learner)
	switch {
	case o.Off && i < 0:
		return refused(NotFound, "%s is not drained", o.Learner)
	case o.Off:
		s.Drained = slices.Delete(s.Drained, i, i+1)
		return &Response{}
	case i < 0 && len(s.Drained) == MaxDrained:
		return refused(Full, "at most %d learners are drained: end that of some", MaxDrained)
	case i < 0:
		s.Drained = append(s.Drained, o.Learner)
	}
	given := 0
	for r := range s.Runs {
		if run := &s.Runs[r]; run.Lease != nil && run.Lease.Learner == o.Learner {
			run.end(Queued, "")
			s.touch(run)
			given++
		}
	}
	return &Response{Runs: given}
}

// IsDrained refuses a learner that is to get no runs.
func (s *State) IsDrained(learner string) *Refusal {
	if !slices.Contains(s.Drained, learner) {
		return nil
	}
	return refuse(Drained, "%s is drained: it gets no runs until \"coordinator drain %s --off\"", learner, learner)
}
