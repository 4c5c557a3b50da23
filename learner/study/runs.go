package study

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// readRuns reads runs, whose directories may be those of workers, and groups those that differ in nothing but the seed. A group is named by its estimator
// and by what it differs in from others of the task; its runs are as long as the shortest of them.
func readRuns(dirs []string) (*results, error) {
	r := new(results)
	var described []map[string]string // the settings of each group
	for _, dir := range dirs {
		dir, err := runs.Directory(dir)
		if err != nil {
			return nil, err
		}
		settings, err := identify(dir)
		if err != nil {
			return nil, err
		}
		seed, err := strconv.ParseUint(settings["seed"], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: the seed is %.40q", dir, settings["seed"])
		}
		delete(settings, "seed")
		i := slices.IndexFunc(described, func(other map[string]string) bool { return maps.Equal(other, settings) })
		if i < 0 {
			i = len(described)
			described = append(described, settings)
			r.groups = append(r.groups, &group{setting: setting{env: settings["env"]}})
		}
		g := r.groups[i]
		if slices.Contains(g.seeds, uint(seed)) {
			return nil, fmt.Errorf("%s: another of these runs has the same settings and the same seed, %d: name one of them", dir, seed)
		}
		builds, err := runs.Builds(dir)
		if err != nil {
			return nil, err
		}
		r.record(builds)
		if err := g.read(runs.ProgressFile(dir), uint(seed)); err != nil {
			return nil, err
		}
	}
	for i, g := range r.groups {
		g.variant = named(described[i], described)
		if g.cut(math.MaxInt) {
			g.variant.name += fmt.Sprintf(", first %s", plural(len(g.returns[0]), "iteration"))
		}
	}
	return r, nil
}

// read adds the run of a table, which may lack the environment steps.
func (g *group) read(path string, seed uint) error {
	columns, err := readColumns(path, "steps", "return_mean")
	if err == nil && len(columns[0]) == 0 {
		err = fmt.Errorf("%s has no finished iteration", path)
	}
	if err == nil {
		g.seeds, g.steps, g.returns = append(g.seeds, seed), append(g.steps, columns[0]), append(g.returns, columns[1])
	}
	return err
}

// cut makes all runs of a group as long as the shortest, and no longer than most; it reports whether any was longer.
func (g *group) cut(most int) (any bool) {
	least := most
	for _, curve := range g.returns {
		least = min(least, len(curve))
	}
	for i := range g.returns {
		any = any || len(g.returns[i]) > least
		g.steps[i], g.returns[i] = g.steps[i][:least], g.returns[i][:least]
	}
	return any
}

// named returns the variant of a run's settings among several: its estimator's, and in its name what all do not have alike.
func named(settings map[string]string, all []map[string]string) variant {
	v := variant{name: strings.ToUpper(settings["estimator"]), color: -1}
	plain := true
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if name == "env" || name == "estimator" || !slices.ContainsFunc(all, func(other map[string]string) bool {
			return other["env"] == settings["env"] && other["estimator"] == settings["estimator"] && other[name] != settings[name]
		}) {
			continue
		}
		plain = false
		v.name += fmt.Sprintf(", %s=%s", name, settings[name])
	}
	if i := slices.IndexFunc(compared, func(c variant) bool { return plain && c.directory == settings["estimator"] }); i >= 0 {
		v.color = compared[i].color
	}
	v.directory = v.name
	return v
}

