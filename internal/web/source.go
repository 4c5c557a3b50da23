package web

import (
	"context"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/store"
)

// Source is where runs come from: the directory of a run that is being trained, a store of finished ones, or a coordinator.
type Source interface {
	// Runs returns all runs. Neither the slice nor what it refers to is changed afterwards.
	Runs(ctx context.Context) ([]Run, error)
	// Store has the runs' files, under their directories; nil if they are out of reach.
	Store() store.Store
}

// Run is what the table of runs shows of one.
type Run struct {
	Name       string `json:"name"` // unique
	Experiment string `json:"experiment,omitempty"`
	Task       string `json:"task"`
	Algorithm  string `json:"algorithm"`
	Estimator  string `json:"estimator"`
	Seed       string `json:"seed"`
	// Settings tell it from other runs, by their names in a configuration file; the seed is none of them.
	Settings map[string]string `json:"-"`

	State      State     `json:"state"`
	Reason     string    `json:"reason,omitempty"` // why it failed, or lost its last learner
	Iteration  uint64    `json:"iteration"`        // iterations completed
	Iterations uint64    `json:"iterations"`       // in all; 0 if that is not known
	Steps      uint64    `json:"steps"`            // of the environment
	AllSteps   uint64    `json:"all_steps"`        // in all; 0 if that is not known
	Return     Number    `json:"return"`           // of the last batch
	Best       Number    `json:"best"`             // mean return of the best evaluation
	ETA        Number    `json:"eta"`              // seconds until it is complete
	Learner    string    `json:"learner,omitempty"`
	Epoch      uint64    `json:"epoch,omitempty"`
	Heard      time.Time `json:"heard,omitzero"` // when it last gave a sign of life

	Elapsed   Number `json:"-"` // seconds of training so far
	Directory string `json:"-"` // key of its run directory in the store; "" while it has none
	Logs      string `json:"-"` // key of the directory of its logs; "" if there are none
}

// length returns how long the run is to be, if that is known.
func (r *Run) length() config.Length {
	return config.Length{Iterations: r.Iterations, Steps: r.AllSteps}
}

// State is the state of a run: one of a coordinator's registry, or Lost or Stopped.
type State = registry.RunState

// States that no registry records.
const (
	Lost    State = "lost"    // its learner has fallen silent
	Stopped State = "stopped" // it has no coordinator, and nobody trains it
)

// Number is a number whose JSON is null if it is NaN or infinite.
type Number float64

// None is the number that is not there.
var None = Number(math.NaN())

// given reports whether the number is there.
func (n Number) given() bool { return !math.IsNaN(float64(n)) }

// MarshalJSON implements [json.Marshaler].
func (n Number) MarshalJSON() ([]byte, error) { return appendNumber(nil, float64(n)), nil }

// Numbers is a list of them.
type Numbers []float32

// MarshalJSON implements [json.Marshaler].
func (n Numbers) MarshalJSON() ([]byte, error) {
	out := append(make([]byte, 0, 10*len(n)+2), '[')
	for i, v := range n {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendNumber(out, float64(v))
	}
	return append(out, ']'), nil
}

// appendNumber writes whole numbers exactly and others to seven digits, more than a screen shows.
func appendNumber(out []byte, v float64) []byte {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return append(out, "null"...)
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return strconv.AppendInt(out, int64(v), 10)
	}
	return strconv.AppendFloat(out, v, 'g', 7, 64)
}

// fields are the names, besides those of settings, by which runs are filtered, sorted and grouped.
var fields = []string{"name", "experiment", "task", "algorithm", "estimator", "seed", "state", "learner"}

// text returns a field or setting; "" if the run has none of that name.
func (r *Run) text(name string) string {
	switch name {
	case "name":
		return r.Name
	case "experiment":
		return r.Experiment
	case "task":
		return r.Task
	case "algorithm":
		return r.Algorithm
	case "estimator":
		return r.Estimator
	case "seed":
		return r.Seed
	case "state":
		return string(r.State)
	case "learner":
		return r.Learner
	}
	return r.Settings[name]
}

// number returns a column of the table as a number, NaN if it is none.
func (r *Run) number(name string) float64 {
	switch name {
	case "iteration":
		return float64(r.Iteration)
	case "iterations":
		return float64(r.Iterations)
	case "steps":
		return float64(r.Steps)
	case "all_steps":
		return float64(r.AllSteps)
	case "return":
		return float64(r.Return)
	case "best":
		return float64(r.Best)
	case "eta":
		return float64(r.ETA)
	case "epoch":
		return float64(r.Epoch)
	case "heard":
		return float64(r.Heard.UnixMilli())
	}
	if v, err := strconv.ParseFloat(r.text(name), 64); err == nil {
		return v
	}
	return math.NaN()
}

// varying returns the names of settings that do not have the same value in all runs, in order.
func varying(runs []Run) []string {
	first, differ := map[string]string{}, map[string]bool{}
	known := map[string]int{} // runs that have the setting
	var last map[string]string
	sets := 0 // distinct sets seen, of which adjacent runs share one
	for i := range runs {
		s := runs[i].Settings
		if i > 0 && sameMap(s, last) {
			continue
		}
		last = s
		sets++
		for name, value := range s {
			if known[name]++; known[name] == 1 {
				first[name] = value
			}
			differ[name] = differ[name] || value != first[name]
		}
	}
	for name, n := range known {
		differ[name] = differ[name] || n != sets
	}
	return slices.Sorted(func(yield func(string) bool) {
		for name := range maps.Keys(differ) {
			if differ[name] && !slices.Contains(fields, name) && !yield(name) {
				return
			}
		}
	})
}
