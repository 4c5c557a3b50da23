package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/dbqpg/dbqpg/internal/config"
)

// A queue is a file of runs, in the order in which they are to be made: a YAML list whose entries give the settings of
// a run by their names in config.yaml. Where an entry lists several values of one of these, it stands for a run of each
// combination; the first varies slowest.
var combined = []string{"seed", "env", "algorithm", "estimator"}

const queueSize = 1 << 20 // bytes, at most

// refused are the settings that an entry cannot have, because studies decide them.
var refused = []string{"run_dir", "resume", "force", "dry_run", "config", "keep_checkpoints"}

// queueEntry is one entry of a queue.
type queueEntry struct {
	line   int
	label  string // of the variant; "": its settings
	arm    string // "": none
	axes   []config.Axis
	common []config.Assignment
}

// queued returns the runs of a queue's file that the flags select, in order.
func (m *training) queued(j *job) (all []*trial, err error) {
	flags := j.cmd.Flags()
	if flags.Changed("quick") {
		return nil, fmt.Errorf("--quick: the queue, %s, says how long its runs are and how large their batches",
			m.queue)
	}
	for _, name := range []string{"iterations", "set"} {
		if flags.Changed(name) {
			return nil, fmt.Errorf("--%s: write it into the queue, %s", name, m.queue)
		}
	}
	entries, err := readQueue(m.queue)
	if err != nil {
		return nil, err
	}
	lines := map[string]int{} // of runs, by where they are published
	for _, e := range entries {
		for _, place := range config.Grid(e.axes...) {
			t, err := e.trial(j, slices.Concat([]config.Assignment{unevaluated}, place, e.common))
			if err != nil {
				return nil, fmt.Errorf("%s, line %d: %w", m.queue, e.line, err)
			}
			if line, twice := lines[t.data]; twice {
				return nil, fmt.Errorf("%s, line %d: %s is in the entry of line %d already", m.queue, e.line, t.name,
					line)
			}
			lines[t.data] = e.line
			all = append(all, t)
		}
	}
	all = slices.DeleteFunc(all, func(t *trial) bool {
		return flags.Changed("env") && !slices.Contains(m.envs, t.settings.Env) ||
			flags.Changed("algorithm") && !slices.Contains(m.algorithms, string(t.settings.Algorithm)) ||
			flags.Changed("estimator") && !slices.Contains(m.estimators, string(t.settings.Estimator)) ||
			flags.Changed("seeds") && !slices.Contains(m.seeds, uint(t.settings.Seed))
	})
	return all, nil
}

// trial returns the run of an entry with these settings.
func (e *queueEntry) trial(j *job, assignments []config.Assignment) (*trial, error) {
	s, err := config.Resolve(assignments...)
	if err == nil {
		err = checkArm(e.arm, s)
	}
	if err != nil {
		return nil, err
	}
	v := variantOf(s, e.arm)
	if e.label != "" {
		v.role, v.Name, v.Color = v.As, e.label, -1
	}
	t, err := newTrial(j, v, assignments)
	if err == nil {
		t.arm = e.arm
		t.labels["preset"], _, _ = strings.Cut(s.Variant(), "_")
	}
	return t, err
}

// variantOf returns the variant of a run: its estimator, its preset, and the settings in which it differs from that.
func variantOf(s *config.Settings, arm string) variant {
	estimator, as := string(s.Estimator), s.Variant()
	if arm != "" {
		as += "_arm=" + arm
	}
	v := variant{As: estimator + "-" + as, Name: strings.ToUpper(estimator), Color: colorOf(estimator), role: estimator}
	if _, different, found := strings.Cut(as, "_"); found {
		v.role, v.Name, v.Color = v.As, v.Name+" "+strings.ReplaceAll(different, "_", " "), -1
	}
	return v
}

// distinguish gives runs whose variants have no colour one, by name, and drops a preset that all have from their
// labels.
func distinguish(all []*series) {
	colors := map[string]int{}
	several := slices.ContainsFunc(all, func(s *series) bool { return s.labels["preset"] != all[0].labels["preset"] })
	for _, s := range all {
		if name := s.labels["name"]; s.color < 0 {
			if _, known := colors[name]; !known {
				colors[name] = 2 + len(colors) // gray is beyond the others
			}
			s.color = colors[name]
		}
		if !several {
			s.labels["preset"] = ""
		}
	}
}

// readQueue reads a queue.
func readQueue(path string) (all []queueEntry, err error) {
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
	for _, node := range list.Content[0].Content {
		e := queueEntry{line: node.Line}
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
	axes, seen := map[string][]string{}, map[string]bool{}
	for i := 0; i < len(node.Content); i += 2 {
		name := strings.ReplaceAll(node.Content[i].Value, "-", "_")
		values, err := scalars(node.Content[i+1])
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		case seen[name]:
			return fmt.Errorf("%s is given twice", name)
		case slices.Contains(refused, name):
			return fmt.Errorf("%s is the study's to decide", name)
		case name == "label":
			e.label = values[0]
		case name == "arm":
			e.arm = values[0]
		case slices.Contains(combined, name):
			axes[name] = values
		default:
			e.common = append(e.common, config.Assignment{Name: name, Value: strings.Join(values, ",")})
		}
		seen[name] = true
	}
	for _, name := range combined {
		e.axes = append(e.axes, config.Axis{Name: name, Values: axes[name]})
	}
	return nil
}

// scalars returns a plain value, or those of a list.
func scalars(node *yaml.Node) (all []string, err error) {
	if node.Kind == yaml.ScalarNode && node.Value != "" {
		return []string{node.Value}, nil
	}
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
