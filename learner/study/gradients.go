package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/chart"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// gradients is the measurement of the gradients that policies of a run have at several iterations: those of repeated
// batches of several sizes, in several ways, against one from many samples.
type gradients struct {
	runs             []string // directories; none: the study trains its own
	envs             []string
	algorithm        string
	seed             uint
	set              []string
	at               []uint // iterations
	sizes            []uint
	repeats, samples int // of a size; of the reference
	samplingSeed     uint64
}

func (m *gradients) flags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&m.runs, "run", nil, "run directory to measure; may be repeated, one a task (default: train "+
		"a run on each task)")
	flags.StringSliceVar(&m.envs, "env", []string{"Swimmer-v2", "Hopper-v2", "HalfCheetah-v2"},
		"tasks of the runs to train")
	flags.StringVar(&m.algorithm, "algorithm", "trpo", "algorithm of the runs to train: vanilla, npg or trpo")
	flags.UintVar(&m.seed, "seed", 1, "seed of the runs to train")
	flags.StringArrayVar(&m.set, "set", nil, "setting of the runs to train, such as batch=5000; may be repeated")
	flags.UintSliceVar(&m.at, "at", []uint{0, 10, 50}, "iterations whose policies to measure")
	flags.UintSliceVar(&m.sizes, "sizes", []uint{500, 1000, 2000, 4000, 8000, 15000}, "minimum batch sizes in samples")
	flags.IntVar(&m.repeats, "repeats", 10, "number of batches of each size")
	flags.IntVar(&m.samples, "reference", 1_000_000, "number of samples for the reference gradient")
	flags.Uint64Var(&m.samplingSeed, "sampling-seed", 1, "seed of the episodes of the batches and of the reference")
}

func (m *gradients) prepare(j *job) error {
	var c checks
	requireDistinct(&c, "env", m.envs)
	requireDistinct(&c, "at", m.at)
	requireDistinct(&c, "sizes", m.sizes)
	c.require(!slices.Contains(m.sizes, 0), "--sizes: a batch has at least 1 sample")
	c.require(m.repeats >= 2, "--repeats %d: a variance takes at least 2", m.repeats)
	c.require(m.samples >= 2, "--reference %d: too few samples", m.samples)
	for _, flag := range []string{"env", "algorithm", "seed", "set"} {
		c.require(len(m.runs) == 0 || !j.cmd.Flags().Changed(flag), "--run and --%s are mutually exclusive", flag)
	}
	slices.Sort(m.at)
	slices.Sort(m.sizes)
	return errors.Join(c...)
}

// measure measures the policies of all runs that are not published yet, and has the page written after each.
func (m *gradients) measure(ctx context.Context, j *job, report func() error) error {
	subjects, err := m.subjects(ctx, j)
	if err != nil {
		return err
	}
	for i, s := range subjects {
		if s.Targets != config.GAE || s.ValueLearning != config.Converge || s.KernelLearning != config.Converge {
			return fmt.Errorf("%s: the run has no value function of its own, or no learned posterior: measure one of "+
				"--targets gae --value-learning converge --kernel-learning converge, such as --preset best", s.RunDir)
		}
		if slices.ContainsFunc(subjects[:i], func(other *config.Settings) bool { return other.Env == s.Env }) {
			return fmt.Errorf("--run %s: there is one on %s already", s.RunDir, s.Env)
		}
		if err := hasCheckpoints(s, m.at); err != nil {
			return err
		}
	}
	for _, s := range subjects {
		for _, at := range m.at {
			measured, err := m.published(j, s, at)
			if err == nil && !measured {
				j.log.Info("measuring gradients", "task", s.Env, "iteration", at)
				err = m.policy(ctx, j, s, at)
			}
			if err == nil {
				err = report()
			}
			if err != nil {
				return fmt.Errorf("%s, iteration %d: %w", s.Env, at, err)
			}
		}
	}
	return nil
}

