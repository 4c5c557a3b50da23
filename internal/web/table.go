package web

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dbqpg/dbqpg/internal/stats"
)

// A query selects runs: terms separated by blanks, all of which must hold. A term is name=value or name!=value of a
// field or a setting, name<number, name>number, or a part of the run's name. Values with blanks are in quotation marks.
// The pages' addresses contain queries, and a group of runs is the query that selects them.
type query []term

type term struct {
	name, operator, value string
	number                float64 // value, for < and >
}

func parseQuery(text string) (query, error) {
	var q query
	for _, word := range words(text) {
		at := strings.IndexAny(word, "=<>!")
		if at < 1 {
			q = append(q, term{operator: "~", value: strings.ToLower(word)})
			continue
		}
		t := term{name: word[:at], operator: word[at : at+1], value: word[at+1:]}
		if t.operator == "!" {
			rest, ok := strings.CutPrefix(t.value, "=")
			if !ok {
				return nil, fmt.Errorf("%q: write name!=value", word)
			}
			t.operator, t.value = "!=", rest
		}
		t.value = strings.ReplaceAll(t.value, `"`, "")
		if t.operator == "<" || t.operator == ">" {
			var err error
			if t.number, err = strconv.ParseFloat(t.value, 64); err != nil {
				return nil, fmt.Errorf("%q: %s is not a number", word, t.value)
			}
		}
		q = append(q, t)
	}
	return q, nil
}

// words splits a text at blanks outside of quotation marks.
func words(text string) []string {
	quoted := false
	return strings.FieldsFunc(text, func(c rune) bool {
		if c == '"' {
			quoted = !quoted
		}
		return !quoted && (c == ' ' || c == '\t')
	})
}

func (q query) selects(r *Run) bool {
	return !slices.ContainsFunc(q, func(t term) bool { return !t.holds(r) })
}

func (t *term) holds(r *Run) bool {
	switch t.operator {
	case "=":
		return r.text(t.name) == t.value
	case "!=":
		return r.text(t.name) != t.value
	case "<":
		return r.number(t.name) < t.number
	case ">":
		return r.number(t.name) > t.number
	}
	return strings.Contains(strings.ToLower(r.Name), t.value)
}

// selected returns the runs that a query selects.
func selected(runs []Run, text string) ([]*Run, error) {
	q, err := parseQuery(text)
	if err != nil {
		return nil, err
	}
	var found []*Run
	for i := range runs {
		if q.selects(&runs[i]) {
			found = append(found, &runs[i])
		}
	}
	return found, nil
}

// Table is a page of the table of runs, or of their groups.
type Table struct {
	Now     time.Time     `json:"now"`
	Version string        `json:"version"` // changes with the runs
	All     int           `json:"all"`     // runs before any selection
	Total   int           `json:"total"`   // rows on all pages
	States  map[State]int `json:"states"`  // of the selected runs
	// Names are those by which runs can be grouped: fields, and settings that differ.
	Names  []string `json:"names"`
	Runs   []*Run   `json:"runs,omitempty"`
	Groups []*Group `json:"groups,omitempty"`
}

// Group is a row of the table for all runs that agree in the fields by which they are grouped.
type Group struct {
	Query  string        `json:"query"` // selects its runs
	Values []string      `json:"values"`
	Runs   int           `json:"runs"`
	States map[State]int `json:"states"`
	// Row has the means of the runs' columns, the longest time left and the latest sign of life.
	Row
	Low  Number `json:"low"` // of the 95 % interval of the mean return
	High Number `json:"high"`
}

// tableOf answers a request for a page: q selects, group is a list of names, sort is a column, desc reverses it, offset
// and limit choose the page.
func tableOf(runs []Run, now time.Time, v url.Values) (*Table, error) {
	found, err := selected(runs, v.Get("q"))
	if err != nil {
		return nil, err
	}
	offset, limit := natural(v.Get("offset"), 0), natural(v.Get("limit"), 100)
	t := &Table{Now: now.UTC(), Version: versionOf(runs), All: len(runs), States: map[State]int{},
		Names: slices.Concat(fields[1:len(fields)-2], varying(runs))}
	for _, r := range found {
		t.States[r.State]++
	}
	order, desc := v.Get("sort"), v.Get("desc") != ""
	if by := strings.Fields(v.Get("group")); len(by) > 0 {
		groups := groupsOf(found, by)
		sortRows(groups, order, desc, (*Group).text, (*Group).number)
		t.Total, t.Groups = len(groups), page(groups, offset, limit)
		return t, nil
	}
	sortRows(found, order, desc, (*Run).text, (*Run).number)
	t.Total, t.Runs = len(found), page(found, offset, limit)
	return t, nil
}

