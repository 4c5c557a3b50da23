package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/stats"
	"github.com/dbqpg/dbqpg/learner/bench"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/learner/session"
	"github.com/dbqpg/dbqpg/learner/train"
	"github.com/dbqpg/dbqpg/sim"
)

// updates is the measurement of the durations of updates on batches of several sizes. The estimators are measured in
// turns, so that other load on the machine affects them alike.
type updates struct {
	*experiment
	env, algorithm string
	sizes          []uint
	rounds         int
	seed           uint64
	set            []string

	task     sim.Spec
	settings map[string]*config.Settings // by variant
}

func (m *updates) flags(flags *pflag.FlagSet) {
	flags.StringVar(&m.env, "env", "HumanoidStandup-v2", "task")
	flags.StringVar(&m.algorithm, "algorithm", "npg", "policy step: vanilla, npg or trpo")
	flags.UintSliceVar(&m.sizes, "sizes", []uint{5000, 10000, 15000, 20000, 30000, 45000},
		"minimum batch sizes in samples")
	flags.IntVar(&m.rounds, "rounds", 7, "number of updates of each estimator on each batch")
	flags.Uint64Var(&m.seed, "seed", 1, "seed of the episodes")
	flags.StringArrayVar(&m.set, "set", nil, "setting of all updates, such as solver=cg; may be repeated")
}

func (m *updates) prepare(*job) (err error) {
	var c checks
	requireDistinct(&c, "sizes", m.sizes)
	c.require(len(m.sizes) >= 2 && !slices.Contains(m.sizes, 0) && m.rounds >= 1,
		"give at least 2 --sizes from 1 on, and 1 of --rounds")
	if err := errors.Join(c...); err != nil {
		return err
	}
	slices.Sort(m.sizes)
	if m.task, err = sim.Lookup(m.env); err != nil {
		return fmt.Errorf("--env: %w", err)
	}
	common, err := parseSet(m.set)
	if err != nil {
		return err
	}
	m.settings = map[string]*config.Settings{}
	for _, v := range m.Variants {
		if m.settings[v.As], err = config.Resolve(slices.Concat(
			[]config.Assignment{{Name: "preset", Value: string(config.Paper)}}, common, v.assignments(),
			[]config.Assignment{
				{Name: "env", Value: m.env}, {Name: "algorithm", Value: m.algorithm},
				{Name: "batch", Value: fmt.Sprint(m.sizes[0])},
			})...); err != nil {
			return err
		}
	}
	return nil
}

var speedColumns = []string{"estimator", "samples", "seconds", "seconds_low", "seconds_high", "estimation_seconds"}

// measure times updates on batches of all sizes, and publishes wall-clock.csv: the medians of the rounds, with the
// interquartile range, and those of the estimation alone.
func (m *updates) measure(ctx context.Context, j *job, _ func() error) error {
	any := m.settings[m.Variants[0].As]
	computer, err := device.Open(any.Device)
	if err != nil {
		return err
	}
	defer computer.Close()
	run := train.NewRun(computer.Backend, any, m.task)
	run.Start(1)
	table := map[string][][]string{} // by variant
	sampling := session.Sampling{Task: m.task, Seed: m.seed, Actors: config.AutoActors}
	err = session.Sample(ctx, sampling, func(ctx context.Context, collector *collect.Collector) error {
		for _, size := range m.sizes {
			j.log.Info("timing updates", "samples", size, "rounds", m.rounds)
			batch, err := collector.Collect(ctx, collect.Order{Policy: run.Policy(uint64(size)), Steps: int(size)})
			if err != nil {
				return err
			}
			whole, estimation, err := m.time(ctx, computer.Backend, batch)
			if err != nil {
				return fmt.Errorf("%d samples: %w", size, err)
			}
			for _, v := range m.Variants {
				row := []string{v.As, fmt.Sprint(batch.Steps)}
				for _, x := range []float64{stats.Quantile(whole[v.As], 0.5), stats.Quantile(whole[v.As], 0.25),
					stats.Quantile(whole[v.As], 0.75), stats.Quantile(estimation[v.As], 0.5)} {
					row = append(row, rounded(x, -1))
				}
				table[v.As] = append(table[v.As], row)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	rows := [][]string{speedColumns}
	for _, v := range m.Variants {
		rows = append(rows, table[v.As]...)
	}
	r := &record{Settings: texts{}, Builds: []runs.Build{*thisProgram()}}
	r.Note = fmt.Sprintf("Peak memory of the process %.0f MB.", float64(device.PeakMemory())/1e6)
	return writeRecorded(j.path("wall-clock"), r, rows)
}

// time times updates on a batch in turns, and their parts without the policy's step, by variant. The first round is a
// warm-up.
func (m *updates) time(ctx context.Context, backend compute.Backend, batch *collect.Batch) (whole,
	estimation map[string][]float64, err error) {
	defer compute.Catch(&err)
	moments := policy.NewMoments(m.task.ObservationDim)
	for _, e := range batch.Episodes {
		moments.Add(e.Observations)
	}
	normalizer := moments.Normalizer(m.settings[m.Variants[0].As].Clip)
	whole, estimation = map[string][]float64{}, map[string][]float64{}
	for round := range m.rounds + 1 {
		for _, v := range m.Variants {
			if err := ctx.Err(); err != nil {
				return nil, nil, err
			}
			var step time.Duration
			took, err := bench.Update(backend, m.settings[v.As], m.task, batch.Episodes, normalizer,
				func(stage string, took time.Duration) {
					if stage == "policy step" {
						step = took
					}
				})
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", v.Name, err)
			}
			if round > 0 {
				whole[v.As] = append(whole[v.As], took.Seconds())
				estimation[v.As] = append(estimation[v.As], (took - step).Seconds())
			}
		}
	}
	return whole, estimation, nil
}

func (m *updates) read(j *job) (all []*series, _ []string, err error) {
	if all, err = j.readData("wall-clock.csv", speedColumns[:2], speedColumns[2:]...); err != nil {
		return nil, nil, err
	}
	if len(all) == 0 {
		return nil, nil, fmt.Errorf("--out %s: nothing is measured yet: there is no wall-clock.csv", j.out)
	}
	for _, s := range all {
		s.labels["task"], s.labels["algorithm"] = m.env, m.algorithm
		s.labels["name"] = s.labels["estimator"]
		if i := slices.IndexFunc(m.Variants, func(v variant) bool { return v.As == s.labels["estimator"] }); i >= 0 {
			s.labels["name"], s.color = m.Variants[i].Name, m.Variants[i].Color
		}
	}
	return all, nil, nil
}
