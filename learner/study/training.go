package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/internal/chart"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// training is the measurement of training runs: a grid of tasks, algorithms, seeds and the experiment's variants, or
// the runs of a queue. Complete runs are published under data/, and then need their directories no more.
type training struct {
	*experiment
	envs, algorithms, estimators []string
	seeds                        []uint
	iterations, last, parallel   int
	set, references              []string
	queue                        string
	plan                         bool

	trials []*trial
}

// trial is one training run.
type trial struct {
	name        string // for messages
	labels      map[string]string
	color       int
	assignments []config.Assignment
	settings    *config.Settings // resolved from assignments
	arm         string           // "": none
	data        string           // the path, without its ending, at which the run is published; "": nowhere
}

func (m *training) flags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&m.envs, "env", []string{"Swimmer-v2"}, "tasks")
	flags.StringSliceVar(&m.algorithms, "algorithm", []string{"npg"}, "algorithms: vanilla, npg or trpo")
	flags.StringSliceVar(&m.estimators, "estimator", nil, "only the variants with these estimators (default: all)")
	flags.UintSliceVar(&m.seeds, "seeds", []uint{1, 2, 3}, "seeds; each variant is run with each of them")
	flags.IntVar(&m.iterations, "iterations", 300, "number of iterations of each run")
	flags.IntVar(&m.last, "last", 0, "number of last iterations that make the final return (default: a tenth)")
	flags.StringArrayVar(&m.set, "set", nil, "setting of all runs, such as batch=16000; may be repeated")
	flags.StringVar(&m.queue, "queue", "", "file of runs to make, in its order, in place of the grid")
	flags.StringArrayVar(&m.references, "reference", nil,
		"CSV file of other curves, FILE or NAME=FILE; may be repeated")
	flags.IntVar(&m.parallel, "parallel", device.Cores(), "number of runs to train at a time")
	flags.BoolVar(&m.plan, "plan", false, "list the runs and how far each is; train nothing")
}

func (m *training) prepare(j *job) (err error) {
	var c checks
	c.require(m.parallel >= 1, "--parallel %d: at least one run is trained at a time", m.parallel)
	c.require(m.iterations >= 1 && m.last >= 0 && (m.last <= m.iterations || m.queue != ""),
		"--iterations %d --last %d: at least one iteration is needed, and at most all are the last", m.iterations,
		m.last)
	requireDistinct(&c, "env", m.envs)
	requireDistinct(&c, "algorithm", m.algorithms)
	requireDistinct(&c, "seeds", m.seeds)
	if len(m.estimators) > 0 {
		requireDistinct(&c, "estimator", m.estimators)
	}
	if err := errors.Join(c...); err != nil {
		return err
	}
	if m.queue != "" {
		m.trials, err = m.queued(j)
	} else {
		m.trials, err = m.grid(j)
	}
	if err == nil && len(m.trials) == 0 {
		err = fmt.Errorf("no such runs: check --env, --algorithm, --estimator and --seeds")
	}
	return err
}

// grid returns the runs of all combinations, all variants of the first seed first, so that a study cut short has
// results of each.
func (m *training) grid(j *job) (all []*trial, err error) {
	common, err := parseSet(m.set)
	if err != nil {
		return nil, err
	}
	for _, name := range m.estimators {
		if !slices.ContainsFunc(m.Variants, func(v variant) bool { return v.Settings["estimator"] == name }) {
			return nil, fmt.Errorf("--estimator %s: no variant has it", name)
		}
	}
	preset := []config.Assignment{unevaluated, {Name: "preset", Value: string(config.Paper)}}
	seeds := strings.Split(strings.Trim(fmt.Sprint(m.seeds), "[]"), " ")
	axes := []config.Axis{{Name: "seed", Values: seeds}, {Name: "env", Values: m.envs},
		{Name: "algorithm", Values: m.algorithms}}
	for _, place := range config.Grid(axes...) {
		for _, v := range m.Variants {
			if m.estimators != nil && !slices.Contains(m.estimators, v.Settings["estimator"]) {
				continue
			}
			length := config.Assignment{Name: "iterations", Value: fmt.Sprint(m.iterations)}
			t, err := newTrial(j, v, slices.Concat(preset, common, place, []config.Assignment{length}, v.assignments()))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", v.Name, err)
			}
			all = append(all, t)
		}
	}
	return all, nil
}

