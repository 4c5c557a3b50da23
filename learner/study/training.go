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

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/device"
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

func (m *training) flags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&m.envs, "env", []string{"Swimmer-v2"}, "tasks")
	flags.StringSliceVar(&m.algorithms, "algorithm", []string{"npg"}, "algorithms: vanilla, npg or trpo")
	flags.StringSliceVar(&m.estimators, "estimator", nil, "only the variants with these estimators (default: all)")
	flags.UintSliceVar(&m.seeds, "seeds", []uint{1, 2, 3}, "seeds; each variant is run with each of them")
	flags.IntVar(&m.iterations, "iterations", 300, "number of iterations of each run")
	flags.StringArrayVar(&m.set, "set", nil, "setting of all runs, such as batch=16000; may be repeated")
	flags.StringVar(&m.queue, "queue", "", "file of runs to make, in its order, in place of the grid")
	flags.IntVar(&m.parallel, "parallel", device.Cores(), "number of runs to train at a time")
	flags.BoolVar(&m.plan, "plan", false, "list the runs and how far each is; train nothing")
	m.curveFlags(flags)
}

// curveFlags adds the flags of all measurements of learning curves.
func (m *training) curveFlags(flags *pflag.FlagSet) {
	flags.IntVar(&m.last, "last", 0, "number of last iterations that make the final return (default: a tenth)")
	flags.StringArrayVar(&m.references, "reference", nil,
		"CSV file of other curves, FILE or NAME=FILE; may be repeated")
}

func (m *training) prepare(j *job) error {
	var c checks
	c.require(m.parallel >= 1, "--parallel %d: at least one run is trained at a time", m.parallel)
	c.require(m.iterations >= 1 && m.last >= 0 && (m.last <= m.iterations || m.queue != ""),
		"--iterations %d --last %d: at least one iteration is needed, and at most all are the last", m.iterations,
		m.last)
	requireDistinct(&c, "env", m.envs)
	requireDistinct(&c, "algorithm", m.algorithms)
	requireDistinct(&c, "seeds", m.seeds)
	for _, flag := range []string{"quick", "iterations", "set"} {
		c.require(m.queue == "" || !j.cmd.Flags().Changed(flag), "--%s: write it into the queue, %s", flag, m.queue)
	}
	if err := errors.Join(c...); err != nil {
		return err
	}
	entries, err := m.entries()
	if err != nil {
		return err
	}
	published := map[string]bool{}
	for _, e := range entries {
		for _, place := range config.Grid(e.axes...) {
			for _, v := range e.variants {
				t, err := newTrial(j, v, slices.Concat(e.common, place, v.assignments()))
				if err == nil && published[t.data] {
					err = fmt.Errorf("%s is there twice", t.name)
				}
				if err != nil {
					return fmt.Errorf("%s: %w", e.place, err)
				}
				if published[t.data] = true; m.selects(j, t.settings) {
					m.trials = append(m.trials, t)
				}
			}
		}
	}
	if len(m.trials) == 0 {
		return fmt.Errorf("no such runs: check --env, --algorithm, --estimator and --seeds")
	}
	return nil
}

// entries returns the queue's, or the grid as one: all variants of the first seed first, so that a study cut short has
// results of each.
func (m *training) entries() ([]entry, error) {
	if m.queue != "" {
		return readQueue(m.queue)
	}
	common, err := parseSet(m.set)
	seeds := strings.Fields(strings.Trim(fmt.Sprint(m.seeds), "[]"))
	return []entry{{
		place: m.name,
		axes: []config.Axis{{Name: "seed", Values: seeds}, {Name: "env", Values: m.envs},
			{Name: "algorithm", Values: m.algorithms}},
		common: append([]config.Assignment{{Name: "preset", Value: string(config.Paper)},
			{Name: "iterations", Value: fmt.Sprint(m.iterations)}}, common...),
		variants: m.Variants,
	}}, err
}

// selects reports whether the flags leave a run among those of the queue or the grid.
func (m *training) selects(j *job, s *config.Settings) bool {
	among := func(flag string, ok bool) bool { return ok || !j.cmd.Flags().Changed(flag) }
	return among("env", slices.Contains(m.envs, s.Env)) &&
		among("algorithm", slices.Contains(m.algorithms, string(s.Algorithm))) &&
		among("estimator", slices.Contains(m.estimators, string(s.Estimator))) &&
		among("seeds", slices.Contains(m.seeds, uint(s.Seed)))
}

func (m *training) measure(ctx context.Context, j *job, report func() error) (err error) {
	for _, t := range m.trials { // all, before any is started
		if t.done, err = t.progress(); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		if m.plan {
			fmt.Fprintf(j.cmd.OutOrStdout(), "%5d of %d %s  %s\n", t.done, t.total(), t.settings.Unit(), t.name)
		}
	}
	if j.done = m.plan; m.plan {
		return nil
	}
	return complete(ctx, j, m.trials, m.parallel, report)
}

func (m *training) read(*job) (all []*series, facts []string, err error) {
	var missing []*trial
	for _, t := range m.trials {
		s, err := t.load()
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("%s: %w", t.name, err)
		case s == nil:
			missing = append(missing, t)
		default:
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return nil, nil, errors.New("no run is complete yet")
	}
	if len(missing) > 0 {
		facts = append(facts, fmt.Sprintf("%d of %d runs are complete; the next is %s.", len(all), len(m.trials),
			missing[0].name))
	}
	all, err = m.curves(all)
	return all, facts, err
}

// curves returns the runs, arranged, with the references beside them, and says which rows make the final return.
func (m *training) curves(runs []*series) (all []*series, err error) {
	distinguish(runs)
	all = arrange(runs)
	for _, reference := range m.references {
		found, err := readReference(reference, all)
		if err != nil {
			return nil, fmt.Errorf("--reference: %w", err)
		}
		all = append(all, found...)
	}
	distinguish(all)
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

// readReference reads the curves of another program on the tasks and with the algorithms of some runs, as long as these
// at most, from a CSV file, FILE or NAME=FILE.
func readReference(reference string, runs []*series) (all []*series, err error) {
	program, path, named := strings.Cut(reference, "=")
	if !named {
		program, path = strings.TrimSuffix(filepath.Base(reference), filepath.Ext(reference)), reference
	}
	found, err := readSeries(path, []string{"task", "algorithm", "label", "seed"})
	for _, s := range found {
		of := matching(runs, map[string][]string{"task": {s.labels["task"]}, "algorithm": {s.labels["algorithm"]}})
		if len(of) == 0 {
			continue
		}
		if s.columns["return_mean"] = s.columns["return"]; s.columns["return"] == nil {
			return nil, fmt.Errorf("%s has no column \"return\"", path)
		}
		name, seed := s.labels["label"]+", "+program, s.labels["seed"]
		s.color, s.dashed, s.labels = colorOf(s.labels["label"]), true, maps.Clone(of[0].labels)
		s.cut(of[0].rows())
		if s.columns["steps"] == nil {
			s.labels["stepped"] = ""
		}
		for label, text := range map[string]string{"seed": seed, "name": name, "variant": name, "as": name,
			"program": program} {
			s.labels[label] = text
		}
		all = append(all, s)
	}
	return all, err
}
