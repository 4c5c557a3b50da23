package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/coordinator/sweep"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/nearest"
)

// selection is what list shows.
type selection struct {
	state, sort, tag string
	limit            int
}

func (l *selection) define(flags *pflag.FlagSet) {
	flags.StringVar(&l.state, "state", "", "only runs in this state: "+nearest.List(stateNames()))
	flags.StringVar(&l.sort, "sort", "", "order of runs: name, iteration, return, best, eta or updated, the largest or newest first except for names and eta")
	flags.StringVar(&l.tag, "tag", "", "only experiments with this tag")
	flags.IntVar(&l.limit, "limit", 0, "only so many; 0: all")
}

// listed is a run with what follows from its settings and its summary.
type listed struct {
	registry.Run
	Iterations uint64  `json:"iterations,omitempty"`  // that it will have in all
	AllSteps   uint64  `json:"all_steps,omitempty"`   // in place of iterations
	ETA        float64 `json:"eta_seconds,omitempty"` // of a run in training; 0: not known
}

// newListed estimates the time left as if the run went on as fast as so far.
func newListed(run registry.Run) listed {
	l := listed{Run: run}
	if settings, err := sweep.Settings(&run); err == nil {
		l.Iterations, l.AllSteps = settings.Iterations, settings.Steps
	}
	done, all := config.Length{Iterations: l.Iterations, Steps: l.AllSteps}.Of(run.Iteration(), run.Steps)
	if elapsed := run.Summary["seconds_elapsed"]; run.State == registry.Running && done > 0 && all > done && elapsed > 0 {
		l.ETA = elapsed / float64(done) * float64(all-done)
	}
	return l
}

// orders are the orders of --sort.
var orders = map[string]func(a, b listed) int{
	"name":      func(a, b listed) int { return strings.Compare(a.Name, b.Name) },
	"iteration": func(a, b listed) int { return cmp.Compare(b.Iteration(), a.Iteration()) },
	"return":    by("return_mean"),
	"best":      by("best_return"),
	"updated":   func(a, b listed) int { return b.Updated.Compare(a.Updated) },
	"eta": func(a, b listed) int {
		if (a.ETA == 0) != (b.ETA == 0) { // what is not known is last
			return cmp.Compare(b.ETA, a.ETA)
		}
		return cmp.Compare(a.ETA, b.ETA)
	},
}

// by compares a metric, the largest first; what does not have it is last.
func by(metric string) func(a, b listed) int {
	return func(a, b listed) int {
		x, first := a.Summary[metric]
		y, second := b.Summary[metric]
		if first != second {
			return map[bool]int{true: -1, false: 1}[first]
		}
		return cmp.Compare(y, x)
	}
}

func (s *session) list(ctx context.Context, args []string) error {
	experiments, err := s.Experiments(ctx)
	if err != nil {
		return err
	}
	tagged := slices.DeleteFunc(slices.Clone(experiments), func(e client.Experiment) bool { return s.tag != "" && !slices.Contains(e.Spec.Tags, s.tag) })
	if len(args) == 0 && s.state == "" && s.sort == "" {
		if s.limit > 0 {
			tagged = tagged[max(0, len(tagged)-s.limit):] // the newest
		}
		return s.table(client.Experiments{Experiments: tagged}, experimentTable(tagged))
	}
	q := client.Query{State: registry.RunState(s.state)}
	if len(args) > 0 {
		q.Experiment = args[0]
	}
	if s.state != "" && !slices.Contains(registry.States, q.State) {
		return fmt.Errorf("--state %s: a run is %s", s.state, nearest.List(stateNames()))
	}
	order, known := orders[s.sort]
	if s.sort != "" && !known {
		return fmt.Errorf("--sort %s: runs are sorted by %s", s.sort, nearest.List(slices.Sorted(maps.Keys(orders))))
	}
	runs, err := s.Runs(ctx, q)
	if err != nil {
		return err
	}
	if unknown := func(e client.Experiment) bool { return e.Spec.Name == q.Experiment }; q.Experiment != "" && !slices.ContainsFunc(experiments, unknown) {
		return s.unknown(ctx, q.Experiment)
	}
	var all []listed
	for _, r := range runs.Runs {
		if slices.ContainsFunc(tagged, func(e client.Experiment) bool { return e.Spec.Name == r.Experiment }) {
			all = append(all, newListed(r))
		}
	}
	if known {
		slices.SortStableFunc(all, order)
	}
	if s.limit > 0 && len(all) > s.limit {
		all = all[:s.limit]
	}
	return s.table(map[string]any{"index": runs.Index, "now": runs.Now, "runs": all}, runTable(all, runs.Now))
}

func stateNames() (names []string) {
	for _, state := range registry.States {
		names = append(names, string(state))
	}
	return names
}