// subjects returns the runs to measure: the given ones, or runs that it trains.
func (m *gradients) subjects(ctx context.Context, j *job) (all []*config.Settings, err error) {
	if len(m.runs) > 0 {
		return given("--run ", m.runs)
	}
	common, err := parseSet(m.set)
	if err != nil {
		return nil, err
	}
	at := strings.Trim(strings.ReplaceAll(fmt.Sprint(m.at), " ", ","), "[]")
	var trials []*trial
	for _, env := range m.envs {
		t, err := newTrial(j, variant{As: "dbqpg"}, slices.Concat(
			[]config.Assignment{{Name: "preset", Value: string(config.Best)}}, common,
			[]config.Assignment{{Name: "env", Value: env}, {Name: "algorithm", Value: m.algorithm},
				{Name: "estimator", Value: "dbqpg"}, {Name: "seed", Value: fmt.Sprint(m.seed)},
				{Name: "keep_checkpoints", Value: at},
				{Name: "iterations", Value: fmt.Sprint(max(1, slices.Max(m.at)))}}))
		if err != nil {
			return nil, err
		}
		trials, all = append(trials, t), append(all, t.settings)
	}
	for _, t := range trials {
		done, all, err := runs.Done(t.settings)
		if err == nil && done < all {
			j.log.Info("training", "run", t.name, t.settings.Unit(), t.total())
			err = t.train(ctx, device.Cores())
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return all, nil
}

// hasCheckpoints fails unless the run can be measured at these iterations.
func hasCheckpoints(s *config.Settings, at []uint) error {
	if s.Estimator == config.MonteCarlo {
		return fmt.Errorf("%s: the run has learned no kernel: measure one of --estimator dbqpg or uapg", s.RunDir)
	}
	kept, err := runs.Iterations(runs.Checkpoints(s.RunDir))
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Clone(at), func(iteration uint) bool {
		return slices.Contains(kept, uint64(iteration))
	})
	if len(missing) > 0 {
		return fmt.Errorf("%s has checkpoints of the iterations %v, but none of %v: train a run with "+
			"--keep-checkpoints, or choose others by --at", s.RunDir, kept, missing)
	}
	return nil
}

// asked describes a measurement in its record.
func (m *gradients) asked() string {
	return fmt.Sprintf("sizes %v, %d repeats, reference %d, sampling seed %d", m.sizes, m.repeats, m.samples,
		m.samplingSeed)
}

// data returns the path, without its ending, at which a policy's table is published.
func (m *gradients) data(j *job, s *config.Settings, table string, iteration uint) string {
	return j.path("data", s.Env, fmt.Sprintf("%s-%d", table, iteration))
}

// published reports whether a policy is measured. A measurement of another run, or with other flags, is an error.
func (m *gradients) published(j *job, s *config.Settings, iteration uint) (bool, error) {
	path := m.data(j, s, "iteration", iteration)
	r, err := readRecord(path + ".yaml")
	if r == nil || err != nil {
		return false, err
	}
	different := runs.Differences(r.Settings, s.Identity())
	if then := fmt.Sprint(r.Facts["asked"]); then != m.asked() {
		different = append(different, runs.Difference{Name: "measurement", Then: then, Now: m.asked()})
	}
	if len(different) > 0 {
		return false, otherwise(path+".csv", &runs.MismatchError{Differences: different})
	}
	return true, nil
}

// policy measures a policy's gradients and publishes them.
func (m *gradients) policy(ctx context.Context, j *job, s *config.Settings, iteration uint) error {
	seed := streams.New(m.samplingSeed, streams.Study, s.Seed, uint64(iteration)).Uint64()
	return restore(ctx, s, uint64(iteration), seed, func(ctx context.Context, p *probe) error {
		scope := compute.NewScope(p.Backend)
		defer scope.Release()
		if err := p.refer(ctx, scope, m.samples); err != nil {
			return fmt.Errorf("the reference gradient: %w", err)
		}
		rows, uncertain := [][]string{gradientColumns}, [][]string{uncertainColumns}
		for _, size := range m.sizes {
			more, further, err := p.size(ctx, int(size), m.repeats)
			if err != nil {
				return fmt.Errorf("%d samples: %w", size, err)
			}
			rows, uncertain = append(rows, more...), append(uncertain, further...)
		}
		made, err := newRecord(s)
		if err != nil {
			return err
		}
		made.Measured, made.Facts = thisProgram(), p.reference.facts()
		made.Facts["iteration"], made.Facts["steps"] = iteration, p.Counters().Steps
		made.Facts["asked"] = m.asked()
		if err := writeRecorded(m.data(j, s, "uncertainty", iteration), made, uncertain); err != nil {
			return err
		}
		return writeRecorded(m.data(j, s, "iteration", iteration), made, rows)
	})
}

// contenderColors are the colours of the contenders in figures.
var contenderColors = map[string]int{
	"returns mc": chart.Gray, "returns dbqpg learned": 0,
	"less V mc": 6, "less V dbqpg nominal": 3, "less V dbqpg learned": 2, "less V uapg learned": 1,
	"advantages mc": 4, "advantages dbqpg learned": 5, "advantages uapg learned": 7,
}

func (m *gradients) read(j *job) (all []*series, _ []string, err error) {
	labels := []string{"size", "targets", "estimator", "posterior"}
	if all, err = j.readData("data/*/iteration-*.csv", labels); err != nil {
		return nil, nil, err
	}
	if len(all) == 0 {
		return nil, nil, fmt.Errorf("--out %s: nothing is measured yet: there is no data/TASK/iteration-*.csv", j.out)
	}
	for _, s := range all {
		path, contender := s.labels["path"], strings.ReplaceAll(s.label(labels[1:]...), ",", "")
		first := matching(all, map[string][]string{"path": {path}, "size": {s.labels["size"]}})[0]
		switch n := s.rows(); {
		case s.record == nil:
			return nil, nil, fmt.Errorf("%s has no record", path)
		case n < 2 || n != first.rows():
			return nil, nil, fmt.Errorf("%s: %s has %s of size %s", path, contender, plural(n, "batch"),
				s.labels["size"])
		}
		s.labels["contender"], s.labels["name"] = contender, contender
		s.labels["iteration"] = fmt.Sprint(s.record.Facts["iteration"])
		s.color, s.labels["stage"] = contenderColors[contender], "later"
		if s.labels["iteration"] == "0" {
			s.labels["stage"] = "start"
		}
		if s.columns["plain_gain"] == nil {
			s.columns["plain_gain"] = slices.Repeat([]float64{math.NaN()}, s.rows())
		}
		// Spearman and Brown: the cosine of the whole to the truth, of halves whose noise has no part in common.
		halves, _ := s.record.Facts["halves"].(float64)
		s.record.Facts["truth"] = math.Sqrt(2 * max(0, halves) / (1 + max(0, halves)))
	}
	slices.SortStableFunc(all, func(a, b *series) int { // the iterations by number
		return cmp.Or(cmp.Compare(a.labels["task"], b.labels["task"]),
			cmp.Compare(a.numbered("iteration"), b.numbered("iteration")))
	})
	return all, nil, nil
}
