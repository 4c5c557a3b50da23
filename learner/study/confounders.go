package study

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A confounder is a setting in which variants of a task and an algorithm differ although none of them is named for it: a
// preset may give an estimator a learning rate of its own on a task, or a queue its controls one, and what is then compared is not
// the variants alone.

// unnamed returns the settings of one of several runs that neither its variant nor its place among them names: those that its
// preset decides, and those that not all runs of a variant of this name are given, for a label may stand for more on one task.
func (m member) unnamed(all []member) map[string]string {
	rest := m.settings.Identity()
	for _, a := range m.assignments {
		if !slices.ContainsFunc(all, func(other member) bool { return other.variant.name == m.variant.name && !other.assigns(a.name) }) {
			delete(rest, strings.ReplaceAll(a.name, "-", "_"))
		}
	}
	maps.DeleteFunc(rest, func(name, _ string) bool { return name == "estimator" || name == "seed" })
	return rest
}

// assigns reports whether the run is given a setting.
func (m member) assigns(name string) bool {
	return slices.ContainsFunc(m.assignments, func(a assignment) bool { return a.name == name })
}

// confounders names those of a task and an algorithm, with the variants that have each value, in the order of the names.
func (r *results) confounders(s setting) []string {
	names := map[string]bool{}
	for _, g := range r.of(s) {
		for name := range g.unnamed {
			names[name] = true
		}
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		var values []string
		variants := map[string][]string{} // by value
		for _, g := range r.of(s) {
			value, ok := g.unnamed[name]
			if !ok {
				continue
			}
			if variants[value] == nil {
				values = append(values, value)
			}
			variants[value] = append(variants[value], g.variant.name)
		}
		if len(values) < 2 {
			continue
		}
		for i, value := range values {
			values[i] = fmt.Sprintf("%s (%s)", value, strings.Join(variants[value], "; "))
		}
		all = append(all, fmt.Sprintf("%s %s", name, strings.Join(values, ", ")))
	}
	return all
}

// confounded says where more than the variants differs.
func (p *page) confounded(r *results) {
	for _, s := range r.settings() {
		if all := r.confounders(s); len(all) > 0 {
			p.paragraph("**More than the variant differs** on %s: %s.", s, strings.Join(all, "; "))
		}
	}
}
