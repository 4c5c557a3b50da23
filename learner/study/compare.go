package study

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/learner/device"
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
	role      string // that claims know it by, where it is not the directory
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
	queue      string   // of curves alone
	references []string // of curves alone
	parallel   int
	plan       bool
	onlyReport bool
}

// command returns the comparison's subcommand.
func (c comparison) command() *cobra.Command {
	o := new(compareOptions)
	queueHelp := ""
	if c.name == "curves" {
		queueHelp = `

With --queue the runs are those of a file (docs/studies-training.md), and --env, --algorithm, --estimator and
--seeds select among them.`
	}
	cmd := &cobra.Command{
		Use:   c.name + " --out DIR",
		Short: c.short,
		Long: c.question + `

Runs are kept in DIR/runs/TASK/ALGORITHM-VARIANT/sSEED. Complete runs are not repeated, and
incomplete ones are resumed: repeat the command after a kill, or give a larger number of
iterations or additional seeds. Several runs are made at a time, in processes of their own, with
all variants of the first seed first. The page, DIR/README.md, is written anew after each run; the
figure and the numbers are beside it, each complete run under data/.` + queueHelp,
		Example: fmt.Sprintf("  learner study %s --out %s --quick\n  learner study %s --out docs/results/%s --env Swimmer-v2 --iterations 300 --seeds 1,2,3", c.name, c.name, c.name, c.name),
	}
	flags := prepare(cmd, func(cmd *cobra.Command) error { return c.run(cmd, o) }, c.quick)
	flags.StringSliceVar(&o.envs, "env", []string{"Swimmer-v2"}, "tasks")
	flags.StringSliceVar(&o.algorithms, "algorithm", c.algorithms, "algorithms: vanilla, npg or trpo, separated by commas")
	if c.name == "curves" {
		flags.StringSliceVar(&o.estimators, "estimator", []string{"mc", "dbqpg", "uapg"}, "estimators")
		flags.StringVar(&o.queue, "queue", "", "file of runs to make, in its order")
		flags.StringArrayVar(&o.references, "reference", nil, "CSV file of other curves, FILE or NAME=FILE, as for learner report; may be repeated")
	}
	flags.UintSliceVar(&o.seeds, "seeds", []uint{1, 2, 3}, "seeds; each variant is run with each of them")
	flags.IntVar(&o.iterations, "iterations", 300, "number of iterations of each run")
	flags.IntVar(&o.last, "last", 0, "number of last iterations over which the final return is averaged (default: a tenth)")
	flags.StringArrayVar(&o.set, "set", nil, "setting of all runs, such as batch=16000; may be repeated")
	flags.Bool("quick", false, "small batches and few iterations: about two minutes on two cores; a demonstration, not evidence")
	flags.IntVar(&o.parallel, "parallel", device.Cores(), "number of runs to make at a time, each with its share of the cores")
	flags.BoolVar(&o.plan, "plan", false, "list the runs, how far each is, and the time left; train nothing")
	flags.BoolVar(&o.onlyReport, "only-report", false, "write the page from the complete runs; train nothing")
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
	j, err := newJob(cmd)
	if err != nil {
		return err
	}
	members, err := c.members(j, o)
	if err != nil {
		return err
	}
	trials := make([]trial, len(members))
	for i, m := range members {
		trials[i] = m.trial
	}
	switch {
	case o.plan:
		return j.plan(trials, o.parallel)
	case o.onlyReport:
		return c.publish(j, o, members)
	}
	if err := j.train(cmd.Context(), trials, o.parallel, func() error { return c.publish(j, o, members) }); err != nil {
		return err
	}
	return c.publish(j, o, members)
}

// publish writes the page from the complete runs.
func (c comparison) publish(j *job, o *compareOptions, members []member) error {
	results, err := o.gather(members)
	if err != nil {
		return err
	}
	return c.report(j, results)
}

// validate checks what the loader of settings does not.
func (o *compareOptions) validate() error {
	var c checks
	c.require(o.parallel >= 1, "--parallel %d: at least one run is made at a time", o.parallel)
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

// members returns all runs, those of the first seed first, so that a study cut short has results for every variant; with
// a queue, its runs.
func (c comparison) members(j *job, o *compareOptions) ([]member, error) {
	if o.queue != "" {
		return o.queued(j)
	}
	variants, err := c.chosen(o)
	if err != nil {
		return nil, err
	}
	common, err := parseAssignments(o.set)
	if err != nil {
		return nil, err
	}
	var all []member
	for _, seed := range o.seeds {
		for _, env := range o.envs {
			for _, algorithm := range o.algorithms {
				for _, v := range variants {
					assignments := slices.Concat([]assignment{papers}, common, []assignment{
						{"env", env}, {"algorithm", algorithm}, {"seed", fmt.Sprint(seed)}, {"iterations", fmt.Sprint(o.iterations)},
					}, v.settings)
					m, err := j.member(setting{env: env, algorithm: algorithm}, v, seed, assignments)
					if err != nil {
						return nil, fmt.Errorf("%s: %w", m.name, err)
					}
					all = append(all, m)
				}
			}
		}
	}
	return all, nil
}

// member returns the run of a variant with a seed, and its place in the output directory.
func (j *job) member(s setting, v variant, seed uint, assignments []assignment) (m member, err error) {
	m = member{trial{name: fmt.Sprintf("%s %s %s seed %d", s.env, s.algorithm, v.name, seed)}, s, v, seed}
	name := s.algorithm + "-" + v.directory
	m.assignments = slices.Concat(assignments, []assignment{{"run_dir", j.path("runs", s.env, name, fmt.Sprintf("s%d", seed))}})
	m.data = j.path("data", s.env, fmt.Sprintf("%s-s%d", name, seed))
	m.settings, err = resolve(m.assignments...)
	return m, err
}