// unevaluated comes first among a run's settings: studies compare the returns of training, unless a queue says
// otherwise.
var unevaluated = config.Assignment{Name: "evaluate_every", Value: "0"}

// newTrial returns the run of a variant.
func newTrial(j *job, v variant, assignments []config.Assignment) (*trial, error) {
	s, err := config.Resolve(assignments...)
	if err != nil {
		return nil, err
	}
	t := &trial{name: fmt.Sprintf("%s %s %s seed %d", s.Env, s.Algorithm, v.Name, s.Seed), color: v.Color,
		labels: v.labels(s)}
	name := string(s.Algorithm) + "-" + v.As
	run := config.Assignment{Name: "run_dir", Value: j.path("runs", s.Env, name, fmt.Sprintf("s%d", s.Seed))}
	t.assignments, t.data = append(assignments, run), j.path("data", s.Env, fmt.Sprintf("%s-s%d", name, s.Seed))
	t.settings, err = config.Resolve(t.assignments...)
	return t, err
}

// labels returns the labels of a variant's run.
func (v variant) labels(s *config.Settings) map[string]string {
	return map[string]string{"task": s.Env, "algorithm": string(s.Algorithm), "seed": fmt.Sprint(s.Seed),
		"variant": v.As, "as": cmp.Or(v.role, v.As), "name": cmp.Or(v.Name, v.As)}
}

func (m *training) measure(ctx context.Context, j *job, report func() error) error {
	p, err := survey(m.trials, m.parallel)
	if err != nil {
		return err
	}
	if m.plan {
		j.done = true
		return p.print(j.cmd.OutOrStdout())
	}
	return p.train(ctx, j, report)
}

// publishedColumns are the columns of progress.csv that are published, with their significant digits.
var (
	publishedColumns = []string{"iteration", "steps", "return_mean", "target_std", "step_norm", "explained_variance",
		"log_likelihood", "coverage_50", "coverage_90", "seconds_sampling", "seconds_updating"}
	publishedDigits = map[string]int{"return_mean": 6, "target_std": 4, "step_norm": 4, "explained_variance": 4,
		"log_likelihood": 4, "coverage_50": 4, "coverage_90": 4, "seconds_sampling": 4, "seconds_updating": 4}
)

// publish writes the rows of a completed run, unless they are published, or have no place.
func (t *trial) publish() error {
	if t.data == "" {
		return nil
	}
	if s, err := t.load(); s != nil || err != nil {
		return err
	}
	s, err := readColumns(runs.ProgressFile(t.settings.RunDir), publishedColumns[1:]...)
	if err != nil {
		return err
	}
	s.columns["iteration"] = s.places("")
	n, _ := t.length(s.columns["steps"])
	s.cut(n)
	r, err := newRecord(t.settings)
	if err != nil {
		return err
	}
	r.Arm = t.arm
	return writeRecorded(t.data, r, s.table(publishedDigits, publishedColumns...))
}

// length returns how many rows with these steps the run has, up to its length, and whether it reaches it.
func (t *trial) length(steps []float64) (n int, complete bool) {
	for n < len(steps) && !complete {
		complete = t.settings.Reached(uint64(n+1), uint64(steps[n]))
		n++
	}
	return n, complete
}

