package config

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/dbqpg/dbqpg/internal/nearest"
	"github.com/dbqpg/dbqpg/sim"
)

//go:embed presets.yaml
var presetsFile []byte

// layer is an entry of presets.yaml: the defaults of some settings where its conditions hold.
type layer struct {
	When, Settings map[string]string
}

var layers = sync.OnceValue(func() (all []layer) {
	decode(presetsFile, &all)
	return all
})

// holds reports whether the facts meet the layer's conditions.
func (l *layer) holds(facts map[string]string) bool {
	for name, values := range l.When {
		if !slices.Contains(strings.Fields(values), facts[name]) {
			return false
		}
	}
	return true
}

// setDefaults gives settings the defaults that the facts select.
func setDefaults(settings []value, facts map[string]string) {
	for _, l := range layers() {
		if !l.holds(facts) {
			continue
		}
		for _, row := range settings {
			if text, ok := l.Settings[row.Name]; ok {
				if err := row.Set(text); err != nil {
					panic(fmt.Sprintf("config: presets.yaml: %s: %v", row.Name, err))
				}
			}
		}
	}
}

// facts returns what the defaults of a run depend on.
func (h *Hyperparameters) facts() map[string]string {
	family, _ := sim.SplitName(h.Env)
	builtIn := "no"
	if _, err := sim.Lookup(h.Env); err == nil {
		builtIn = "yes"
	}
	return map[string]string{"preset": string(h.Preset), "algorithm": string(h.Algorithm),
		"estimator": string(h.Estimator), "family": family, "built_in": builtIn}
}

// DefaultPreset returns the preset that a task has if none is named: Paper for the built-in -v2 tasks, which are the
// paper's, and Best for all others.
func DefaultPreset(task string) Preset {
	if _, err := sim.Lookup(task); err == nil && strings.HasSuffix(task, "-v2") {
		return Paper
	}
	return Best
}

// Algorithm returns the algorithm that the preset is made for, which a run has if none is named.
func (p Preset) Algorithm() Algorithm {
	if p == Best {
		return TRPO
	}
	return NPG
}

// Estimator returns the estimator that a run has if none is named. With Best it is the one that ten seeds favour
// (docs/results/best).
func (p Preset) Estimator() Estimator {
	if p == Best {
		return MonteCarlo
	}
	return UAPG
}

// LookupTask is sim.Lookup with a suggestion in the error: among equally near names, the newest version.
func LookupTask(name string) (sim.Spec, error) {
	task, err := sim.Lookup(name)
	if err == nil {
		return task, nil
	}
	var names []string
	for _, task := range slices.Backward(sim.Tasks()) {
		names = append(names, task.Name)
	}
	meant, _ := nearest.Name(name, names)
	return sim.Spec{}, fmt.Errorf("%w: did you mean %s?", err, meant)
}

// ForTask returns the settings of a task, complete except for RunDir. preset "" is the task's default. The error wraps
// sim.ErrUnknownTask.
func ForTask(name string, algorithm Algorithm, estimator Estimator, preset Preset) (Settings, error) {
	if _, err := LookupTask(name); err != nil {
		return Settings{}, err
	}
	return forTask(name, algorithm, estimator, preset), nil
}

// forTask is ForTask for a task that may be that of a task file.
func forTask(name string, algorithm Algorithm, estimator Estimator, preset Preset) Settings {
	s := Settings{Hyperparameters: Hyperparameters{Env: name, Algorithm: algorithm, Estimator: estimator,
		Preset: cmp.Or(preset, DefaultPreset(name))}}
	setDefaults(rows(&s), s.facts())
	return s
}
