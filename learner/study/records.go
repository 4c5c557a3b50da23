package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// record is the origin of a table: PATH.yaml beside PATH.csv.
type record struct {
	Builds   []runs.Build   `yaml:",omitempty"` // that trained the run, in order
	Settings texts          // that determine the results, as far as they are known
	Arm      string         `yaml:",omitempty"` // of a queue's run
	Note     string         `yaml:",omitempty"` // for readers of the page
	Measured *runs.Build    `yaml:"measured_by,omitempty"`
	Versions texts          `yaml:",omitempty"` // of another library's packages
	Facts    map[string]any `yaml:",inline"`    // of the measurement
}

// texts are plain values by name.
type texts map[string]string

// UnmarshalYAML ignores values that are lists or mappings.
func (t *texts) UnmarshalYAML(node *yaml.Node) error {
	*t = texts{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if value := node.Content[i+1]; value.Kind == yaml.ScalarNode {
			(*t)[node.Content[i].Value] = value.Value
		}
	}
	return nil
}

// readRecord reads a record, nil if there is none.
func readRecord(path string) (*record, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	r := new(record)
	if err == nil {
		err = yaml.Unmarshal(text, r)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// newRecord returns the record of a run.
func newRecord(s *config.Settings) (*record, error) {
	builds, err := runs.Builds(s.RunDir)
	return &record{Builds: builds, Settings: s.Identity()}, err
}

// thisProgram is the build that measures.
func thisProgram() *runs.Build {
	return &runs.Build{Program: device.Versions(), Machine: device.Machine()}
}

// writeRecorded writes a table, PATH.csv, and its record, PATH.yaml.
func writeRecorded(path string, r *record, rows [][]string) error {
	text, err := yaml.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := atomicfile.Write(path+".yaml", text); err != nil { // first: a table without a record has no settings
		return err
	}
	return writeCSV(path+".csv", rows)
}

// origin names the programs and the machines that made a table.
func (r *record) origin() string {
	if r == nil || len(r.Builds)+len(r.Versions) == 0 {
		return "a program that kept no record"
	}
	var all []string
	for _, name := range sortedKeys(r.Versions) {
		all = append(all, name+" "+r.Versions[name])
	}
	for _, b := range r.Builds {
		all = append(all, b.Program+". "+b.Machine)
	}
	if processor, ok := r.Facts["processor"].(string); ok {
		all = append(all, processor)
	}
	distinct, _ := counted(all)
	return strings.Join(distinct, ", ")
}

// provenance names the programs and machines that made and measured the tables of a page.
func provenance(all []*series) string {
	seen := map[*record]bool{nil: true}
	var made []string
	for _, s := range all {
		if seen[s.record] && s.record != nil {
			continue
		}
		seen[s.record] = true
		origin := s.record.origin()
		if s.record != nil && s.record.Measured != nil {
			origin += ", measured by " + s.record.Measured.Program + ". " + s.record.Measured.Machine
		}
		made = append(made, origin)
	}
	distinct, counts := counted(made)
	if len(distinct) == 1 {
		return "Made by " + distinct[0]
	}
	for i, origin := range distinct {
		distinct[i] = fmt.Sprintf("%s by %s", plural(counts[origin], "table"), origin)
	}
	return "**Made by several programs**, whose results may differ in more than the page says: " +
		strings.Join(distinct, "; ")
}
