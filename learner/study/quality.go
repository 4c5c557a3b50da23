package study

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// qualityOptions are the flags of gradient-quality.
type qualityOptions struct {
	runs         []string // directories; none: the study trains its own
	envs         []string
	algorithm    string
	seed         uint
	set          []string
	at           []uint // iterations
	sizes        []uint
	repeats      int
	reference    int // samples
	samplingSeed uint64
	onlyReport   bool
}

const qualityQuestion = `How good are the gradients, and what of that is quadrature? Policies of a run at several iterations play fresh batches
of several sizes. From each batch every contender takes a gradient: Monte Carlo (MC), DBQPG and UAPG; from the returns, and from
the returns less the value function's prediction (a baseline); and with quadrature by a nominal and by a learned posterior.
It is compared with the "true" gradient, from many other samples (in the paper 10^6), by the cosine of the angle between them (accuracy); and the
gradients of the repeats are compared with each other, by the trace of their covariance over the squared norm of their mean
(normalised variance), as in the paper's fig:pg_accuracy_variance.`

const qualityMethod = `From each checkpoint come the policy, the observation normaliser (frozen) and the critic: the value function V,
the deep kernel and its hyperparameters, all learned from earlier batches alone. Nothing that is measured is learned from afterwards:
each batch finds the critic as the checkpoint has it.

Targets: "returns" are the discounted returns R_t as they are; "less V" are R_t - V(s_t), generalised advantages with lambda = 1, centred
over the batch as training's are. An episode that the time limit ends goes on with the value of its last state, in both, as in training
(--bootstrap): V, which does not know the time, would else be wrong towards the end of each episode, and a baseline that adds variance.
V depends on the state alone and has not seen the batch, so that the expected gradient of both is the same, and no contender has a
bias that another has not: with smaller lambda all would be compared by the bias of the value function.

Posteriors: "nominal" has the hyperparameters with which --preset paper begins (noise 1e-4, Fisher variance 1), as they are; its one
Adam step of 1e-4 a batch would hardly change them. "Learned" is --kernel-learning converge: the hyperparameters that training
learned, learned further from the batch itself before its gradient is taken, as in the run's next update (a batch of one episode
teaches nothing). The features are the same, those of the checkpoint, and so are rank, completion and Fisher matrix.

Steps: UAPG changes the direction of the step, and its length as well, which the learning rate decides anyway. So the two are compared
at equal length. Of two steps of the same norm, the expected improvement, the reference gradient times the step, is in the ratio of the
cosines: that is for VanillaPG's, with the correction of the gradient. For NPG and TRPO, with the correction of the natural gradient d, it
is the expected improvement of two steps of the same divergence, the reference times d/(d'Gd)^1/2 with the Fisher matrix G of another
batch of 4,000 samples: the "gain", in units of what the reference's own natural gradient gains.

From the reference's targets, R_t - V(s_t), another baseline b(s_t, t) is subtracted: a ridge regression on time, the observation and its
squares (Duan et al., 2016), and the critic's features and their products. It is fitted on samples drawn before
those it is subtracted from, so that the reference has the expectation that it would have without it, and less variance.`

func qualityCommand() *cobra.Command {
	o := new(qualityOptions)
	cmd := &cobra.Command{
		Use:   "gradient-quality --out DIR",
		Short: "Accuracy and variance of the gradients, against sample size",
		Long: qualityQuestion + "\n\n" + qualityMethod + `

Without --run the study trains a run on each task in DIR/runs (DBQPG, --preset best) and keeps the
checkpoints that it needs. With --run it measures existing runs, which must have these checkpoints:
see learner --keep-checkpoints. Each policy's numbers go to DIR/data; the page is written from these.`,
		Example: `  learner study gradient-quality --out quality --quick
  learner study gradient-quality --out docs/results/gradient-quality --env Swimmer-v2,Hopper-v2 --at 0,10,50
  learner study gradient-quality --out quality --run runs/Hopper-v4/trpo-uapg-s1 --at 50,100`,
	}
	flags := prepare(cmd, o.run, qualityQuick)
	flags.StringArrayVar(&o.runs, "run", nil, "run directory to measure; may be repeated, one a task (default: train a run on each task)")
	flags.StringSliceVar(&o.envs, "env", []string{"Swimmer-v2", "Hopper-v2", "HalfCheetah-v2"}, "tasks of the runs to train")
	flags.StringVar(&o.algorithm, "algorithm", "trpo", "algorithm of the runs to train: vanilla, npg or trpo")
	flags.UintVar(&o.seed, "seed", 1, "seed of the runs to train")
	flags.StringArrayVar(&o.set, "set", nil, "setting of the runs to train, such as batch=5000; may be repeated")
	flags.UintSliceVar(&o.at, "at", []uint{0, 10, 50}, "iterations whose policies to measure")
	flags.UintSliceVar(&o.sizes, "sizes", []uint{1000, 2000, 4000, 8000, 15000}, "minimum batch sizes in samples; batches consist of whole episodes")
	flags.IntVar(&o.repeats, "repeats", 10, "number of batches of each size")
	flags.IntVar(&o.reference, "reference", 1_000_000, "number of samples for the reference gradient")
	flags.Uint64Var(&o.samplingSeed, "sampling-seed", 1, "seed of the episodes of the batches and of the reference")
	flags.Bool("quick", false, "one task, a short run and few samples: about two minutes on two cores; a demonstration, not evidence")
	flags.BoolVar(&o.onlyReport, "only-report", false, "write the page from DIR/data; train and measure nothing")
	return cmd
}

