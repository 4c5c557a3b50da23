package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// given returns the settings of existing runs, whose directories are named. Errors begin with before.
func given(before string, directories []string) (all []*config.Settings, err error) {
	for _, directory := range directories {
		s, err := config.Resolve(unevaluated, config.Assignment{Name: "run_dir", Value: directory},
			config.Assignment{Name: "resume", Value: string(config.ResumeYes)})
		if err != nil {
			return nil, fmt.Errorf("%s%s: it is no run's directory: %w", before, directory, err)
		}
		i := slices.IndexFunc(all, func(other *config.Settings) bool { return other.Name() == s.Name() })
		if i >= 0 {
			return nil, fmt.Errorf("%s%s: %s is a run of the same name: give them different seeds", before, directory,
				all[i].RunDir)
		}
		all = append(all, s)
	}
	return all, nil
}

// finished is a measurement of finished runs, the command's arguments: a table of each is published. It trains nothing.
type finished struct {
	table  func(s *config.Settings, method string) ([][]string, error)
	series func(j *job) ([]*series, error)
}

func (*finished) flags(*pflag.FlagSet) {}

func (*finished) prepare(*job) error { return nil }

// measure publishes the tables under data/TASK/METHOD-sSEED, METHOD being the algorithm and the variant.
func (m *finished) measure(_ context.Context, j *job, _ func() error) error {
	settings, err := given("", j.cmd.Flags().Args())
	if err != nil {
		return err
	}
	for _, s := range settings {
		progress, err := readColumns(runs.ProgressFile(s.RunDir), "steps")
		if err != nil {
			return err
		}
		if _, complete := length(s, progress.columns["steps"]); !complete {
			return fmt.Errorf("%s is not complete: resume it first", s.RunDir)
		}
		method := string(s.Algorithm) + "-" + variant{}.of(s).As
		rows, err := m.table(s, method)
		if err != nil {
			return err
		}
		r, err := newRecord(s)
		if err == nil {
			err = writeRecorded(j.path("data", s.Env, fmt.Sprintf("%s-s%d", method, s.Seed)), r, rows)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *finished) read(j *job) (all []*series, facts []string, err error) {
	all, err = m.series(j)
	return all, nil, err
}

// evaluationColumns are the columns of our evaluations; those of other libraries lack the last. Times are of training
// alone, in seconds by the clock and of the processor; the return is of mean actions.
var (
	evaluationColumns = []string{"task", "algorithm", "seed", "steps", "seconds", "cpu_seconds", "return",
		"sampled_return"}
	evaluationDigits = map[string]int{"seconds": 4, "cpu_seconds": 4, "return": 6, "sampled_return": 6}
)

// evaluationTable returns a run's evaluations.
func evaluationTable(s *config.Settings, method string) ([][]string, error) {
	e, err := readColumns(runs.Evaluations(s.RunDir), "iteration", "steps", "mean_action_return",
		"sampled_action_return")
	if err != nil {
		return nil, fmt.Errorf("%w; train with --evaluate-every", err)
	}
	times, err := readColumns(runs.ProgressFile(s.RunDir), "seconds_sampling", "seconds_updating", "seconds_processor")
	if err != nil {
		return nil, err
	}
	e.columns["return"], e.columns["sampled_return"] = e.columns["mean_action_return"],
		e.columns["sampled_action_return"]
	clock, processor := times.columns["seconds_sampling"], times.columns["seconds_processor"]
	floats.Add(clock, times.columns["seconds_updating"])
	for _, iteration := range e.columns["iteration"] {
		done := min(int(iteration), len(clock))
		e.columns["seconds"] = append(e.columns["seconds"], floats.Sum(clock[:done]))
		e.columns["cpu_seconds"] = append(e.columns["cpu_seconds"], floats.Sum(processor[:done]))
	}
	rows := e.table(evaluationDigits, evaluationColumns[3:]...)
	rows[0] = evaluationColumns
	for i, row := range rows[1:] {
		rows[i+1] = append([]string{s.Env, method, fmt.Sprint(s.Seed)}, row...)
	}
	return rows, nil
}

// budget is the number of steps after which returns are compared; a batch may end a little after it.
const budget, slack = 1e6, 1e4

// contenders are the methods with names and colours, by their names in tables.
var contenders = map[string]struct {
	name  string
	color int
}{
	"trpo-uapg-best": {"UAPG", 1}, "trpo-mc-best": {"MC", estimatorColors["mc"]},
	"trpo": {"TRPO (sb3-contrib)", 0}, "ppo": {"PPO (Stable-Baselines3)", 2},
}

// readEvaluations reads our evaluations and those of other libraries.
func readEvaluations(j *job) ([]*series, error) {
	all, err := j.readData("data/*/*.csv", evaluationColumns[:3], evaluationColumns[3:]...)
	if err != nil {
		return nil, err
	}
	others, err := j.readData("baselines/*/*.csv", evaluationColumns[:3], evaluationColumns[3:7]...)
	if err != nil {
		return nil, err
	}
	all = append(all, others...)
	for _, runs := range grouped(all, "task", "algorithm", "seed") {
		if len(runs) > 1 {
			return nil, fmt.Errorf("%s: %s has a table of its own already", runs[1].labels["path"],
				runs[1].label("algorithm", "task", "seed"))
		}
		if err := runs[0].evaluated(); err != nil {
			return nil, fmt.Errorf("%s: %w", runs[0].labels["path"], err)
		}
	}
	all = slices.DeleteFunc(all, func(s *series) bool {
		return s.rows() == 0 || s.columns["steps"][s.rows()-1] < budget
	})
	if len(all) == 0 {
		return nil, fmt.Errorf("--out %s: there are no evaluations of a million steps in data/TASK/*.csv "+
			"or baselines/TASK/*.csv, and no runs to take them from", j.out)
	}
	slices.SortStableFunc(all, func(a, b *series) int { // by name, the seeds by number
		return cmp.Or(cmp.Compare(a.labels["task"], b.labels["task"]),
			cmp.Compare(a.labels["algorithm"], b.labels["algorithm"]),
			cmp.Compare(a.numbered("seed"), b.numbered("seed")))
	})
	return all, nil
}

// evaluated checks the evaluations of a run, and ends them at the budget.
func (s *series) evaluated() error {
	s.labels["name"], s.color = s.labels["algorithm"], 3
	if c, ok := contenders[s.labels["algorithm"]]; ok {
		s.labels["name"], s.color = c.name, c.color
	}
	steps, end := s.columns["steps"], 0
	for i, x := range steps {
		switch {
		case math.IsNaN(x-s.columns["return"][i]) || math.IsInf(x, 0) || x < 0:
			return fmt.Errorf("row %d: the steps or the return are no number", i+1)
		case i > 0 && x <= steps[i-1]:
			return fmt.Errorf("row %d: steps do not increase", i+1)
		case x <= budget+slack:
			end = i + 1
		}
		if x > 0.9*budget && x <= budget+slack {
			s.tail++
		}
	}
	s.cut(end)
	return nil
}

// calibrationColumns are the columns of progress.csv that a page needs; a run may lack the optional ones. The last two
// are of runs whose value function learns lambda-returns: then the targets are its errors.
var (
	calibrationColumns = []string{"iteration", "steps", "coverage_50", "coverage_90", "held_out_log_likelihood",
		"gaussian_log_likelihood"}
	optionalColumns   = []string{"normal_coverage_50", "normal_coverage_90", "target_std", "explained_variance"}
	calibrationDigits = map[string]int{"coverage_50": 4, "coverage_90": 4, "held_out_log_likelihood": 4,
		"gaussian_log_likelihood": 4, "normal_coverage_50": 4, "normal_coverage_90": 4, "target_std": 7,
		"explained_variance": 7}
)

// calibrationTable returns the calibration of a run's process.
func calibrationTable(s *config.Settings, _ string) ([][]string, error) {
	if s.KernelLearning != config.Converge || s.Estimator == config.MonteCarlo {
		return nil, fmt.Errorf("%s: its process predicts no held-out episodes: "+
			"train with --kernel-learning converge --estimator uapg", s.RunDir)
	}
	rows, err := readColumns(runs.ProgressFile(s.RunDir))
	if err != nil {
		return nil, err
	}
	names, optional := slices.Clone(calibrationColumns), optionalColumns
	if s.Targets != config.GAE || s.ValueLearning != config.Converge {
		optional = optional[:2]
	}
	for _, name := range optional {
		if rows.columns[name] != nil {
			names = append(names, name)
		}
	}
	return rows.table(calibrationDigits, names...), nil
}

// settled is the iteration from which on calibration is judged.
const settled = 20

// readCalibration reads the calibration of all runs.
func readCalibration(j *job) ([]*series, error) {
	all, err := j.readData("data/*/*.csv", nil)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("--out %s: there are no data in data/TASK/*.csv, and no runs to take them from", j.out)
	}
	for _, s := range all {
		path := s.labels["path"]
		for _, name := range calibrationColumns {
			if s.columns[name] == nil {
				return nil, fmt.Errorf("%s has no column %q", path, name)
			}
		}
		if s.rows() <= settled {
			return nil, fmt.Errorf("%s: calibration is judged from iteration %d on, and the run has %d", path, settled,
				s.rows())
		}
		s.labels["run"] = strings.TrimSuffix(filepath.Base(path), ".csv")
		s.labels["name"], s.color = s.labels["run"][:max(0, strings.LastIndex(s.labels["run"], "-s"))], -1
		s.columns["above_gaussian"] = floats.SubTo(make([]float64, s.rows()), s.columns["held_out_log_likelihood"],
			s.columns["gaussian_log_likelihood"])
		if s.columns["target_std"] != nil {
			s.labels["explains"] = "yes"
		}
	}
	distinguish(all)
	return all, err
}