// versionOf returns a digest of the runs' progress.
func versionOf(runs []Run) string {
	sum := fnv.New64a()
	for i := range runs {
		r := &runs[i]
		fmt.Fprintln(sum, r.Name, r.State, r.Iteration, r.Return, r.Best, r.Epoch)
	}
	return strconv.FormatUint(sum.Sum64(), 36)
}

func natural(text string, otherwise int) int {
	if n, err := strconv.Atoi(text); err == nil && n >= 0 {
		return n
	}
	return otherwise
}

func page[T any](rows []T, offset, limit int) []T {
	offset = min(offset, len(rows))
	return rows[offset:min(len(rows), offset+limit)]
}

// sortRows sorts stably by a column: by numbers where there are some, those without one last in either direction.
func sortRows[T any](rows []*T, column string, desc bool, text func(*T, string) string,
	number func(*T, string) float64,
) {
	if column == "" {
		return
	}
	type key struct {
		row    *T
		number float64
		text   string
	}
	keys := make([]key, len(rows))
	for i, r := range rows {
		keys[i] = key{r, number(r, column), text(r, column)}
	}
	slices.SortStableFunc(keys, func(a, b key) int {
		switch without := math.IsNaN(a.number); {
		case without != math.IsNaN(b.number):
			if without {
				return 1
			}
			return -1
		case without && desc:
			return strings.Compare(b.text, a.text)
		case without:
			return strings.Compare(a.text, b.text)
		case desc:
			return cmp.Compare(b.number, a.number)
		}
		return cmp.Compare(a.number, b.number)
	})
	for i := range rows {
		rows[i] = keys[i].row
	}
}

// groupsOf returns the groups of runs that agree in the named fields, in the order of their first runs.
func groupsOf(runs []*Run, names []string) []*Group {
	members := map[string][]*Run{}
	var order []string
	for _, r := range runs {
		var key strings.Builder
		for i, name := range names {
			if i > 0 {
				key.WriteByte(' ')
			}
			key.WriteString(name + "=" + quoted(r.text(name)))
		}
		if members[key.String()] == nil {
			order = append(order, key.String())
		}
		members[key.String()] = append(members[key.String()], r)
	}
	groups := make([]*Group, len(order))
	for i, key := range order {
		groups[i] = newGroup(key, names, members[key])
	}
	return groups
}

func quoted(value string) string {
	if strings.ContainsAny(value, " \t") {
		return `"` + value + `"`
	}
	return value
}

func newGroup(key string, names []string, runs []*Run) *Group {
	g := &Group{Query: key, Runs: len(runs), States: map[State]int{}, Row: Row{ETA: None}}
	for _, name := range names {
		g.Values = append(g.Values, runs[0].text(name))
	}
	for _, r := range runs {
		g.States[r.State]++
		g.Heard = latest(g.Heard, r.Heard)
		if !(g.ETA >= r.ETA) && r.ETA.given() {
			g.ETA = r.ETA
		}
	}
	mean := func(column string) stats.Estimate {
		var values []float64
		for _, r := range runs {
			if v := r.number(column); !math.IsNaN(v) {
				values = append(values, v)
			}
		}
		return stats.TrimmedMean(values, 0)
	}
	returns := mean("return")
	g.Return, g.Low, g.High = Number(returns.Value), Number(returns.Low), Number(returns.High)
	for column, field := range map[string]*Number{"iteration": &g.Iteration, "iterations": &g.Iterations,
		"steps": &g.Steps, "all_steps": &g.AllSteps, "best": &g.Best} {
		*field = Number(mean(column).Value)
	}
	return g
}

func (g *Group) text(name string) string {
	for _, w := range words(g.Query) {
		if value, ok := strings.CutPrefix(w, name+"="); ok {
			return strings.Trim(value, `"`)
		}
	}
	if name == "name" {
		return g.Query
	}
	return ""
}

func (g *Group) number(name string) float64 {
	if name == "runs" {
		return float64(g.Runs)
	}
	if v := g.Row.number(name); v == v {
		return v
	}
	return parseNumber([]byte(g.text(name)))
}
