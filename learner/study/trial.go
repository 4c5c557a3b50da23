package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dbqpg/dbqpg/internal/chart"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// variant is a run, or a part of a measurement, that is compared with others.
type variant struct {
	As       string            // one word, which names directories and claims; "": see [variant.of]
	Name     string            // for readers; empty: As
	Color    int               // -1: none of its own
	Settings map[string]string `yaml:",inline"`
	arm      string            // of a queue's run; "": none
	role     string            // by which claims know it; empty: As
}

// assignments returns the variant's settings, in the order of their names.
func (v variant) assignments() (all []config.Assignment) {
	for _, name := range sortedKeys(v.Settings) {
		all = append(all, config.Assignment{Name: name, Value: v.Settings[name]})
	}
	return all
}

// of returns the variant of a run: its estimator, its preset, and the settings in which it differs from that.
func (v variant) of(s *config.Settings) variant {
	estimator, as, label := string(s.Estimator), s.Variant(), v.Name
	if v.arm != "" {
		as += "_arm=" + v.arm
	}
	v.As, v.Name, v.Color, v.role = estimator+"-"+as, strings.ToUpper(estimator), colorOf(estimator), estimator
	if _, different, found := strings.Cut(as, "_"); found {
		v.role, v.Name, v.Color = v.As, v.Name+" "+strings.ReplaceAll(different, "_", " "), -1
	}
	if label != "" {
		v.role, v.Name, v.Color = v.As, label, -1
	}
	return v
}

// labels returns the labels of the variant's run.
func (v variant) labels(s *config.Settings) map[string]string {
	preset, _, _ := strings.Cut(s.Variant(), "_")
	return map[string]string{"task": s.Env, "algorithm": string(s.Algorithm), "seed": fmt.Sprint(s.Seed),
		"preset": preset, "variant": v.As, "as": cmp.Or(v.role, v.As), "name": cmp.Or(v.Name, v.As)}
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

// distinguish gives series without a colour one, by name, and drops a preset that all have from their labels.
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

// trial is one training run.
type trial struct {
	name        string // for messages
	variant     variant
	assignments []config.Assignment
	settings    *config.Settings // resolved from assignments
	data        string           // the path, without its ending, at which the run is published
	done        uint64           // iterations or steps
}

// unevaluated comes first among a run's settings: studies compare the returns of training, unless a queue says
// otherwise.
var unevaluated = config.Assignment{Name: "evaluate_every", Value: "0"}

// newTrial returns the run of a variant.
func newTrial(j *job, v variant, assignments []config.Assignment) (*trial, error) {
	assignments = append([]config.Assignment{unevaluated}, assignments...)
	s, err := config.Resolve(assignments...)
	if err == nil {
		_, err = armOf(v.arm, s)
	}
	if err != nil {
		return nil, err
	}
	if v.As == "" {
		v = v.of(s)
	}
	name := string(s.Algorithm) + "-" + v.As
	s.RunDir = j.path("runs", s.Env, name, fmt.Sprintf("s%d", s.Seed))
	return &trial{
		name:    fmt.Sprintf("%s %s %s seed %d", s.Env, s.Algorithm, cmp.Or(v.Name, v.As), s.Seed),
		variant: v, settings: s, data: j.path("data", s.Env, fmt.Sprintf("%s-s%d", name, s.Seed)),
		assignments: append(assignments, config.Assignment{Name: "run_dir", Value: s.RunDir}),
	}, nil
}

// total returns the length of the run, in iterations or steps.
func (t *trial) total() uint64 {
	_, all := t.settings.Of(0, 0)
	return all
}

// progress returns how far the run is: at its end, if it is published.
func (t *trial) progress() (uint64, error) {
	if s, err := t.load(); s != nil || err != nil {
		return t.total(), err
	}
	done, _, err := runs.Done(t.settings)
	if mismatch := (*runs.MismatchError)(nil); errors.As(err, &mismatch) {
		err = otherwise(t.settings.RunDir, mismatch)
	}
	return min(done, t.total()), err
}

// publishedColumns are the columns of progress.csv that are published, with their significant digits.
var (
	publishedColumns = []string{"iteration", "steps", "return_mean", "target_std", "step_norm", "explained_variance",
		"log_likelihood", "coverage_50", "coverage_90", "seconds_sampling", "seconds_updating"}
	publishedDigits = map[string]int{"return_mean": 6, "target_std": 4, "step_norm": 4, "explained_variance": 4,
		"log_likelihood": 4, "coverage_50": 4, "coverage_90": 4, "seconds_sampling": 4, "seconds_updating": 4}
)

// publish writes the rows of a completed run, unless they are published.
func (t *trial) publish() error {
	if s, err := t.load(); s != nil || err != nil {
		return err
	}
	s, err := readColumns(runs.ProgressFile(t.settings.RunDir), publishedColumns[1:]...)
	if err != nil {
		return err
	}
	s.columns["iteration"] = s.places("")
	n, _ := length(t.settings, s.columns["steps"])
	s.cut(n)
	r, err := newRecord(t.settings)
	if err != nil {
		return err
	}
	r.Arm = t.variant.arm
	return writeRecorded(t.data, r, s.table(publishedDigits, publishedColumns...))
}

// length returns how many rows with these steps a run has, up to its length, and whether it reaches it.
func length(s *config.Settings, steps []float64) (n int, complete bool) {
	for n < len(steps) && !complete {
		complete = s.Reached(uint64(n+1), uint64(steps[n]))
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
	then["arm"], now["arm"] = r.Arm, t.variant.arm
	if different := runs.Differences(then, now); len(different) > 0 {
		return nil, otherwise(t.data+".csv", &runs.MismatchError{Differences: different})
	}
	s, err := readColumns(t.data+".csv", publishedColumns[1:]...)
	if err != nil {
		return nil, err
	}
	n, complete := length(t.settings, s.columns["steps"])
	if !complete {
		return nil, nil
	}
	s.cut(n)
	s.labels, s.record, s.color = t.variant.labels(t.settings), r, t.variant.Color
	return s, nil
}

// otherwise says that a run was made with other settings.
func otherwise(what string, mismatch *runs.MismatchError) error {
	return fmt.Errorf("%s was %w; choose another --out, or go back to those settings", what, mismatch)
}
