package config

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/internal/commandline"
)

// Assignment is a setting, by its name in a configuration file, with its value.
type Assignment struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Axis is a setting with the values that a grid combines.
type Axis struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// Grid returns all combinations of the axes' values, each in the order of the axes; the last axis varies fastest. An
// axis without values is left out.
func Grid(axes ...Axis) [][]Assignment {
	all := [][]Assignment{nil}
	for _, axis := range axes {
		if len(axis.Values) == 0 {
			continue
		}
		var longer [][]Assignment
		for _, assignments := range all {
			for _, value := range axis.Values {
				longer = append(longer, append(slices.Clone(assignments), Assignment{axis.Name, value}))
			}
		}
		all = longer
	}
	return all
}

// Resolve returns the settings of a run: the assignments over the preset of its task, the later ones taking precedence.
// The environment is ignored, so that the assignments suffice to repeat the run; the task is a built-in one.
func Resolve(assignments ...Assignment) (*Settings, error) {
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	loader := NewLoader(flags)
	loader.builtIn = true
	if err := flags.Parse(Arguments(assignments...)); err != nil {
		return nil, commandline.Explain(flags, err)
	}
	return loader.Load(nil)
}

// Arguments returns the assignments as a command line. The preset authors stands for its settings.
func Arguments(assignments ...Assignment) []string {
	var all []string
	for _, a := range expanded(assignments) {
		all = append(all, "--"+strings.ReplaceAll(a.Name, "_", "-")+"="+a.Value)
	}
	return all
}
