package web

import (
	"context"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/dbqpg/dbqpg/internal/store"
)

// Source provides runs: the one that this process trains, those in a store, or a coordinator's.
type Source interface {
	// Runs returns all runs. Neither the slice nor anything it refers to is changed afterwards.
	Runs(ctx context.Context) ([]Run, error)
	// Store has the runs' files, under their directories; nil if they are out of reach.
	Store() store.Store
}

// Run is a run as the table of runs shows it.
type Run struct {
	Name       string `json:"name"` // unique
	Experiment string `json:"experiment,omitempty"`
	Task       string `json:"task"`
	Algorithm  string `json:"algorithm"`
	Estimator  string `json:"estimator"`
	Seed       string `json:"seed"`
	// Settings distinguish it from other runs, by their names in a configuration file; they exclude the seed.
	Settings map[string]string `json:"-"`

	Row
	State   State  `json:"state"`
	Reason  string `json:"reason,omitempty"` // why it failed, or lost its last learner
	Learner string `json:"learner,omitempty"`
	Epoch   uint64 `json:"epoch,omitempty"`

	Elapsed   Number `json:"-"` // seconds of training so far
	Directory string `json:"-"` // key of its run directory in the store; "" while it has none
	Logs      string `json:"-"` // key of the directory of its logs; "" if there are none
}

// Row has the columns that the table shows of runs and of groups.
type Row struct {
	Iteration  Number    `json:"iteration"`      // iterations completed
	Iterations Number    `json:"iterations"`     // in all; 0 if unknown
	Steps      Number    `json:"steps"`          // of the environment
	AllSteps   Number    `json:"all_steps"`      // in all; 0 if unknown
	Return     Number    `json:"return"`         // of the last batch
	Best       Number    `json:"best"`           // mean return of the best evaluation
	ETA        Number    `json:"eta"`            // seconds until it is complete
	Heard      time.Time `json:"heard,omitzero"` // time of the last sign of life
}

// progress returns the iterations or steps done, and the total, 0 if unknown.
func (r *Row) progress() (done, all Number) {
	if r.AllSteps > 0 {
		return r.Steps, r.AllSteps
	}
	return r.Iteration, r.Iterations
}

// Remaining estimates the seconds that the rest of a run takes, at its pace so far.
func (r *Run) Remaining() Number {
	done, all := r.progress()
	if done == 0 || all < done {
		return None
	}
	return r.Elapsed / done * (all - done)
}

// State is the state of a run: one of a coordinator's registry, or Lost or Stopped.
type State string

// The states that this package tells apart.
const (
	Running State = "running"
	Done    State = "done"
	Lost    State = "lost"    // its learner has fallen silent
	Stopped State = "stopped" // it has no coordinator, and is not being trained
)

// Number is a number whose JSON is null if it is NaN or infinite.
type Number float64

// None is a missing number.
var None = Number(math.NaN())

// given reports whether the number is there.
func (n Number) given() bool { return !math.IsNaN(float64(n)) }

// MarshalJSON implements [json.Marshaler].
func (n Number) MarshalJSON() ([]byte, error) { return appendNumber(nil, float64(n)), nil }

// UnmarshalJSON implements [json.Unmarshaler].
func (n *Number) UnmarshalJSON(data []byte) error {
	*n = Number(parseNumber(data))
	return nil
}

// Numbers is a list of numbers, whose JSON has null for NaN.
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

// fields are the names, in addition to settings, by which runs are filtered, sorted and grouped.
var fields = []string{"name", "experiment", "task", "algorithm", "estimator", "seed", "state", "learner"}

// text returns a field or setting; "" if the run has none of that name.
func (r *Run) text(name string) string {
	values := []string{r.Name, r.Experiment, r.Task, r.Algorithm, r.Estimator, r.Seed, string(r.State), r.Learner}
	if i := slices.Index(fields, name); i >= 0 {
		return values[i]
	}
	return r.Settings[name]
}

// number returns a column as a number, NaN if it is not one.
func (r *Row) number(name string) float64 {
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
	case "heard":
		return float64(r.Heard.UnixMilli())
	}
	return nan
}

// number returns a column, field or setting as a number, NaN if it is not one.
func (r *Run) number(name string) float64 {
	switch v := r.Row.number(name); {
	case v == v:
		return v
	case name == "epoch":
		return float64(r.Epoch)
	}
	return parseNumber([]byte(r.text(name)))
}

// varying returns, in order, the names of the settings that differ among runs.
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
	maps.DeleteFunc(differ, func(name string, is bool) bool { return !is || slices.Contains(fields, name) })
	return slices.Sorted(maps.Keys(differ))
}
