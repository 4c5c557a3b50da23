package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/learner/runs"
)

// anyRuns is the measurement of any runs by their progress.csv: it trains and publishes nothing. The directories are
// the command's arguments, and may be those of workers.
type anyRuns struct{ training }

func (m *anyRuns) flags(flags *pflag.FlagSet) {
	m.curveFlags(flags)
	flags.Bool("json", false, "print the tables that are written as CSV as JSON, too")
}

func (m *anyRuns) prepare(j *job) error {
	if m.last < 0 {
		return fmt.Errorf("--last %d: at least one iteration is needed", m.last)
	}
	if len(j.cmd.Flags().Args()) == 0 {
		return errors.New("name the run directories to compare, such as runs/Swimmer-v2/npg-*")
	}
	return nil
}

func (m *anyRuns) measure(context.Context, *job, func() error) error { return nil }

func (m *anyRuns) read(j *job) (all []*series, facts []string, err error) {
	var dirs []string
	for _, dir := range j.cmd.Flags().Args() {
		if dir, err = runs.Directory(dir); err != nil {
			return nil, nil, err
		}
		dirs = append(dirs, dir)
	}
	settings, err := given("", dirs)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range settings {
		path := runs.ProgressFile(s.RunDir)
		x, err := readColumns(path, "steps", "return_mean", "step_norm", "seconds_updating")
		if err == nil && x.rows() == 0 {
			err = fmt.Errorf("%s has no finished iteration", path)
		}
		if err != nil {
			return nil, nil, err
		}
		if x.record, err = newRecord(s); err != nil {
			return nil, nil, err
		}
		v := variant{}.of(s)
		x.labels, x.color = v.labels(s), v.Color
		all = append(all, x)
	}
	facts = []string{"The runs: " + strings.Join(dirs, ", ") + "."}
	for _, dir := range dirs {
		o, err := runs.Outcome(dir)
		if err != nil {
			return nil, nil, err
		}
		if o.Reason != "" {
			facts = append(facts, dir+" "+o.State+": "+o.Reason)
		}
	}
	all, err = m.curves(all)
	return all, facts, err
}
