package study

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
)

// comparison is a study that trains and compares variants of one run.
type comparison struct {
	name, title string
	short       string // in the list of commands
	question    string // what it investigates, for the help and the page
	algorithms  []string
	variants    []variant
	claims      []claim
	quick       map[string]string // flags that make it short
}

// variant is a run, given by its differences from the others.
type variant struct {
	name      string // for a reader
	directory string // one word
	color     int
	settings  []assignment
}

// compareOptions are a comparison's flags.
type compareOptions struct {
	envs       []string
	algorithms []string
	estimators []string // of curves alone
	seeds      []uint
	iterations int
	last       int
	set        []string
	onlyReport bool
}

// command returns the comparison's subcommand.
func (c comparison) command() *cobra.Command {
	o := new(compareOptions)
	cmd := &cobra.Command{
		Use:   c.name + " --out DIR",
		Short: c.short,
		Long: c.question + `

Runs are kept in DIR/runs/TASK/ALGORITHM-VARIANT/sSEED. Complete runs are not repeated, and
incomplete ones are resumed: repeat the command after a kill, or give a larger number of
iterations or additional seeds. Runs use all cores, one run at a time, with all variants of the
first seed first. The page is DIR/README.md; the figures and the numbers are beside it.`,
		Example: fmt.Sprintf("  learner study %s --out %s --quick\n  learner study %s --out docs/results/%s --env Swimmer-v2 --iterations 300 --seeds 1,2,3", c.name, c.name, c.name, c.name),
	}
	flags := prepare(cmd, func(cmd *cobra.Command) error { return c.run(cmd, o) }, c.quick)
	flags.StringSliceVar(&o.envs, "env", []string{"Swimmer-v2"}, "tasks")
	flags.StringSliceVar(&o.algorithms, "algorithm", c.algorithms, "algorithms: vanilla, npg or trpo, separated by commas")
	if c.name == "curves" {
		flags.StringSliceVar(&o.estimators, "estimator", []string{"mc", "dbqpg", "uapg"}, "estimators")
	}
	flags.UintSliceVar(&o.seeds, "seeds", []uint{1, 2, 3}, "seeds; each variant is run with each of them")
	flags.IntVar(&o.iterations, "iterations", 300, "number of iterations of each run")
	flags.IntVar(&o.last, "last", 0, "number of last iterations over which the final return is averaged (default: a tenth)")
	flags.StringArrayVar(&o.set, "set", nil, "setting of all runs, such as batch=16000; may be repeated")
	flags.Bool("quick", false, "small batches and few iterations: about two minutes on two cores; a demonstration, not evidence")
	flags.BoolVar(&o.onlyReport, "only-report", false, "write the page from existing runs without training, up to the iteration that all have reached")
	return cmd
}

// member is one run of a comparison.
type member struct {
	trial
	setting
	variant variant
	seed    uint
}

// run trains, measures and reports.
func (c comparison) run(cmd *cobra.Command, o *compareOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	variants, err := c.chosen(o)
	if err != nil {
		return err
	}
	j, err := newJob(cmd)
	if err != nil {
		return err
	}
	members, err := o.members(j, variants)
	if err != nil {
		return err
	}
	if !o.onlyReport {
		trials := make([]trial, len(members))
		for i, m := range members {
			trials[i] = m.trial
		}
		if err := j.train(cmd.Context(), "", trials); err != nil {
			return err
		}
	}
	results, err := o.gather(members)
	if err != nil {
		return err
	}
	return c.report(j, results)
}

// validate checks what the loader of settings does not.
func (o *compareOptions) validate() error {
	var c checks
	c.require(o.iterations >= 1 && o.last >= 0 && o.last <= o.iterations,
		"--iterations %d --last %d: at least one iteration is needed, and no more than all can be the last", o.iterations, o.last)
	requireDistinct(&c, "env", o.envs)
	requireDistinct(&c, "algorithm", o.algorithms)
	requireDistinct(&c, "seeds", o.seeds)
	c.require(!repeats(o.estimators), "--estimator: one is there twice")
	return errors.Join(c...)
}

// checks gathers what is wrong with a study's flags.
type checks []error

func (c *checks) require(ok bool, format string, args ...any) {
	if !ok {
		*c = append(*c, fmt.Errorf(format, args...))
	}
}

func requireDistinct[T string | uint](c *checks, flag string, list []T) {
	c.require(len(list) > 0, "--%s: at least one is needed", flag)
	c.require(!repeats(list), "--%s: one is there twice", flag)
}

func repeats[T string | uint](list []T) bool {
	sorted := slices.Clone(list)
	slices.Sort(sorted)
	return len(slices.Compact(sorted)) < len(list)
}

// lastIterations returns the number of iterations averaged in the final return.
func (o *compareOptions) lastIterations(iterations int) int {
	if o.last > 0 {
		return min(o.last, iterations)
	}
	return max(1, iterations/10)
}

// members returns all runs, those of the first seed first, so that a study cut short has results for every variant.
func (o *compareOptions) members(j *job, variants []variant) ([]member, error) {
	common, err := parseAssignments(o.set)
	if err != nil {
		return nil, err
	}
	var all []member
	for _, seed := range o.seeds {
		for _, env := range o.envs {
			for _, algorithm := range o.algorithms {
				for _, v := range variants {
					name := fmt.Sprintf("%s %s %s seed %d", env, algorithm, v.name, seed)
					settings, err := resolve(slices.Concat(common, []assignment{
						{"env", env}, {"algorithm", algorithm}, {"seed", fmt.Sprint(seed)}, {"iterations", fmt.Sprint(o.iterations)},
						{"run_dir", j.path("runs", env, algorithm+"-"+v.directory, fmt.Sprintf("s%d", seed))},
					}, v.settings)...)
					if err != nil {
						return nil, fmt.Errorf("%s: %w", name, err)
					}
					all = append(all, member{trial{name, settings}, setting{env, algorithm}, v, seed})
				}
			}
		}
	}
	return all, nil
}