// load returns the published run, cut to the length that is asked for; nil if it is shorter. One that was made with
// other settings is an error. Settings that its record or this program lacks are ignored.
func (t *trial) load() (*series, error) {
	r, err := readRecord(t.data + ".yaml")
	if r == nil || err != nil {
		return nil, err
	}
	if r.Settings["preset"] == "authors" { // paper, with settings that are recorded too
		r.Settings["preset"] = string(config.Paper)
	}
	now := t.settings.Identity()
	then := maps.Clone(r.Settings)
	maps.DeleteFunc(then, func(name, _ string) bool { _, known := now[name]; return !known })
	maps.DeleteFunc(now, func(name, _ string) bool { _, known := then[name]; return !known })
	different := runs.Differences(then, now)
	if r.Arm != t.arm {
		different = append(different, runs.Difference{Name: "arm", Then: r.Arm, Now: t.arm})
	}
	if len(different) > 0 {
		return nil, otherwise(t.data+".csv", &runs.MismatchError{Differences: different})
	}
	s, err := readColumns(t.data+".csv", publishedColumns[1:]...)
	if err != nil {
		return nil, err
	}
	n, complete := t.length(s.columns["steps"])
	if !complete {
		return nil, nil
	}
	s.cut(n)
	s.labels, s.record, s.color = maps.Clone(t.labels), r, t.color
	return s, nil
}

// otherwise says that a run was made with other settings.
func otherwise(what string, mismatch *runs.MismatchError) error {
	return fmt.Errorf("%s was %w; choose another --out, or go back to those settings", what, mismatch)
}

func (m *training) read(*job) (all []*series, facts []string, err error) {
	var missing []*trial
	for _, t := range m.trials {
		s, err := t.load()
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", t.name, err)
		}
		if s == nil {
			missing = append(missing, t)
			continue
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		return nil, nil, errors.New("no run is complete yet")
	}
	distinguish(all)
	all, err = m.beside(arrange(all))
	facts = confounders(m.trials)
	if len(missing) > 0 {
		facts = append(facts, fmt.Sprintf("%d of %d runs are complete; the next is %s.",
			len(m.trials)-len(missing), len(m.trials), missing[0].name))
	}
	return all, facts, err
}

// beside returns the runs and the references, with as many rows at most, and says which rows make the final return.
func (m *training) beside(runs []*series) ([]*series, error) {
	all := runs
	for _, reference := range m.references {
		found, err := readReference(reference, runs)
		if err != nil {
			return nil, fmt.Errorf("--reference: %w", err)
		}
		all = append(all, found...)
	}
	for _, s := range all {
		s.tail = max(1, s.rows()/10)
		if m.last > 0 {
			s.tail = min(m.last, s.rows())
		}
	}
	return all, nil
}

// setting names the labels of a comparison: a task, an algorithm, and a preset if there are several.
var setting = []string{"task", "algorithm", "preset"}

// arrange puts the runs of a setting together, each variant's in the order of the seeds, and makes those of a setting
// equally long.
func arrange(all []*series) (ordered []*series) {
	for _, group := range grouped(all, setting...) {
		least := math.MaxInt
		for _, s := range group {
			s.labels["setting"], s.labels["stepped"] = s.label(setting...), "yes"
			least = min(least, s.rows())
		}
		for _, runs := range grouped(group, "variant") {
			slices.SortStableFunc(runs, func(a, b *series) int {
				return cmp.Compare(a.numbered("seed"), b.numbered("seed"))
			})
			for _, s := range runs {
				s.cut(least)
			}
			ordered = append(ordered, runs...)
		}
	}
	return ordered
}

// confounders names the settings in which variants of a task and an algorithm differ although none of them is named for
// it: a preset may give an estimator a learning rate of its own on a task.
func confounders(trials []*trial) (all []string) {
	type finding struct{ place, setting, value string }
	variants := map[finding][]string{} // names
	values := map[finding][]string{}   // by place and setting
	var places []finding
	for _, t := range trials {
		place := t.labels["task"] + ", " + t.labels["algorithm"]
		unnamed := t.unnamed(trials)
		for _, name := range sortedKeys(unnamed) {
			at := finding{place, name, ""}
			with := finding{place, name, unnamed[name]}
			if values[at] == nil {
				places = append(places, at)
			}
			if variants[with] == nil {
				values[at] = append(values[at], unnamed[name])
			}
			if !slices.Contains(variants[with], t.labels["name"]) {
				variants[with] = append(variants[with], t.labels["name"])
			}
		}
	}
	for _, at := range places {
		if len(values[at]) < 2 {
			continue
		}
		var found []string
		for _, value := range values[at] {
			found = append(found, fmt.Sprintf("%s (%s)", value,
				strings.Join(variants[finding{at.place, at.setting, value}], "; ")))
		}
		all = append(all, fmt.Sprintf("**More than the variant differs** on %s: %s %s.", at.place, at.setting,
			strings.Join(found, ", ")))
	}
	return all
}

