package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/coordinator/sweep"
)

// rows are the rows of a table, headings first.
type rows [][]string

// table writes a table, or its data as JSON.
func (s *session) table(of any, table rows) error {
	if s.json {
		return s.writeJSON(of)
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	for _, row := range table {
		fmt.Fprintln(w, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	return w.Flush()
}

func experimentTable(experiments []client.Experiment) rows {
	table := rows{{"EXPERIMENT", "RUNS", "QUEUED", "RUNNING", "PAUSED", "DONE", "FAILED", "CANCELLED", "SUBMITTED"}}
	for _, e := range experiments {
		row := []string{e.Spec.Name, strconv.Itoa(e.Spec.Size())}
		for _, state := range registry.States {
			row = append(row, strconv.Itoa(e.Runs[state]))
		}
		table = append(table, append(row, date(e.Submitted)))
	}
	return table
}

func runTable(runs []listed, now time.Time) rows {
	table := rows{{"RUN", "STATE", "ITERATION", "STEPS", "RETURN", "BEST", "ETA", "LEARNER", "EPOCH", "UPDATED"}}
	for _, r := range runs {
		learner := ""
		if l := r.Lease; l != nil {
			learner = l.Learner
			if l.Lost {
				learner += " (lost, last heard " + ago(l.Heard(), now) + ")"
			}
		}
		table = append(table, []string{
			r.Name, string(r.State), r.progress(), r.steps(), metric(&r.Run, "return_mean"), metric(&r.Run, "best_return"), r.eta(),
			learner, strconv.FormatUint(r.Epoch, 10), date(r.Updated),
		})
	}
	return table
}

// progress returns the iteration and how many there will be.
func (l *listed) progress() string {
	return of(iteration(&l.Run), l.Iterations)
}

// steps returns the steps and how many there will be.
func (l *listed) steps() string { return of(strconv.FormatUint(l.Steps, 10), l.AllSteps) }

// of writes a number of a total, unless this is not known.
func of(done string, all uint64) string {
	if all == 0 {
		return done
	}
	return done + "/" + strconv.FormatUint(all, 10)
}

func (l *listed) eta() string {
	if l.ETA == 0 {
		return "-"
	}
	left := time.Duration(l.ETA * float64(time.Second))
	if left >= time.Hour {
		return strings.TrimSuffix(left.Round(time.Minute).String(), "0s")
	}
	return left.Round(time.Second).String()
}

// plannedTable shows the runs of a sweep.
func plannedTable(runs []registry.Run) rows {
	table := rows{{"RUN", "SETTINGS"}}
	for _, r := range runs {
		var settings []string
		for _, s := range r.Settings {
			settings = append(settings, s.Name+"="+s.Value)
		}
		table = append(table, []string{r.Name, strings.Join(settings, " ")})
	}
	return table
}

func iteration(r *registry.Run) string {
	if r.Checkpoint == nil {
		return "-"
	}
	return strconv.FormatUint(r.Checkpoint.Iteration, 10)
}

func metric(r *registry.Run, name string) string {
	v, ok := r.Summary[name]
	if !ok {
		return "-"
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

func date(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05 -0700") }

// ago returns how long ago something was.
func ago(t, now time.Time) string { return max(0, now.Sub(t)).Round(time.Second).String() + " ago" }

func runDetails(r *registry.Run) rows {
	table := rows{
		{"run", r.Name}, {"state", string(r.State)}, {"reason", r.Reason},
		{"task", r.Task}, {"algorithm", r.Algorithm}, {"estimator", r.Estimator}, {"seed", strconv.FormatUint(r.Seed, 10)},
	}
	for _, s := range sweep.Overrides(r) {
		table = append(table, []string{s.Name, s.Value})
	}
	table = append(table, []string{"epoch", strconv.FormatUint(r.Epoch, 10)})
	if l := r.Lease; l != nil {
		learner := l.Learner
		if l.Lost {
			learner += " (lost: it has not renewed its lease; the next learner that asks goes on with the run)"
		}
		table = append(table, []string{"learner", learner}, []string{"last heard", date(l.Heard())}, []string{"lease until", date(l.Expires)}, []string{"nats", l.NATS})
	}
	if r.Priority != 0 {
		table = append(table, []string{"priority", strconv.Itoa(r.Priority)})
	}
	if r.Losses > 0 {
		table = append(table, []string{"lost", fmt.Sprintf("%d workers in a row without a commit; the run fails at %d", r.Losses, registry.MaxLosses)})
	}
	listing := newListed(*r)
	table = append(table, []string{"iteration", listing.progress()}, []string{"steps", listing.steps()})
	if c := r.Checkpoint; c != nil {
		table = append(table, []string{"checkpoint", c.Location}, []string{"sha256", c.SHA256})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Summary)) {
		table = append(table, []string{name, metric(r, name)})
	}
	table = append(table, []string{"updated", date(r.Updated)})
	return slices.DeleteFunc(table, func(row []string) bool { return row[1] == "" })
}

// experimentDetails shows an experiment and its runs' settings, which may have been changed since it was submitted.
func experimentDetails(e *client.Experiment, runs []registry.Run) rows {
	table := rows{
		{"experiment", e.Spec.Name}, {"submitted", date(e.Submitted)},
		{"tasks", strings.Join(e.Spec.Tasks, ", ")}, {"algorithms", strings.Join(e.Spec.Algorithms, ", ")},
		{"estimators", strings.Join(e.Spec.Estimators, ", ")}, {"seeds", strings.Trim(strings.ReplaceAll(fmt.Sprint(e.Spec.Seeds), " ", ", "), "[]")},
	}
	if len(e.Spec.Tags) > 0 {
		table = append(table, []string{"tags", strings.Join(e.Spec.Tags, ", ")})
	}
	var settings []registry.Override
	for _, r := range runs {
		for _, given := range sweep.Overrides(&r) {
			i := slices.IndexFunc(settings, func(o registry.Override) bool { return o.Name == given.Name })
			if i < 0 {
				i, settings = len(settings), append(settings, registry.Override{Name: given.Name})
			}
			if !slices.Contains(settings[i].Values, given.Value) {
				settings[i].Values = append(settings[i].Values, given.Value)
			}
		}
	}
	for _, o := range settings {
		table = append(table, []string{o.Name, strings.Join(o.Values, " | ")})
	}
	for _, state := range registry.States {
		table = append(table, []string{string(state), strconv.Itoa(e.Runs[state])})
	}
	return table
}

func nodeTable(nodes []client.Node, now time.Time) rows {
	table := rows{{"NODE", "ROLE", "URL", "RAFT"}}
	for _, n := range nodes {
		role := "follower"
		switch {
		case n.Leader:
			role = "leader"
		case !n.Voter:
			role = "no vote yet"
		}
		if !n.Silent.IsZero() {
			role += " (silent, last heard " + ago(n.Silent, now) + ")"
		}
		table = append(table, []string{n.ID, role, n.URL, n.Address})
	}
	return table
}

func seenTable(seen *client.Seen) rows {
	table := rows{{"LEARNER", "STATE", "LAST HEARD", "ACTORS", "RUN"}}
	for _, v := range seen.Seen {
		state := "idle"
		switch {
		case v.Silent && v.Run != "":
			state = "lost"
		case v.Silent:
			state = "silent"
		case v.Run != "":
			state = "training"
		}
		table = append(table, []string{v.Name, state, ago(v.At, seen.Now), strconv.Itoa(v.Slots), v.Run})
	}
	return table
}

// line writes a run's change, with --json as one object per line.
func (s *session) line(r *registry.Run) error {
	if s.json {
		return json.NewEncoder(s.out).Encode(r)
	}
	text := fmt.Sprintf("%s  %-9s  %s", date(r.Updated), r.State, r.Name)
	if r.Checkpoint != nil {
		text += fmt.Sprintf("  iteration %d, %d steps, return %s", r.Checkpoint.Iteration, r.Steps, metric(r, "return_mean"))
	}
	if r.Reason != "" {
		text += "  " + r.Reason
	}
	_, err := fmt.Fprintln(s.out, text)
	return err
}
