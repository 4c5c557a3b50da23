package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/dbqpg/dbqpg/internal/config"
)

// entry describes runs: all combinations of its axes' values, the last varying fastest, with each of the variants.
type entry struct {
	place    string // for errors
	axes     []config.Axis
	common   []config.Assignment
	variants []variant
}

// A queue is a file of runs, in the order in which they are to be made: a YAML list whose entries give the settings of
// runs by their names in config.yaml, each with a value, or these with several.
var combined = []string{"seed", "env", "algorithm", "estimator"}

// refused are the settings that studies decide.
var refused = []string{"run_dir", "resume", "force", "dry_run", "config", "keep_checkpoints"}

// values are the plain value of a setting, or those of a list.
type values []string

// UnmarshalYAML implements yaml.Unmarshaler.
func (v *values) UnmarshalYAML(node *yaml.Node) error {
	items := node.Content
	if node.Kind == yaml.ScalarNode {
		items = []*yaml.Node{node}
	}
	for _, item := range items {
		if node.Kind == yaml.MappingNode || item.Kind != yaml.ScalarNode || item.Value == "" {
			return errors.New("want a plain value, or a list of these")
		}
		*v = append(*v, item.Value)
	}
	return nil
}

// readQueue reads a queue.
func readQueue(path string) (all []entry, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--queue: %w", err)
	}
	var list []yaml.Node
	if err := yaml.Unmarshal(text, &list); err != nil || len(list) == 0 {
		return nil, fmt.Errorf("--queue %s: write a list of runs, each beginning with - env: TASK (%w)", path, err)
	}
	for _, node := range list {
		e, settings := entry{place: fmt.Sprintf("%s, line %d", path, node.Line)}, map[string]values{}
		err := node.Decode(&settings)
		if err == nil {
			err = e.read(settings)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.place, err)
		}
		all = append(all, e)
	}
	return all, nil
}

// read sets the entry from a queue's.
func (e *entry) read(settings map[string]values) error {
	var v variant
	axes := map[string][]string{}
	for _, name := range sortedKeys(settings) {
		list, name := settings[name], strings.ReplaceAll(name, "-", "_")
		switch {
		case len(list) == 0:
			return fmt.Errorf("%s: it has no value", name)
		case slices.Contains(refused, name):
			return fmt.Errorf("%s is the study's to decide", name)
		case name == "label":
			v.Name = list[0]
		case name == "arm":
			v.arm = list[0]
		case slices.Contains(combined, name):
			axes[name] = list
		default:
			e.common = append(e.common, config.Assignment{Name: name, Value: strings.Join(list, ",")})
		}
	}
	for _, name := range combined {
		e.axes = append(e.axes, config.Axis{Name: name, Values: axes[name]})
	}
	e.variants = []variant{v}
	return nil
}