var qualityQuick = map[string]string{
	"env": "Swimmer-v2", "at": "0,10,20", "sizes": "1000,2000,4000", "repeats": "5", "reference": "100000",
}

func (o *qualityOptions) run(cmd *cobra.Command) error {
	if err := o.validate(cmd); err != nil {
		return err
	}
	j, err := newJob(cmd)
	if err != nil {
		return err
	}
	if !o.onlyReport {
		if err := o.measureAll(cmd.Context(), j); err != nil {
			return err
		}
	}
	return reportQuality(j)
}

// measureAll measures the policies of all runs, and writes the page after each.
func (o *qualityOptions) measureAll(ctx context.Context, j *job) error {
	subjects, err := o.subjects(ctx, j)
	if err != nil {
		return err
	}
	for _, s := range subjects {
		if err := s.measurable(); err != nil {
			return err
		}
		if err := s.check(o.at); err != nil {
			return err
		}
	}
	for _, s := range subjects {
		for _, at := range o.at {
			err := o.measure(ctx, j, s, uint64(at))
			if err == nil {
				err = reportQuality(j)
			}
			if err != nil {
				return fmt.Errorf("%s, iteration %d: %w", s.name, at, err)
			}
		}
	}
	return nil
}

// maxRepeats keeps the numbers of all batches apart.
const maxRepeats = 10_000

func (o *qualityOptions) validate(cmd *cobra.Command) error {
	var c checks
	requireDistinct(&c, "env", o.envs)
	requireDistinct(&c, "at", o.at)
	requireDistinct(&c, "sizes", o.sizes)
	c.require(!slices.Contains(o.sizes, 0), "--sizes: a batch has at least 1 sample")
	c.require(o.repeats >= 2 && o.repeats <= maxRepeats, "--repeats %d: a variance takes at least 2; at most %d are possible", o.repeats, maxRepeats)
	c.require(o.reference >= 2, "--reference %d: too few samples", o.reference)
	for _, flag := range []string{"env", "algorithm", "seed", "set"} {
		c.require(len(o.runs) == 0 || !cmd.Flags().Changed(flag), "--run and --%s: measure a run that is there, or train one", flag)
	}
	slices.Sort(o.at)
	slices.Sort(o.sizes)
	return errors.Join(c...)
}

// subjects returns the runs to measure, named by their tasks: those given, or runs that it trains.
func (o *qualityOptions) subjects(ctx context.Context, j *job) ([]trial, error) {
	if len(o.runs) > 0 {
		subjects, err := given("--run ", o.runs)
		for i := range subjects {
			subjects[i].name = subjects[i].settings.Env
			c := checks{err}
			c.require(!slices.ContainsFunc(subjects[:i], func(other trial) bool { return other.name == subjects[i].name }),
				"--run %s: there is one on %s already", o.runs[i], subjects[i].name)
			err = errors.Join(c...)
		}
		return subjects, err
	}
	common, err := parseAssignments(o.set)
	if err != nil {
		return nil, err
	}
	var subjects []trial
	for _, env := range o.envs {
		settings, err := resolve(slices.Concat([]assignment{{"preset", string(config.Best)}}, common, []assignment{
			{"env", env}, {"algorithm", o.algorithm}, {"estimator", "dbqpg"}, {"seed", fmt.Sprint(o.seed)},
			{"iterations", fmt.Sprint(max(1, slices.Max(o.at)))},
			{"keep_checkpoints", strings.Trim(strings.ReplaceAll(fmt.Sprint(o.at), " ", ","), "[]")},
			{"run_dir", j.path("runs", env, o.algorithm+"-dbqpg", fmt.Sprintf("s%d", o.seed))}})...)
		if err != nil {
			return nil, err
		}
		subjects = append(subjects, trial{name: env, settings: settings})
	}
	return subjects, j.train(ctx, subjects, 1, func() error { return nil })
}

// measurable fails unless the run has learned all that is compared.
func (t trial) measurable() error {
	s := t.settings
	if s.Targets != config.GAE || s.ValueLearning != config.Converge || s.KernelLearning != config.Converge {
		return fmt.Errorf("%s: the run has no value function of its own, or no learned posterior: "+
			"measure one of --targets gae --value-learning converge --kernel-learning converge, such as --preset best", s.RunDir)
	}
	return nil
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
func (t trial) check(at []uint) error {
	if t.settings.Estimator == config.MonteCarlo {
		return fmt.Errorf("%s: the run has learned no kernel: measure one of --estimator dbqpg or uapg", t.settings.RunDir)
	}
	if t.settings.FisherSamples != 1 {
		return fmt.Errorf("%s: gradients are measured with the Fisher matrix from their own samples: take a run of --fisher-samples 1x", t.settings.RunDir)
	}
	there, err := runs.Iterations(runs.Checkpoints(t.settings.RunDir))
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
			t.settings.RunDir, there, missing)
	}
	return nil
}
