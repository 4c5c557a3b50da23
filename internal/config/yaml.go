package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFile is the maximum size of a configuration file in bytes. A complete one has less than 4 KiB.
const maxFile = 64 << 10

// entry is a line of a configuration file.
type entry struct {
	name string // with _ for -
	text string
	line int
}

// readYAML reads a file of settings: one mapping from names to strings, numbers, booleans or lists of these.
func readYAML(path string) ([]entry, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the settings: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the settings: %w", err)
	}
	entries, err := parseYAML(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return entries, nil
}

func parseYAML(data []byte) ([]entry, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("the file is larger than the %d bytes that a file of settings may have", maxFile)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), "\n", " "))
	}
	if document.Kind == 0 || document.Content[0].Tag == "!!null" {
		return nil, nil // an empty file
	}
	mapping := document.Content[0]
	if mapping.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: write settings as name: value, one per line", mapping.Line)
	}
	var entries []entry
	seen := map[string]bool{}
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		e := entry{name: strings.ReplaceAll(key.Value, "-", "_"), line: key.Line}
		if seen[e.name] {
			return nil, fmt.Errorf("line %d: %s is given twice", e.line, e.name)
		}
		seen[e.name] = true
		var err error
		if e.text, err = valueText(value); err != nil {
			return nil, fmt.Errorf("line %d: %s %w", e.line, e.name, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// valueText returns a value as it would be written on the command line.
func valueText(value *yaml.Node) (string, error) {
	switch {
	case value.Kind == yaml.ScalarNode && value.Tag == "!!null":
		return "", errors.New("has no value")
	case value.Kind == yaml.ScalarNode:
		return value.Value, nil
	case value.Kind == yaml.SequenceNode:
		var parts []string
		for _, item := range value.Content {
			if item.Kind != yaml.ScalarNode {
				return "", errors.New("must be a list of plain values")
			}
			parts = append(parts, item.Value)
		}
		return strings.Join(parts, ","), nil
	}
	return "", errors.New("must be a plain value or a list")
}

// YAML returns the contents of config.yaml, with which --config repeats the run.
func (s *Settings) YAML() string {
	return s.render(func(row value) (comment string, written bool) { return "", row.section.Scope != command })
}

// render formats the settings that choose selects, with the comments that it returns.
func (s *Settings) render(choose func(value) (comment string, written bool)) string {
	var out strings.Builder
	var last *section
	for _, row := range rows(s) {
		comment, written := choose(row)
		if !written {
			continue
		}
		if row.section != last {
			out.WriteString("# " + row.section.Title + "\n")
			last = row.section
		}
		line := row.Name + ": " + quoted(row)
		if comment != "" {
			line = fmt.Sprintf("%-40s # %s", line, comment)
		}
		out.WriteString(line + "\n")
	}
	return out.String()
}

// quoted returns a value as YAML, in quotation marks where it would otherwise be read as another type.
func quoted(row value) string {
	if row.Kind != kindText && row.Kind != kindFile {
		return row.String()
	}
	scalar, err := yaml.Marshal(row.String())
	if err != nil {
		panic(err) // any string can be encoded
	}
	return strings.TrimSuffix(string(scalar), "\n")
}
