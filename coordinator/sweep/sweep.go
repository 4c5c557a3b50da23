// Package sweep connects experiments and training: it reads a sweep.yaml, checks that its tasks and
// settings exist and are consistent, and converts a run of the registry to a learner's settings.
//
//	name: swimmer
//	tasks: [Swimmer-v2, Hopper-v2]
//	algorithms: npg                   # one value needs no list
//	estimators: [mc, dbqpg, uapg]
//	seeds: 1-5                        # or [1, 2, 3]
//	priority: 10                      # free runs of the highest priority are taken first; 0 unless given
//	tags: [paper]                     # for list --tag
//	overrides:                        # settings by their names in a learner's config.yaml
//	  iterations: 300
//	  rank: [30, 60]                  # several values multiply the runs
//	  hidden: [64, 64]                # a value that is itself a list; several are [[64, 64], [32, 32]]
package sweep

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/nearest"
)

// MaxFile bounds the size of a sweep's file, in bytes.
const MaxFile = 256 << 10

// file is a sweep as it is written.
type file struct {
	Name                                string
	Tasks, Algorithms, Estimators, Tags list
	Seeds                               seeds
	Priority                            int
	Overrides                           overrides
}

// fields lists the fields of a sweep.
var fields = []string{"name", "tasks", "algorithms", "estimators", "seeds", "overrides", "priority", "tags"}

// Parse reads a sweep, completed and checked by [Validate].
func Parse(data []byte) (*registry.Spec, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("it is larger than %d bytes, the limit for a sweep", MaxFile)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), "\n", " "))
	}
	if document.Kind == 0 || document.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("a sweep consists of lines name: value; it needs a name and tasks")
	}
	for i, key := range document.Content[0].Content {
		if i%2 == 0 && !slices.Contains(fields, key.Value) {
			meant, _ := nearest.Name(key.Value, fields)
			return nil, fmt.Errorf("line %d: %s is not a field of a sweep; did you mean %s?", key.Line, key.Value,
				meant)
		}
	}
	var f file
	if err := document.Decode(&f); err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), "\n", " "))
	}
	spec := &registry.Spec{Name: f.Name, Tasks: f.Tasks, Algorithms: f.Algorithms, Estimators: f.Estimators,
		Seeds: f.Seeds, Overrides: f.Overrides, Priority: f.Priority, Tags: f.Tags}
	return spec, Validate(spec)
}

// list is a list of plain values, or a single one.
type list []string

// UnmarshalYAML implements [yaml.Unmarshaler].
func (l *list) UnmarshalYAML(node *yaml.Node) (err error) {
	*l, err = values(node)
	return err
}

// overrides are settings with the values to try.
type overrides []registry.Override

// UnmarshalYAML implements [yaml.Unmarshaler].
func (o *overrides) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: overrides must be settings, given as name: value", node.Line)
	}
	for pair := range slices.Chunk(node.Content, 2) {
		name := strings.ReplaceAll(pair[0].Value, "-", "_")
		texts, err := overrideValues(name, pair[1])
		if err != nil {
			return err
		}
		*o = append(*o, registry.Override{Name: name, Values: texts})
	}
	return nil
}

// values returns the plain values of a list, or a single value.
func values(node *yaml.Node) ([]string, error) {
	items := []*yaml.Node{node}
	if node.Kind == yaml.SequenceNode {
		items = node.Content
	}
	var texts []string
	for _, item := range items {
		if item.Kind != yaml.ScalarNode || item.Tag == "!!null" {
			return nil, fmt.Errorf("line %d: must be a plain value or a list of plain values", item.Line)
		}
		texts = append(texts, item.Value)
	}
	return texts, nil
}

// overrideValues returns the values of a setting. Where one is a list itself, a list of numbers is one value, as in a
// learner's configuration file; several are a list of lists, or of texts such as "64,64".
func overrideValues(name string, node *yaml.Node) (texts []string, err error) {
	_, lists := config.Overrides()
	list := node.Kind == yaml.SequenceNode && lists[name]
	several := func(item *yaml.Node) bool { return item.Kind == yaml.SequenceNode || strings.Contains(item.Value, ",") }
	if !list || !slices.ContainsFunc(node.Content, several) {
		if texts, err = values(node); list && err == nil {
			texts = []string{strings.Join(texts, ",")}
		}
		return texts, err
	}
	for _, item := range node.Content {
		parts, err := values(item)
		if err != nil {
			return nil, err
		}
		texts = append(texts, strings.Join(parts, ","))
	}
	return texts, nil
}

// seeds are numbers, given also as ranges like 1-5.
type seeds []uint64

