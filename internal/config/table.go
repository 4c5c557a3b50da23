package config

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/dbqpg/dbqpg/internal/nearest"
)

//go:embed settings.yaml
var settingsFile []byte

// section is a part of settings.yaml, the table of all settings.
type section struct {
	Title    string
	Scope    scope
	Settings []setting
}

// scope says how a setting relates to the results of a run; settings.yaml explains the values.
type scope string

const (
	result  scope = "result"
	length  scope = "length"
	command scope = "command"
)

// setting is a row of the table: a field under the name that files, flags and the environment share.
type setting struct {
	Name  string // as in a file: lower case, words joined by "_"
	Kind  string // as shown in the usage of flags
	Words string // that the setting takes, joined by "|"; "": those in Kind, if any
	Help  string
	Field string // "": Name without "_", in any case

	section *section
}

// flag returns the setting's name on the command line.
func (s *setting) flag() string { return strings.ReplaceAll(s.Name, "_", "-") }

// variable returns the setting's name in the environment.
func (s *setting) variable() string { return variablePrefix + strings.ToUpper(s.Name) }

const variablePrefix = "DBQPG_"

// words returns the words that the setting takes; nil for a free text.
func (s *setting) words() []string {
	if all := cmp.Or(s.Words, s.Kind); strings.Contains(all, "|") {
		return strings.Split(all, "|")
	}
	return nil
}

// table returns the sections of settings.yaml.
var table = sync.OnceValue(func() (sections []section) {
	decode(settingsFile, &sections)
	for i := range sections {
		for j := range sections[i].Settings {
			s := &sections[i].Settings[j]
			s.section = &sections[i]
			if s.Words != "" {
				s.Help += ": " + nearest.List(s.words())
			}
		}
	}
	return sections
})

// decode reads a file that is in the program.
func decode(data []byte, into any) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		panic(fmt.Sprintf("config: %v", err))
	}
}

// places are the settings of a type of struct, and the indexes of their fields.
type places struct {
	settings []*setting
	fields   [][]int
}

var placesOf sync.Map // by reflect.Type: places

// placesIn returns the settings that are fields of a struct, in the order of the table.
func placesIn(t reflect.Type) places {
	if known, ok := placesOf.Load(t); ok {
		return known.(places)
	}
	var p places
	for _, section := range table() {
		for i := range section.Settings {
			s := &section.Settings[i]
			name := cmp.Or(s.Field, strings.ReplaceAll(s.Name, "_", ""))
			if field, ok := t.FieldByNameFunc(func(f string) bool { return strings.EqualFold(f, name) }); ok {
				p.settings, p.fields = append(p.settings, s), append(p.fields, field.Index)
			}
		}
	}
	placesOf.Store(t, p)
	return p
}

// rows returns the settings of s, a pointer to Settings, Hyperparameters or Worker, in the order of config.yaml.
func rows(s any) []value {
	v := reflect.ValueOf(s).Elem()
	p := placesIn(v.Type())
	all := make([]value, len(p.settings))
	for i, setting := range p.settings {
		all[i] = value{setting, v.FieldByIndex(p.fields[i]).Addr().Interface()}
	}
	return all
}

// Set parses text as the value of the named setting. The name is written as in a file.
func (s *Settings) Set(name, text string) error {
	for _, row := range rows(s) {
		if row.Name == name {
			if err := row.Set(text); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		}
	}
	return fmt.Errorf("there is no setting %q", name)
}

// Identity returns the hyperparameters as text by name. Runs with equal identities are the same run.
func (h *Hyperparameters) Identity() map[string]string {
	identity := map[string]string{}
	for _, row := range rows(h) {
		identity[row.Name] = row.String()
	}
	delete(identity, "task") // a built-in task has none
	if h.TaskFile != nil {
		identity["task"] = h.TaskFile.Identity()
	}
	return identity
}

// Recall sets the hyperparameters to a checkpoint's identity: a run continues as it began, even when presets have
// changed.
func (s *Settings) Recall(identity map[string]string) error {
	for name, value := range identity {
		if name == "task" {
			continue
		}
		if err := s.Set(name, value); err != nil {
			return err
		}
	}
	return nil
}

// A Hyperparameter is one of [Hyperparameters].
type Hyperparameter struct {
	Name, Description string
	Value             any // float64, bool or string
}

// List returns the hyperparameters in the order of config.yaml.
func (h *Hyperparameters) List() []Hyperparameter {
	var all []Hyperparameter
	for _, row := range rows(h) {
		one := Hyperparameter{Name: row.Name, Description: row.Help, Value: row.String()}
		switch field := row.field.(type) {
		case *uint64:
			one.Value = float64(*field)
		case *int:
			one.Value = float64(*field)
		case *bool:
			one.Value = *field
		case *float64:
			if row.Kind != kindLearned {
				one.Value = *field
			}
		}
		all = append(all, one)
	}
	return all
}

// Overrides returns the names of the settings that an experiment may override, and which of them are lists, such as
// hidden: 64,64.
func Overrides() (names []string, lists map[string]bool) {
	lists = map[string]bool{}
	for _, row := range rows(new(Settings)) {
		if slices.Contains([]scope{result, length}, row.section.Scope) {
			names = append(names, row.Name)
			lists[row.Name] = row.Kind == kindList
		}
	}
	return names, lists
}
