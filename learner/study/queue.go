package study

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/dbqpg/dbqpg/internal/config"
)

// A queue is a file of runs, in the order in which they are to be made: a YAML list whose entries give the settings of a
// run by their names in config.yaml. Where an entry lists several values of one of these, it stands for a run of each
// combination; the first varies slowest.
var combined = []string{"seed", "env", "algorithm", "estimator"}

const queueSize = 1 << 20 // bytes, at most

// refused are the settings that an entry cannot have, because studies decide them.
var refused = []string{"run_dir", "resume", "force", "dry_run", "config", "keep_checkpoints"}

// queued returns the runs of a queue's file that the flags select, in order.
func (o *compareOptions) queued(j *job) ([]member, error) {
	if j.cmd.Flags().Changed("quick") {
		return nil, fmt.Errorf("--quick: the queue, %s, says how long its runs are and how large their batches", o.queue)
	}
	for _, name := range []string{"iterations", "set"} {
		if j.cmd.Flags().Changed(name) {
			return nil, fmt.Errorf("--%s: write it into the queue, %s", name, o.queue)
		}
	}
	entries, err := readEntries(o.queue)
	if err != nil {
		return nil, err
	}
	var all []member
	lines := map[string]int{} // of runs, by their names
	for _, e := range entries {
		for _, assignments := range e.combinations(nil, combined) {
			m, err := j.queuedMember(e, assignments)
			if err != nil {
				return nil, fmt.Errorf("%s, line %d: %w", o.queue, e.line, err)
			}
			if line, twice := lines[m.data]; twice {
				return nil, fmt.Errorf("%s, line %d: %s is in the entry of line %d already", o.queue, e.line, m.name, line)
			}
			lines[m.data] = e.line
			all = append(all, m)
		}
	}
	all = slices.DeleteFunc(all, func(m member) bool { return !o.selects(j.cmd.Flags(), m) })
	if len(all) == 0 {
		return nil, fmt.Errorf("--queue %s: it has no such runs", o.queue)
	}
	distinguish(all)
	return all, nil
}

// selects reports whether a run of the queue is among those that the flags name.
func (o *compareOptions) selects(flags *pflag.FlagSet, m member) bool {
	return (!flags.Changed("env") || slices.Contains(o.envs, m.env)) &&
		(!flags.Changed("algorithm") || slices.Contains(o.algorithms, m.algorithm)) &&
		(!flags.Changed("estimator") || slices.Contains(o.estimators, string(m.settings.Estimator))) &&
		(!flags.Changed("seeds") || slices.Contains(o.seeds, m.seed))
}

// queuedMember returns the run of an entry with these settings. Its variant is the estimator, the preset, and what
// differs from that.
func (j *job) queuedMember(e queueEntry, assignments []assignment) (member, error) {
	s, err := resolve(assignments...)
	if err == nil {
		err = checkArm(e.arm, s)
	}
	if err != nil {
		return member{}, err
	}
	v := variant{name: strings.ToUpper(string(s.Estimator)), role: string(s.Estimator), color: -1}
	if i := slices.IndexFunc(compared, func(v variant) bool { return v.directory == string(s.Estimator) }); i >= 0 {
		v.color = compared[i].color
	}
	preset, different := presetOf(s)
	if e.arm != "" {
		different += "_arm=" + e.arm
	}
	v.directory = fmt.Sprintf("%s-%s%s", s.Estimator, preset, different)
	if different != "" || e.label != "" {
		v.role, v.color = v.directory, -1
		v.name = cmp.Or(e.label, v.name+strings.ReplaceAll(different, "_", " "))
	}
	m, err := j.member(setting{s.Env, string(s.Algorithm), preset}, v, uint(s.Seed), assignments)
	m.arm = e.arm
	return m, err
}

// presetOf returns the name of a run's preset, and the settings in which it differs from that.
func presetOf(s *config.Settings) (preset, different string) {
	preset, different, found := strings.Cut(s.Variant(), "_")
	if found {
		different = "_" + different
	}
	return preset, different
}

// distinguish gives variants without a colour one, and takes a preset that all have out of sight. Variants of one name have one colour: what
// they differ in from a preset depends on what the preset has for their task.
func distinguish(all []member) {
	colors := map[string]int{}
	several := slices.ContainsFunc(all, func(m member) bool { return m.preset != all[0].preset })
	for i := range all {
		m := &all[i]
		if !several {
			m.preset = ""
		}
		if m.variant.color >= 0 {
			continue
		}
		if _, known := colors[m.variant.name]; !known {
			colors[m.variant.name] = len(compared) + len(colors) - 1 // gray is beyond the others
		}
		m.variant.color = colors[m.variant.name]
	}
}

// queueEntry is one entry of a queue: settings with their values, one or several.
type queueEntry struct {
	line   int
	label  string // of the variant; "": its settings
	arm    string // "": none
	names  []string
	values map[string][]string
}

func readEntries(path string) ([]queueEntry, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--queue: %w", err)
	}
	defer file.Close()
	var list yaml.Node
	if err := yaml.NewDecoder(io.LimitReader(file, queueSize)).Decode(&list); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("--queue %s: %w", path, err)
	}
	if list.Kind != yaml.DocumentNode || list.Content[0].Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("--queue %s: write a list of runs, each beginning with - env: TASK", path)
	}
	var all []queueEntry
	for _, node := range list.Content[0].Content {
		e := queueEntry{line: node.Line, values: map[string][]string{}}
		if err := e.read(node); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, node.Line, err)
		}
		all = append(all, e)
	}
	return all, nil
}

func (e *queueEntry) read(node *yaml.Node) error {
	if node.Kind != yaml.MappingNode {
		return errors.New("write settings as name: value")
	}
	for i := 0; i < len(node.Content); i += 2 {
		name, value := strings.ReplaceAll(node.Content[i].Value, "-", "_"), node.Content[i+1]
		values, err := scalars(value)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		case e.values[name] != nil:
			return fmt.Errorf("%s is given twice", name)
		case slices.Contains(refused, name):
			return fmt.Errorf("%s is the study's to decide", name)
		case name == "label":
			e.label = values[0]
			continue
		case name == "arm":
			e.arm = values[0]
			continue
		}
		if !slices.Contains(combined, name) {
			values = []string{strings.Join(values, ",")}
		}
		e.names, e.values[name] = append(e.names, name), values
	}
	return nil
}

// scalars returns a plain value, or those of a list.
func scalars(node *yaml.Node) ([]string, error) {
	if node.Kind == yaml.ScalarNode && node.Value != "" {
		return []string{node.Value}, nil
	}
	var all []string
	for _, item := range node.Content {
		if node.Kind != yaml.SequenceNode || item.Kind != yaml.ScalarNode {
			return nil, errors.New("want a plain value, or a list of these")
		}
		all = append(all, item.Value)
	}
	if len(all) == 0 {
		return nil, errors.New("has no value")
	}
	return all, nil
}

// combinations returns the settings of each run, the names not yet chosen varying in their order.
func (e *queueEntry) combinations(chosen []assignment, open []string) [][]assignment {
	if len(open) == 0 {
		for _, name := range e.names {
			if !slices.Contains(combined, name) {
				chosen = append(chosen, assignment{name, e.values[name][0]})
			}
		}
		return [][]assignment{slices.Clone(chosen)}
	}
	if e.values[open[0]] == nil {
		return e.combinations(chosen, open[1:])
	}
	var all [][]assignment
	for _, value := range e.values[open[0]] {
		all = append(all, e.combinations(append(chosen, assignment{open[0], value}), open[1:])...)
	}
	return all
}