// UnmarshalYAML implements [yaml.Unmarshaler].
func (s *seeds) UnmarshalYAML(node *yaml.Node) error {
	texts, err := values(node)
	for _, text := range texts {
		from, to, isRange := strings.Cut(text, "-")
		if !isRange {
			to = from
		}
		first, err1 := strconv.ParseUint(from, 10, 64)
		last, err2 := strconv.ParseUint(to, 10, 64)
		if err1 != nil || err2 != nil || last < first {
			return fmt.Errorf("line %d: seeds: %q is neither a number nor a range like 1-5", node.Line, text)
		}
		if last-first >= registry.MaxAxis {
			return fmt.Errorf("line %d: seeds: %s: at most %d seeds are possible", node.Line, text, registry.MaxAxis)
		}
		for n := range last - first + 1 {
			*s = append(*s, first+n)
		}
	}
	return err
}

// complete fills in the axes that a spec leaves out.
func complete(spec *registry.Spec) error {
	if len(spec.Seeds) == 0 {
		spec.Seeds = []uint64{1}
	}
	var presets []config.Preset
	for _, task := range spec.Tasks {
		presets = append(presets, config.DefaultPreset(task))
	}
	for _, o := range spec.Overrides {
		if o.Name == "preset" && len(o.Values) > 0 {
			presets = nil
			for _, value := range o.Values {
				presets = append(presets, config.Preset(value))
			}
		}
	}
	axis := func(name string, values *[]string, of func(config.Preset) string) error {
		if len(*values) > 0 || len(presets) == 0 {
			return nil
		}
		first := presets[0]
		for _, p := range presets {
			if of(p) != of(first) {
				return fmt.Errorf("%s: %s is for %s and %s for %s; name the %s, or one preset in overrides, or submit "+
					"two sweeps", name, first, of(first), p, of(p), name)
			}
		}
		*values = []string{of(first)}
		return nil
	}
	err := axis("algorithms", &spec.Algorithms, func(p config.Preset) string { return string(p.Algorithm()) })
	if err != nil {
		return err
	}
	return axis("estimators", &spec.Estimators, func(p config.Preset) string { return string(p.Estimator()) })
}

// Validate completes a spec: the defaults are its presets' algorithm and estimator, and seed 1; a name and tasks are
// required. It returns an error if the spec is malformed, names a task or setting that does not exist, or has settings
// that a learner would reject.
func Validate(spec *registry.Spec) error {
	if err := complete(spec); err != nil {
		return err
	}
	for i := range spec.Overrides {
		if err := checkOverride(&spec.Overrides[i]); err != nil {
			return err
		}
	}
	if err := spec.Check(); err != nil {
		return err
	}
	// Seeds do not affect validity.
	once := *spec
	once.Seeds = spec.Seeds[:1]
	for _, run := range once.Expand() {
		if _, err := Settings(&run); err != nil {
			return fmt.Errorf("%s: %w", run.Name, err)
		}
	}
	return nil
}

// own are the settings for which a sweep has fields, with their names.
var own = map[string]string{"env": "tasks", "algorithm": "algorithms", "estimator": "estimators", "seed": "seeds"}

func checkOverride(o *registry.Override) error {
	if field := own[o.Name]; field != "" {
		return fmt.Errorf("overrides: %s is given outside of overrides, as %s", o.Name, field)
	}
	possible, _ := config.Overrides()
	possible = slices.DeleteFunc(possible, func(name string) bool { return name == "task" || own[name] != "" })
	if !slices.Contains(possible, o.Name) {
		meant, _ := nearest.Name(o.Name, possible)
		return fmt.Errorf("overrides: %s is not a setting of an experiment; did you mean %s?", o.Name, meant)
	}
	return nil
}

// Overrides returns the settings that a run overrides, with the length that it was extended to in place of its first.
func Overrides(run *registry.Run) []registry.Setting {
	name, length := "iterations", run.Length.Iterations
	if run.Length.Steps > 0 {
		name, length = "steps", run.Length.Steps
	}
	if length == 0 {
		return run.Settings
	}
	others := slices.DeleteFunc(slices.Clone(run.Settings), func(s registry.Setting) bool {
		return s.Name == "iterations" || s.Name == "steps"
	})
	return append(others, registry.Setting{Name: name, Value: strconv.FormatUint(length, 10)})
}

// Settings returns the valid settings that a run is trained with: the task's preset with the run's overrides.
// The learner adds where and how to run.
func Settings(run *registry.Run) (*config.Settings, error) {
	given := []config.Assignment{{Name: "env", Value: run.Task}, {Name: "algorithm", Value: run.Algorithm},
		{Name: "estimator", Value: run.Estimator}, {Name: "seed", Value: strconv.FormatUint(run.Seed, 10)}}
	for _, s := range Overrides(run) {
		if s.Name == "task" { // it names a command to run on the learner's machine
			return nil, errors.New("task: an experiment's tasks are built-in ones")
		}
		given = append(given, s)
	}
	return config.Resolve(given...)
}
