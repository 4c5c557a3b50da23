package config

import (
	"slices"
	"strings"
)

// authors names, to experiments, the preset paper with the four settings of authorsSettings.
const authors = "authors"

// authorsSettings are the settings in which the authors' code differs from their paper's text
// (docs/results/authors.yaml).
var authorsSettings = []Assignment{
	{"noise", "learned"}, {"fisher_variance", "learned"}, {"completion", "false"}, {"fisher", "analytic"},
}

// expanded returns the assignments with the settings of the preset authors in its place.
func expanded(assignments []Assignment) []Assignment {
	i := slices.Index(assignments, Assignment{"preset", authors})
	if i < 0 {
		return assignments
	}
	return slices.Concat([]Assignment{{"preset", string(Paper)}}, authorsSettings, assignments[:i], assignments[i+1:])
}

// Variant returns the preset's name, authors for paper with the authors' settings, and the settings that differ from
// it, as in the run's name.
func (s *Settings) Variant() string {
	preset, own := forTask(s.Env, s.Algorithm, s.Estimator, s.Preset), *s
	its := func(a Assignment) bool {
		return slices.ContainsFunc(rows(s),
			func(row value) bool { return row.Name == a.Name && row.String() == a.Value })
	}
	if s.Preset == Paper && !slices.ContainsFunc(authorsSettings, func(a Assignment) bool { return !its(a) }) {
		own.Preset = authors
		own.Noise, own.FisherVariance = preset.Noise, preset.FisherVariance
		own.Completion, own.Fisher = preset.Completion, preset.Fisher
	}
	name := string(own.Preset)
	return name + strings.Replace(own.differences(preset), "_preset="+name, "", 1)
}