// unnamed returns the settings of a run that neither its variant nor its place names: those of its preset, and those
// that not all runs of a variant of this name are given.
func (t *trial) unnamed(all []*trial) map[string]string {
	rest := t.settings.Identity()
	for _, a := range t.assignments {
		lacks := func(other *trial) bool {
			return other.labels["name"] == t.labels["name"] &&
				!slices.ContainsFunc(other.assignments, func(b config.Assignment) bool { return a.Name == b.Name })
		}
		if !slices.ContainsFunc(all, lacks) {
			delete(rest, a.Name)
		}
	}
	delete(rest, "estimator")
	delete(rest, "seed")
	return rest
}

// readReference reads the curves of other programs on the tasks of some runs, from a CSV file, FILE or NAME=FILE:
// columns task or env, label or estimator, algorithm, seed, and return, return_mean or avg_return; steps may be
// missing.
func readReference(reference string, runs []*series) (all []*series, err error) {
	program, path, named := strings.Cut(reference, "=")
	if !named {
		program, path = strings.TrimSuffix(filepath.Base(reference), filepath.Ext(reference)), reference
	}
	rows, err := readCSV(path)
	if err != nil {
		return nil, err
	}
	alternatives := map[string][]string{"task": {"env"}, "label": {"estimator"},
		"return_mean": {"return", "avg_return"}}
	column := func(name string) string {
		for _, column := range append(alternatives[name], name) {
			if slices.Contains(rows[0], column) {
				return column
			}
		}
		return ""
	}
	var labels []string
	for _, name := range []string{"task", "label", "algorithm", "seed"} {
		if column := column(name); column != "" {
			labels = append(labels, name+"="+column)
		}
	}
	wanted := []string{column("return_mean")}
	if wanted[0] == "" {
		return nil, fmt.Errorf("%s has no column return, return_mean or avg_return", path)
	}
	if steps := column("steps"); steps != "" {
		wanted = append(wanted, steps)
	}
	found, err := readSeries(path, labels, wanted...)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range found {
		i := slices.IndexFunc(runs, func(r *series) bool {
			return (s.labels["task"] == "" || s.labels["task"] == r.labels["task"]) &&
				(s.labels["algorithm"] == "" || strings.EqualFold(s.labels["algorithm"], r.labels["algorithm"]))
		})
		if i < 0 {
			continue
		}
		name, seed := s.label("label"), cmp.Or(s.labels["seed"], "0")
		s.color, s.dashed, s.labels = colorOf(name), true, maps.Clone(runs[i].labels)
		name = strings.TrimPrefix(name+", "+program, ", ")
		if s.color < 0 {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
			s.color = len(estimatorColors) + slices.Index(names, name)
		}
		s.columns["return_mean"] = s.columns[wanted[0]]
		s.cut(runs[i].rows())
		if s.columns["steps"] == nil {
			s.labels["stepped"] = ""
		}
		for label, text := range map[string]string{"seed": seed, "name": name, "variant": name, "as": name,
			"program": program} {
			s.labels[label] = text
		}
		all = append(all, s)
	}
	return all, nil
}

// estimatorColors are the colours of the estimators that the paper compares.
var estimatorColors = map[string]int{"mc": chart.Gray, "dbqpg": 0, "uapg": 1}

// colorOf returns the colour of an estimator's name, -1 if it has none.
func colorOf(name string) int {
	if color, ok := estimatorColors[strings.ToLower(name)]; ok {
		return color
	}
	return -1
}
