package cli

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/internal/nearest"
	"github.com/dbqpg/dbqpg/internal/web"
)

// selection has the flags of list.
type selection struct {
	state, sort, tag string
	limit            int
}

func (l *selection) define(flags *pflag.FlagSet) {
	flags.StringVar(&l.state, "state", "", "only runs in this state: "+nearest.List(states))
	flags.StringVar(&l.sort, "sort", "",
		"order of runs: name or eta, or from the largest or newest iteration, return, best or updated")
	flags.StringVar(&l.tag, "tag", "", "only experiments with this tag")
	flags.IntVar(&l.limit, "limit", 0, "number of lines (default all)")
}

var (
	states = []string{"queued", "running", "lost", "paused", "done", "failed", "cancelled"}
	orders = []string{"best", "eta", "iteration", "name", "return", "updated"}
)

func (s *session) list(ctx context.Context, args []string) error {
	experiments, err := s.Experiments(ctx)
	if err != nil {
		return err
	}
	tagged := slices.DeleteFunc(slices.Clone(experiments), func(e client.Experiment) bool {
		return s.tag != "" && !slices.Contains(e.Spec.Tags, s.tag)
	})
	if len(args) == 0 && s.state == "" && s.sort == "" {
		if s.limit > 0 {
			tagged = tagged[max(0, len(tagged)-s.limit):] // the newest
		}
		return s.table(client.Experiments{Experiments: tagged}, experimentTable(tagged))
	}
	named := func(name string) func(client.Experiment) bool {
		return func(e client.Experiment) bool { return e.Spec.Name == name }
	}
	query := ""
	if len(args) > 0 {
		if query = "experiment=" + args[0]; !slices.ContainsFunc(experiments, named(args[0])) {
			return s.unknown(ctx, args[0])
		}
	}
	if s.state != "" {
		if query += " state=" + s.state; !slices.Contains(states, s.state) {
			return fmt.Errorf("--state %s: a run is %s", s.state, nearest.List(states))
		}
	}
	if s.sort != "" && !slices.Contains(orders, s.sort) {
		return fmt.Errorf("--sort %s: runs are sorted by %s", s.sort, nearest.List(orders))
	}
	v := url.Values{"q": {query}, "sort": {s.sort}, "limit": {strconv.Itoa(1 << 30)}}
	switch s.sort {
	case "updated":
		v["sort"] = []string{"heard"}
		fallthrough
	case "iteration", "return", "best":
		v["desc"] = []string{"1"}
	}
	all, err := s.Table(ctx, v)
	if err != nil {
		return err
	}
	all.Runs = slices.DeleteFunc(all.Runs, func(r *web.Run) bool {
		return !slices.ContainsFunc(tagged, named(r.Experiment))
	})
	if s.limit > 0 && len(all.Runs) > s.limit {
		all.Runs = all.Runs[:s.limit]
	}
	return s.table(map[string]any{"now": all.Now, "runs": all.Runs}, runTable(all.Runs, all.Now))
}