// identify returns the settings that determine a run's results, by name: those in its config.yaml, or where there is none
// what its directory's name says, <algorithm>-<estimator>-s<seed>.
func identify(dir string) (map[string]string, error) {
	path := filepath.Join(dir, config.FileName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		name := strings.Split(filepath.Base(filepath.Clean(dir)), "-")
		if len(name) != 3 || !strings.HasPrefix(name[2], "s") {
			return nil, fmt.Errorf("%s is no run: it has no %s and is not named like one, <algorithm>-<estimator>-s<seed>", dir, config.FileName)
		}
		return map[string]string{"env": filepath.Base(filepath.Dir(filepath.Clean(dir))), "algorithm": name[0], "estimator": name[1], "seed": name[2][1:]}, nil
	}
	all := map[string]any{}
	if err == nil {
		err = yaml.Unmarshal(data, &all)
	}
	if err == nil && (all["estimator"] == nil || all["seed"] == nil) {
		err = errors.New("no estimator, or no seed")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	settings, known := map[string]string{}, (&config.Settings{}).Identity()
	for name, value := range all {
		if _, ok := known[name]; ok || name == "task" {
			settings[name] = fmt.Sprint(value)
		}
	}
	return settings, nil
}

// The columns of a reference, the first of each that a file has.
var (
	taskColumns   = []string{"task", "env"}
	returnColumns = []string{"return", "return_mean", "avg_return"}
)

// readReference reads the curves of a CSV file, FILE or NAME=FILE, of the tasks that the runs have; where these are told apart by
// algorithm, each with that of its own, or else the first.
func (r *results) readReference(reference string, runs *results) error {
	name, path, named := strings.Cut(reference, "=")
	if !named {
		path = reference
		name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	}
	header, err := readHeader(path)
	if err != nil {
		return err
	}
	first := func(names ...string) string {
		if i := slices.IndexFunc(names, func(name string) bool { return slices.Contains(header, name) }); i >= 0 {
			return names[i]
		}
		return ""
	}
	value, labels := first(returnColumns...), []string{first("label")}
	if value == "" {
		return fmt.Errorf("%s has no column %s", path, strings.Join(returnColumns, ", "))
	}
	if labels[0] == "" {
		labels = []string{first("algorithm"), first("estimator")}
	}
	wanted := slices.Concat(labels, []string{first(taskColumns...), first("algorithm"), first("seed"), first("steps"), value})
	settings := runs.settings()
	return readRows(path, wanted, func(row []string) error {
		label := slices.DeleteFunc(slices.Clone(row[:len(labels)]), func(text string) bool { return text == "" })
		row = row[len(labels):]
		task, algorithm := row[0], row[1]
		i := slices.IndexFunc(settings, func(s setting) bool {
			return (task == "" || task == s.env) && (algorithm == "" || s.algorithm == "" || strings.EqualFold(algorithm, s.algorithm))
		})
		if i < 0 {
			return nil
		}
		s := settings[i]
		if s.algorithm != "" {
			label = slices.DeleteFunc(label, func(text string) bool { return text == algorithm })
		}
		seed, err := strconv.ParseUint(cmp.Or(row[2], "0"), 10, 64)
		if err != nil {
			return fmt.Errorf("seed %.40q", row[2])
		}
		steps, err := number(row[3])
		if err != nil {
			return err
		}
		mean, err := strconv.ParseFloat(row[4], 64)
		if err != nil {
			return err
		}
		v := variant{name: strings.Join(append(label, name), ", "), color: -1}
		if i := slices.IndexFunc(compared, func(c variant) bool { return slices.Contains(label, c.name) }); i >= 0 {
			v.color = compared[i].color
		}
		r.add(s, v, uint(seed), steps, mean)
		return nil
	})
}

// add adds an iteration to the run of a seed of a variant.
func (r *results) add(s setting, v variant, seed uint, steps, mean float64) {
	v.directory = v.name
	g := r.find(s, v.name)
	if g == nil {
		g = &group{setting: s, variant: v}
		r.groups = append(r.groups, g)
	}
	i := slices.Index(g.seeds, seed)
	if i < 0 {
		i = len(g.seeds)
		g.seeds, g.steps, g.returns = append(g.seeds, seed), append(g.steps, nil), append(g.returns, nil)
	}
	g.steps[i], g.returns[i] = append(g.steps[i], steps), append(g.returns[i], mean)
}

// readColumns reads the named columns of a progress.csv, as numbers; NaN where there is none.
func readColumns(path string, names ...string) ([][]float64, error) {
	columns := make([][]float64, len(names))
	err := readRows(path, names, func(row []string) error {
		for i, text := range row {
			value, err := number(text)
			if err != nil {
				return fmt.Errorf("%s: %w", names[i], err)
			}
			columns[i] = append(columns[i], value)
		}
		return nil
	})
	return columns, err
}

// number reads the number in a table's field, NaN where it is empty.
func number(text string) (float64, error) {
	if text == "" {
		return math.NaN(), nil
	}
	return strconv.ParseFloat(text, 64)
}

// readHeader returns the names of a CSV file's columns.
func readHeader(path string) (header []string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w", err)
	}
	defer file.Close()
	if header, err = csv.NewReader(file).Read(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return header, nil
}

// readRows calls each with the named columns of a CSV file's rows, an unnamed one being empty.
func readRows(path string, columns []string, each func(row []string) error) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%w", err)
	}
	defer file.Close()
	reader := csv.NewReader(file)
	header, err := reader.Read()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	places := make([]int, len(columns))
	for i, column := range columns {
		if places[i] = slices.Index(header, column); places[i] < 0 && column != "" {
			return fmt.Errorf("%s has no column %q", path, column)
		}
	}
	picked := make([]string, len(columns))
	for {
		row, err := reader.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for i, place := range places {
			if place >= 0 {
				picked[i] = row[place]
			}
		}
		if err := each(picked); err != nil {
			line, _ := reader.FieldPos(0)
			return fmt.Errorf("%s:%d: %w", path, line, err)
		}
	}
}
