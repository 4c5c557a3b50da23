package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/coordinator/sweep"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/web"
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

func runTable(runs []*web.Run, now time.Time) rows {
	table := rows{{"RUN", "STATE", "ITERATION", "STEPS", "RETURN", "BEST", "ETA", "LEARNER", "EPOCH", "UPDATED"}}
	for _, r := range runs {
		learner := r.Learner
		if r.State == web.Lost {
			learner += " (last heard " + ago(r.Heard, now) + ")"
		}
		table = append(table, []string{
			r.Name, string(r.State), of(uint64(r.Iteration), uint64(r.Iterations)),
			of(uint64(r.Steps), uint64(r.AllSteps)), number(float64(r.Return)), number(float64(r.Best)),
			eta(float64(r.ETA)), learner, strconv.FormatUint(r.Epoch, 10), date(r.Heard),
		})
	}
	return table
}

// of writes a number of a total, 0 if unknown.
func of(done, all uint64) string {
	if all == 0 {
		return strconv.FormatUint(done, 10)
	}
	return fmt.Sprintf("%d/%d", done, all)
}

// eta writes a number of seconds.
func eta(seconds float64) string {
	left := time.Duration(seconds * float64(time.Second))
	switch {
	case math.IsNaN(seconds):
		return "-"
	case left >= time.Hour:
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

// number writes a number, or - for NaN.
func number(v float64) string {
	if math.IsNaN(v) {
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
		{"task", r.Task}, {"algorithm", r.Algorithm}, {"estimator", r.Estimator},
		{"seed", strconv.FormatUint(r.Seed, 10)},
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
		table = append(table, []string{"learner", learner}, []string{"last heard", date(l.Heard())},
			[]string{"lease until", date(l.Expires)}, []string{"nats", l.NATS})
	}
	if r.Priority != 0 {
		table = append(table, []string{"priority", strconv.Itoa(r.Priority)})
	}
	if r.Losses > 0 {
		lost := fmt.Sprintf("%d workers in a row without a commit; the run fails at %d", r.Losses, registry.MaxLosses)
		table = append(table, []string{"lost", lost})
	}
	var length config.Length
	if settings, err := sweep.Settings(r); err == nil { // else a program with other settings submitted it
		length = settings.Length
	}
	table = append(table, []string{"iteration", of(r.Iteration(), length.Iterations)},
		[]string{"steps", of(r.Steps, length.Steps)})
	if c := r.Checkpoint; c != nil {
		table = append(table, []string{"checkpoint", c.Location}, []string{"sha256", c.SHA256})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Summary)) {
		table = append(table, []string{name, number(r.Summary[name])})
	}
	table = append(table, []string{"updated", date(r.Updated)})
	return slices.DeleteFunc(table, func(row []string) bool { return row[1] == "" })
}

// experimentDetails shows an experiment and its runs' present settings.
func experimentDetails(e *client.Experiment, runs []registry.Run) rows {
	table := rows{
		{"experiment", e.Spec.Name}, {"submitted", date(e.Submitted)},
		{"tasks", strings.Join(e.Spec.Tasks, ", ")}, {"algorithms", strings.Join(e.Spec.Algorithms, ", ")},
		{"estimators", strings.Join(e.Spec.Estimators, ", ")},
		{"seeds", strings.Trim(strings.ReplaceAll(fmt.Sprint(e.Spec.Seeds), " ", ", "), "[]")},
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

// line writes a changed run, with --json as one object per line.
func (s *session) line(r *registry.Run) error {
	if s.json {
		return json.NewEncoder(s.out).Encode(r)
	}
	text := fmt.Sprintf("%s  %-9s  %s", date(r.Updated), r.State, r.Name)
	if r.Checkpoint != nil {
		text += fmt.Sprintf("  iteration %d, %d steps", r.Iteration(), r.Steps)
		if mean, ok := r.Summary["return_mean"]; ok {
			text += ", return " + number(mean)
		}
	}
	if r.Reason != "" {
		text += "  " + r.Reason
	}
	_, err := fmt.Fprintln(s.out, text)
	return err
}
