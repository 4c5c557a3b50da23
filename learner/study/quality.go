package study

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/checkpoint"
	"github.com/dbqpg/dbqpg/learner/rundir"
)

// qualityOptions are the flags of gradient-quality.
type qualityOptions struct {
	runs         []string // directories; none: the study trains its own
	env          string
	algorithm    string
	seeds        []uint
	set          []string
	at           []uint // iterations
	sizes        []uint
	repeats      int
	reference    int  // samples
	freeze       bool // do not train the critic on the batches
	samplingSeed uint64
}

const qualityQuestion = `How good are the gradients? Policies of a run at several iterations play fresh batches of several sizes. From
each batch every estimator takes a gradient: Monte Carlo, DBQPG and UAPG from the same samples. It is compared
with the "true" gradient, the Monte-Carlo one from 10^6 other samples, by the cosine of the angle between them
(accuracy); and the gradients of the repeats are compared with each other, by the trace of their covariance over
the squared norm of their mean (normalised variance), as in the paper's fig:pg_accuracy_variance.`

const qualityMethod = `From each checkpoint come the policy, the observation normaliser (frozen) and the critic: networks, kernel and
optimisers. Before a batch's Bayesian gradients are taken, the kernel makes its one step on that batch (and with
--targets gae the value head one), as in the paper's Algorithm 1; then the critic is put back to the
checkpoint's. So these are the gradients that training itself would have followed. --freeze leaves these steps out.
The reference takes the critic as it is. Gradients are vanilla ones, whatever algorithm the run was trained with.

From the reference's targets a baseline b(s_t, t) is subtracted: a ridge regression on time, the observation and its
squares (Duan et al., 2016), and the critic's features and their products. It is fitted on samples drawn before
those it is subtracted from, so that the reference has the expectation that it would have without it, and less
variance. No estimator's batches have one.`

func qualityCommand() *cobra.Command {
	o := new(qualityOptions)
	cmd := &cobra.Command{
		Use:   "gradient-quality --out DIR",
		Short: "Accuracy and variance of the gradients, against sample size",
		Long: qualityQuestion + "\n\n" + qualityMethod + `

Without --run the study trains a run for each seed in DIR/runs (DBQPG with VanillaPG, as in the
paper) and keeps the checkpoints that it needs. With --run it measures an existing run, which
must have these checkpoints: see learner --keep-checkpoints.`,
		Example: `  learner study gradient-quality --out quality --quick
  learner study gradient-quality --out docs/results/gradient-quality --at 0,150,300 --repeats 10
  learner study gradient-quality --out quality --run runs/Swimmer-v2/vanilla-dbqpg-s1 --at 0,150,300`,
	}
	flags := prepare(cmd, o.run, qualityQuick)
	flags.StringArrayVar(&o.runs, "run", nil, "run directory to measure; may be repeated (default: train a run for each seed)")
	flags.StringVar(&o.env, "env", "Swimmer-v2", "task of the runs to train")
	flags.StringVar(&o.algorithm, "algorithm", "vanilla", "algorithm of the runs to train: vanilla, npg or trpo")
	flags.UintSliceVar(&o.seeds, "seeds", []uint{1}, "seeds of the runs to train")
	flags.StringArrayVar(&o.set, "set", nil, "setting of the runs to train, such as batch=16000; may be repeated")
	flags.UintSliceVar(&o.at, "at", []uint{0, 150, 300, 450}, "iterations whose policies to measure")
	flags.UintSliceVar(&o.sizes, "sizes", []uint{1000, 2000, 4000, 8000, 15000}, "minimum batch sizes in samples; batches consist of whole episodes")
	flags.IntVar(&o.repeats, "repeats", 10, "number of batches of each size")
	flags.IntVar(&o.reference, "reference", 1_000_000, "number of samples for the reference gradient")
	flags.BoolVar(&o.freeze, "freeze", false, "use the checkpoint's kernel without a learning step on the batch")
	flags.Uint64Var(&o.samplingSeed, "sampling-seed", 1, "seed of the episodes of the batches and of the reference")
	flags.Bool("quick", false, "a short run and few samples: about two minutes on two cores; a demonstration, not evidence")
	return cmd
}

var qualityQuick = map[string]string{
	"at": "0,10,20,30", "set": "batch=5000", "sizes": "1000,2000,4000", "repeats": "4", "reference": "100000",
}

