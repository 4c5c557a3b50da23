package study

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// A completed run of a comparison is published under data/, as the page's raw data: a table of the columns that pages
// need, NAME.csv, and a record of what made it, NAME.yaml. Pages are written from these alone, and a published run is
// not trained again, so that its directory can be deleted.

// publishedColumns are those of a run's progress.csv that are published, without its first, the iteration.
var publishedColumns = []string{"steps", "return_mean", "target_std", "step_norm", "explained_variance", "log_likelihood", "coverage_50", "coverage_90",
	"seconds_sampling", "seconds_updating"}

// The published numbers' digits: the return's, and the others'.
const (
	returnDigits = 6
	otherDigits  = 4
)

// record says what made a published run.
type record struct {
	Builds   []runs.Build      // in order; none: not recorded
	Settings map[string]string // that determine its results, as far as they are known
	Arm      string            `yaml:",omitempty"` // what it has beyond these
	Note     string            `yaml:",omitempty"` // what a reader of the page has to know
}

// published is a run under data/, an entry of each column an iteration.
type published struct {
	record
	columns map[string][]float64
}

// programs says what trained a run.
func programs(builds []runs.Build) string {
	var all []string
	for _, b := range builds {
		if !slices.Contains(all, b.Program) {
			all = append(all, b.Program)
		}
	}
	return cmp.Or(strings.Join(all, ", then by "), "a program that kept no record")
}

// publish writes the data of a completed run, unless they are there, or nowhere to be.
func (t trial) publish() error {
	if t.data == "" {
		return nil
	}
	if p, err := t.load(); p != nil || err != nil {
		return err
	}
	rows, err := readColumns(runs.ProgressFile(t.settings.RunDir), publishedColumns...)
	if err != nil {
		return err
	}
	lines := [][]string{append([]string{"iteration"}, publishedColumns...)}
	n, _ := t.rows(rows[0])
	for i := range n {
		line := []string{strconv.Itoa(i), fmt.Sprintf("%.0f", rows[0][i]), short(rows[1][i], returnDigits)}
		for _, column := range rows[2:] {
			line = append(line, short(column[i], otherDigits))
		}
		lines = append(lines, line)
	}
	r, err := newRecord(t.settings)
	r.Arm = t.arm
	if err != nil {
		return err
	}
	return writeRecorded(t.data, r, lines)
}

// rows returns how many rows with these steps the run has, up to its length, and whether it reaches it.
func (t trial) rows(steps []float64) (n int, complete bool) {
	for n < len(steps) && !complete {
		complete = t.settings.Reached(uint64(n+1), uint64(steps[n]))
		n++
	}
	return n, complete
}

// newRecord returns the record of a run.
func newRecord(s *config.Settings) (record, error) {
	builds, err := runs.Builds(s.RunDir)
	return record{Builds: builds, Settings: s.Identity()}, err
}

// writeData writes a run's data, PATH.csv, and the record of what made it, PATH.yaml.
func writeData(path string, s *config.Settings, lines [][]string) error {
	r, err := newRecord(s)
	if err != nil {
		return err
	}
	return writeRecorded(path, r, lines)
}

// writeRecorded writes data, PATH.csv, and their record, PATH.yaml.
func writeRecorded(path string, record any, lines [][]string) error {
	text, err := yaml.Marshal(record)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := csv.NewWriter(&out).WriteAll(lines); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := atomicfile.Write(path+".yaml", text); err != nil { // first, because a table without it is nobody's
		return err
	}
	return atomicfile.Write(path+".csv", out.Bytes())
}

func short(x float64, digits int) string {
	if math.IsNaN(x) {
		return ""
	}
	return strconv.FormatFloat(x, 'g', digits, 64)
}

// load returns the published run, nil if it is shorter than is asked for, and cut to that. One that was made
// with other settings is an error.
func (t trial) load() (*published, error) {
	text, err := os.ReadFile(t.data + ".yaml")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p := &published{columns: map[string][]float64{}}
	if err := yaml.Unmarshal(text, &p.record); err != nil {
		return nil, fmt.Errorf("%s.yaml: %w", t.data, err)
	}
	if p.Settings["preset"] == "authors" { // paper, with settings that are recorded too
		p.Settings["preset"] = string(config.Paper)
	}
	different := t.differences(p.Settings)
	if p.Arm != t.arm {
		different = append(different, runs.Difference{Name: "arm", Then: p.Arm, Now: t.arm})
	}
	if len(different) > 0 {
		return nil, t.otherwise(t.data+".csv", &runs.MismatchError{Differences: different})
	}
	columns, err := readColumns(t.data+".csv", publishedColumns...)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	n, complete := t.rows(columns[0])
	if !complete {
		return nil, nil
	}
	for i, name := range publishedColumns {
		p.columns[name] = columns[i][:n]
	}
	return p, nil
}

// differences compares the settings that a record has with the trial's. Those that it does not have are unknown, or newer
// than the run.
func (t trial) differences(then map[string]string) []runs.Difference {
	now := t.settings.Identity()
	maps.DeleteFunc(now, func(name, _ string) bool { _, known := then[name]; return !known })
	return runs.Differences(then, now)
}
