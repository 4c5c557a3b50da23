package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

//go:embed experiments/*.yaml
var files embed.FS

// experiment describes a study: experiments/NAME.yaml.
type experiment struct {
	name string

	Like     string // the experiment that this one inherits from
	Title    string
	Short    string // in the list of commands
	Question string
	Method   string              // on the page, after the question's answer
	Measure  string              // a key of measurements
	Args     string              // in the command's usage, after --out DIR
	Flags    map[string][]string // defaults of the measurement's flags
	Quick    map[string][]string // of --quick; nil: it has none
	Example  string              // arguments
	Variants []variant
	Claims   []claim

	Quantities map[string]quantity
	Page       []block
}

// measurement is a way to measure. All of its results are published files.
type measurement interface {
	// flags adds the measurement's flags.
	flags(flags *pflag.FlagSet)
	// prepare checks the flags, once the output directory is there.
	prepare(j *job) error
	// measure takes the missing measurements. It calls report whenever the page can be updated.
	measure(ctx context.Context, j *job, report func() error) error
	// read returns the published rows, and sentences about them.
	read(j *job) (all []*series, facts []string, err error)
}

// measurements make those of an experiment.
var measurements = map[string]func(e *experiment) measurement{
	"training":    func(e *experiment) measurement { return &training{experiment: e} },
	"evaluations": func(e *experiment) measurement { return &finished{evaluationTable, readEvaluations} },
	"calibration": func(e *experiment) measurement { return &finished{calibrationTable, readCalibration} },
	"gradients":   func(e *experiment) measurement { return &gradients{} },
	"updates":     func(e *experiment) measurement { return &updates{experiment: e} },
	"runs":        func(e *experiment) measurement { return new(anyRuns) },
	"integrals":   func(e *experiment) measurement { return &integrals{} },
}

// experiments returns all experiments, by name.
func experiments() (all []*experiment) {
	entries, err := files.ReadDir("experiments")
	for _, entry := range entries {
		e := &experiment{name: strings.TrimSuffix(entry.Name(), path.Ext(entry.Name()))}
		err = errors.Join(err, e.read(e.name))
		all = append(all, e)
	}
	if err != nil {
		panic(err) // they are part of the program
	}
	return all
}

// read reads an experiment's file over that of the experiment which it is like.
func (e *experiment) read(name string) error {
	text, err := files.ReadFile("experiments/" + name + ".yaml")
	if err != nil {
		return err
	}
	var header struct{ Like string }
	if err := yaml.Unmarshal(text, &header); err != nil {
		return err
	}
	if header.Like != "" {
		if err := e.read(header.Like); err != nil {
			return err
		}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(e); err != nil {
		return fmt.Errorf("%s.yaml: %w", name, err)
	}
	return nil
}

// command returns the experiment's command.
func (e *experiment) command() *cobra.Command {
	m, onlyReport := measurements[e.Measure](e), false
	cmd := &cobra.Command{
		Use:     strings.TrimSpace(e.name + " --out DIR " + e.Args),
		Short:   e.Short,
		Long:    strings.TrimSpace(e.Question + "\n" + e.Method),
		Example: fmt.Sprintf("  study %s --out docs/results/%s %s", e.name, e.name, e.Example),
		Args:    cobra.NoArgs,
	}
	if e.Args != "" {
		cmd.Args = cobra.ArbitraryArgs
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.String("out", "", "directory to write to")
	m.flags(flags)
	flags.BoolVar(&onlyReport, "only-report", false, "write the page from the published results; measure nothing")
	if e.Quick != nil {
		flags.Bool("quick", false, "about two minutes on two cores; a demonstration, not evidence")
	}
	for name, values := range e.Flags {
		flag := flags.Lookup(name)
		if err := setFlag(flag, values); err != nil {
			panic(err)
		}
		flag.DefValue, flag.Changed = strings.Join(values, ","), false
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := e.apply(flags); err != nil {
			return err
		}
		j, err := newJob(cmd)
		if err == nil {
			err = m.prepare(j)
		}
		if err != nil {
			return err
		}
		report := func() error {
			all, facts, err := m.read(j)
			if err != nil {
				return err
			}
			return e.report(j, all, facts)
		}
		if !onlyReport {
			if err := m.measure(cmd.Context(), j, report); err != nil || j.done {
				return err
			}
		}
		return report()
	}
	return cmd
}

// setFlag sets a flag to several values.
func setFlag(flag *pflag.Flag, values []string) error {
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		return list.Replace(values)
	}
	return flag.Value.Set(strings.Join(values, ","))
}

// apply sets the flags of --quick that the user has not set; settings of --set come before the user's.
func (e *experiment) apply(flags *pflag.FlagSet) error {
	if quick, err := flags.GetBool("quick"); err != nil || !quick {
		return nil
	}
	for name, values := range e.Quick {
		flag := flags.Lookup(name)
		if name == "set" {
			values = slices.Concat(values, flag.Value.(pflag.SliceValue).GetSlice())
		} else if flag.Changed {
			continue
		}
		if err := setFlag(flag, values); err != nil {
			return fmt.Errorf("--quick sets --%s %v: %w", name, values, err)
		}
	}
	return nil
}

// checks collects the errors in a study's flags.
type checks []error

func (c *checks) require(ok bool, format string, args ...any) {
	if !ok {
		*c = append(*c, fmt.Errorf(format, args...))
	}
}

// requireDistinct requires a list of one value or more, each once.
func requireDistinct[T string | uint](c *checks, flag string, list []T) {
	sorted := slices.Sorted(slices.Values(list))
	c.require(len(list) > 0, "--%s: at least one is needed", flag)
	c.require(len(slices.Compact(sorted)) == len(list), "--%s: one is there twice", flag)
}