func (o *qualityOptions) run(cmd *cobra.Command) error {
	if err := o.validate(cmd); err != nil {
		return err
	}
	j, err := newJob(cmd)
	if err != nil {
		return err
	}
	subjects, err := o.subjects(cmd.Context(), j)
	if err != nil {
		return err
	}
	for _, s := range subjects {
		if err := s.check(o.at); err != nil {
			return err
		}
	}
	var all []*measurement
	for _, s := range subjects {
		for _, at := range o.at {
			m, err := o.measure(cmd.Context(), j, s, uint64(at))
			if err != nil {
				return fmt.Errorf("%s, iteration %d: %w", s.name, at, err)
			}
			all = append(all, m)
		}
	}
	return o.report(j, subjects, all)
}

// maxRepeats keeps the numbers of all batches apart.
const maxRepeats = 10_000

func (o *qualityOptions) validate(cmd *cobra.Command) error {
	var c checks
	c.require(len(o.at) > 0 && !repeats(o.at), "--at: give some iterations, each once")
	c.require(len(o.sizes) > 0 && !repeats(o.sizes) && !slices.Contains(o.sizes, 0), "--sizes: give some sizes from 1 on, each once")
	c.require(o.repeats >= 2 && o.repeats <= maxRepeats, "--repeats %d: a variance takes at least 2; at most %d are possible", o.repeats, maxRepeats)
	c.require(o.reference >= 2, "--reference %d: too few samples", o.reference)
	c.require(len(o.seeds) > 0 && !repeats(o.seeds), "--seeds: give some, each once")
	for _, flag := range []string{"env", "algorithm", "seeds", "set"} {
		c.require(len(o.runs) == 0 || !cmd.Flags().Changed(flag), "--run and --%s: measure a run that is there, or train one", flag)
	}
	slices.Sort(o.at)
	slices.Sort(o.sizes)
	return errors.Join(c...)
}

// subjects returns the runs to measure: those given, or runs that it trains.
func (o *qualityOptions) subjects(ctx context.Context, j *job) ([]trial, error) {
	if len(o.runs) > 0 {
		return given("--run ", o.runs)
	}
	common, err := parseAssignments(o.set)
	if err != nil {
		return nil, err
	}
	var subjects []trial
	for _, seed := range o.seeds {
		name := fmt.Sprintf("s%d", seed)
		settings, err := resolve(append(common,
			assignment{"env", o.env}, assignment{"algorithm", o.algorithm}, assignment{"estimator", "dbqpg"},
			assignment{"seed", strconv.FormatUint(uint64(seed), 10)},
			assignment{"iterations", fmt.Sprint(max(1, slices.Max(o.at)))},
			assignment{"keep_checkpoints", strings.Trim(strings.ReplaceAll(fmt.Sprint(o.at), " ", ","), "[]")},
			assignment{"run_dir", j.path("runs", o.env, o.algorithm+"-dbqpg", name)})...)
		if err != nil {
			return nil, err
		}
		subjects = append(subjects, trial{name: name, settings: settings})
	}
	return subjects, j.train(ctx, subjects, 1, func() error { return nil })
}

// given returns existing runs, named by their directories. Errors have what is before these on the command line.
func given(before string, directories []string) ([]trial, error) {
	var subjects []trial
	for _, directory := range directories {
		path := filepath.Join(directory, config.FileName)
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("%s%s: it is no run's directory: %w", before, directory, err)
		}
		settings, err := resolve(assignment{"config", path}, assignment{"run_dir", directory})
		if err != nil {
			return nil, fmt.Errorf("%s%s: %w", before, directory, err)
		}
		name := strings.ReplaceAll(settings.Name(), "/", "-")
		for _, other := range subjects {
			if other.name == name {
				return nil, fmt.Errorf("%s%s: %s is a run of the same name: give them different seeds", before, directory, other.settings.RunDir)
			}
		}
		subjects = append(subjects, trial{name: name, settings: settings})
	}
	return subjects, nil
}

// check fails unless the run can be measured at these iterations.
func (s trial) check(at []uint) error {
	if s.settings.Estimator == config.MonteCarlo {
		return fmt.Errorf("%s: the run has learned no kernel: measure one of --estimator dbqpg or uapg", s.settings.RunDir)
	}
	if s.settings.FisherSamples != 1 {
		return fmt.Errorf("%s: gradients are measured with the Fisher matrix from their own samples: take a run of --fisher-samples 1x", s.settings.RunDir)
	}
	there, err := checkpoint.Iterations(rundir.Checkpoints(s.settings.RunDir))
	if err != nil {
		return err
	}
	var missing []uint
	for _, iteration := range at {
		if !slices.Contains(there, uint64(iteration)) {
			missing = append(missing, iteration)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s has checkpoints of the iterations %v, but none of %v: train a run with --keep-checkpoints, or choose others by --at",
			s.settings.RunDir, there, missing)
	}
	return nil
}
