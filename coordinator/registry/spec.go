package registry

import (
	"fmt"
	"strings"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/proto"
)

// Limits on a spec.
const (
	MaxAxis     = 1000   // values of one axis
	MaxExpanded = 10_000 // runs of one experiment
	maxAxes     = 64     // overridden settings
	maxValue    = 256    // bytes of a setting's value
	maxName     = 64     // bytes of an experiment's name
)

// Spec describes an experiment, whose runs are all combinations of its axes.
type Spec struct {
	Name       string     `json:"name"`
	Tasks      []string   `json:"tasks"`
	Algorithms []string   `json:"algorithms"`
	Estimators []string   `json:"estimators"`
	Seeds      []uint64   `json:"seeds"`
	Overrides  []Override `json:"overrides,omitempty"`
	Priority   int        `json:"priority,omitempty"` // free runs of the highest are taken first
	Tags       []string   `json:"tags,omitempty"`     // for whoever looks for experiments
}

// Override is a setting with the values to try.
type Override = config.Axis

// Setting is a setting with its value.
type Setting = config.Assignment

// Check returns a *Refusal if the spec is malformed. The registry does not know which tasks
// and settings exist.
func (s *Spec) Check() error {
	if r := s.check(); r != nil {
		return r
	}
	return nil
}

func (s *Spec) check() *Refusal {
	if strings.Contains(s.Name, "/") || len(s.Name) <= maxName && proto.CheckRun(s.Name) != nil {
		return refuse(Invalid, "an experiment's name, %.40q: at least one of letters, digits, - _ and =", s.Name)
	}
	if r := checkName("an experiment's name", s.Name, maxName); r != nil {
		return r
	}
	for _, axis := range []struct {
		name   string
		values []string
	}{{"tasks", s.Tasks}, {"algorithms", s.Algorithms}, {"estimators", s.Estimators}} {
		if r := checkAxis(axis.name, axis.values, checkPart); r != nil {
			return r
		}
	}
	seed := func(string, uint64) *Refusal { return nil }
	if r := checkAxis("seeds", s.Seeds, seed); r != nil {
		return r
	}
	if r := firstOf(s.checkOverrides(), checkPriority(s.Priority)); r != nil {
		return r
	}
	if len(s.Tags) > 0 {
		if r := checkAxis("tags", s.Tags, checkPart); r != nil {
			return r
		}
	}
	if len(s.Tags) > maxTags {
		return refuse(Invalid, "%d tags; at most %d are possible", len(s.Tags), maxTags)
	}
	if n := s.Size(); n > MaxExpanded {
		return refuse(Invalid, "%d or more runs; an experiment has at most %d: split it", n, MaxExpanded)
	}
	for _, run := range s.Expand() {
		if err := proto.CheckRun(run.Name); err != nil {
			return refuse(Invalid, "a run would be called %q, which is not a valid name: %v", run.Name, err)
		}
	}
	return nil
}

func (s *Spec) checkOverrides() *Refusal {
	if len(s.Overrides) > maxAxes {
		return refuse(Invalid, "%d settings are overridden, at most %d can be", len(s.Overrides), maxAxes)
	}
	seen := map[string]bool{}
	for _, o := range s.Overrides {
		if r := checkName("a setting's name", o.Name, maxName); r != nil {
			return r
		}
		if seen[o.Name] {
			return refuse(Invalid, "%s is overridden twice", o.Name)
		}
		seen[o.Name] = true
		if r := checkAxis(o.Name, o.Values, checkValue); r != nil {
			return r
		}
	}
	return nil
}

// checkAxis refuses an axis that is empty or too long, or has an invalid or repeated value.
func checkAxis[T comparable](name string, values []T, check func(string, T) *Refusal) *Refusal {
	if len(values) == 0 || len(values) > MaxAxis {
		return refuse(Invalid, "%s: %d values; 1 to %d are allowed", name, len(values), MaxAxis)
	}
	seen := make(map[T]bool, len(values))
	for _, v := range values {
		if seen[v] {
			return refuse(Invalid, "%s: %v is given twice", name, v)
		}
		seen[v] = true
		if r := check(name, v); r != nil {
			return r
		}
	}
	return nil
}

func checkPart(axis, value string) *Refusal { return checkName("a name among "+axis, value, maxName) }

func checkValue(name, value string) *Refusal {
	if value == "" {
		return refuse(Invalid, "%s: a value is empty", name)
	}
	return checkText(name, value, maxValue)
}

// Size returns the number of runs, or some number above MaxExpanded if there are more than that.
func (s *Spec) Size() int {
	n, factors := 1, []int{len(s.Tasks), len(s.Algorithms), len(s.Estimators), len(s.Seeds)}
	for _, o := range s.Overrides {
		factors = append(factors, len(o.Values))
	}
	for _, f := range factors {
		if n *= f; n > MaxExpanded {
			return n
		}
	}
	return n
}

// Expand returns the runs, queued, in order: the last axis, the seed, varies fastest, so that
// the seeds of a setting are adjacent. A run is named
// EXPERIMENT/TASK/ALGORITHM-ESTIMATOR-sSEED, with -vN before the seed if overrides have
// several values: N counts their combinations from 1.
func (s *Spec) Expand() []Run {
	axes := config.Grid(config.Axis{Values: s.Tasks}, config.Axis{Values: s.Algorithms}, config.Axis{Values: s.Estimators})
	variants := config.Grid(s.Overrides...)
	var runs []Run
	for _, of := range axes {
		for v, settings := range variants {
			run := Run{Experiment: s.Name, Task: of[0].Value, Algorithm: of[1].Value, Estimator: of[2].Value,
				Settings: settings, Priority: s.Priority, State: Queued}
			name := fmt.Sprintf("%s/%s/%s-%s", s.Name, run.Task, run.Algorithm, run.Estimator)
			if len(variants) > 1 {
				name = fmt.Sprintf("%s-v%d", name, v+1)
			}
			for _, run.Seed = range s.Seeds {
				run.Name = fmt.Sprintf("%s-s%d", name, run.Seed)
				runs = append(runs, run)
			}
		}
	}
	return runs
}
