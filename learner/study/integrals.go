package study

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/npz"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/learner/gradient"
	"github.com/dbqpg/dbqpg/learner/train"
)

// integralsOptions are the flags of integrals.
type integralsOptions struct {
	batches []string // npz files
	run     string   // directory
	at      uint     // iteration
	noises  []float64
	ranks   []uint
}

const integralsQuestion = `What does the truncated Fisher kernel lose, and does completing it bring that back? The gradient of one batch,
at the kernel that the batch came with but for the noise variance, by singular vectors of several ranks: integrated plainly, as the paper's
kappa U alpha, and completed. Each is compared, by the cosine of the angle between them, with the gradient of the exact Fisher kernel
U'(G + damping I)^-1 U, known by its products alone, with G = UU'/n.`

const integralsMethod = `The damping is in the exact kernel, but not in the expectation of uu', so that its own integral is
kappa G (G + damping I)^-1 U alpha, the reference here (estimators.DampedIntegral). Column "exact, plain" is kappa U alpha of the same alpha,
which takes the damping to be part of the expectation. The rank "all" keeps every singular value above rounding.`

func integralsCommand() *cobra.Command {
	o := new(integralsOptions)
	cmd := &cobra.Command{
		Use:   "integrals --out DIR",
		Short: "The truncated Fisher kernel, plain and completed, against the exact one",
		Long:  integralsQuestion + "\n\n" + integralsMethod,
		Example: `  learner study integrals --out docs/results/integrals --batch estimators/testdata/swimmer_returns.npz
  learner study integrals --out integrals --run runs/Swimmer-v2/npg-uapg-s1 --at 100`,
	}
	flags := prepare(cmd, o.study, nil)
	flags.StringArrayVar(&o.batches, "batch", nil, "npz file in the format of learner gradient; may be repeated")
	flags.StringVar(&o.run, "run", "", "run directory; the run's policy plays a batch")
	flags.UintVar(&o.at, "at", 100, "iteration of the run's checkpoint")
	flags.Float64SliceVar(&o.noises, "noises", []float64{1, 0.3, 0.1, 1e-2, 1e-3, 1e-4}, "noise variances")
	flags.UintSliceVar(&o.ranks, "ranks", []uint{10, 30, 100, 300}, fmt.Sprintf("ranks of the truncated kernel, in addition to the full rank for batches of up to %d samples", linop.ExactSamples))
	return cmd
}

func (o *integralsOptions) study(cmd *cobra.Command) (err error) {
	defer compute.Catch(&err)
	if len(o.batches) == 0 && o.run == "" {
		return errors.New("--batch or --run: say whose gradients to compare")
	}
	for _, noise := range o.noises {
		if !(noise > 0) || math.IsInf(noise, 0) {
			return fmt.Errorf("--noises %v: want positive numbers", noise)
		}
	}
	if len(o.ranks) == 0 || slices.Contains(o.ranks, 0) {
		return errors.New("--ranks: give some, from 1 on")
	}
	j, err := newJob(cmd)
	if err != nil {
		return err
	}
	p := j.newPage("The truncated Fisher kernel, plain and completed")
	p.paragraph("%s", integralsQuestion)
	numbers := p.csv("cosines.csv", "batch", "state_kernel", "noise", "integral", "rank", "cosine")
	add := func(name string, s *compute.Scope, at *train.Evaluation, kernel gp.Kernel) error {
		rows, err := o.compare(s, at, kernel)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		p.heading(name)
		n := at.Targets.Rows
		p.paragraph("%d samples; kappa n = %.3g; damping %g.", n, kernel.FisherWeight()*float64(n), at.Fisher.Damping)
		var header []string
		var table [][]string
		for _, r := range rows {
			header = []string{"c1", "noise"}
			line := []string{fmt.Sprintf("%g", r.state), fmt.Sprintf("%g", r.noise)}
			for _, x := range r.integrals {
				numbers.add(name, r.state, r.noise, x.name, x.rank, x.cosine)
				header, line = append(header, x.heading), append(line, fmt.Sprintf(x.format, x.cosine))
			}
			table = append(table, line)
		}
		p.table(header, table)
		return nil
	}
	for _, path := range o.batches {
		if err := o.file(path, add); err != nil {
			return err
		}
	}
	if o.run != "" {
		if err := o.checkpoint(cmd.Context(), add); err != nil {
			return err
		}
	}
	return j.save(p, integralsMethod, here())
}

// reporter is where a batch's comparison goes.
type reporter func(name string, s *compute.Scope, at *train.Evaluation, kernel gp.Kernel) error

// empirical returns the method of all comparisons, but for the rank.
func empirical(damping float64) *config.Settings {
	own := config.Hyperparameters{Estimator: config.DBQPG, Fisher: config.Empirical, Damping: damping}
	return &config.Settings{Hyperparameters: own}
}

// file compares on a batch from a file.
func (o *integralsOptions) file(path string, add reporter) error {
	arrays, err := npz.ReadFile(path)
	if err != nil {
		return fmt.Errorf("batch: %w", err)
	}
	batch, err := gradient.Parse(arrays)
	if err != nil {
		return fmt.Errorf("batch %s: %w", path, err)
	}
	computer, err := device.Open(config.Device{})
	if err != nil {
		return err
	}
	defer computer.Close()
	s := compute.NewScope(computer.Backend)
	defer s.Release()
	method := train.NewMethod(empirical(batch.Damping), batch.Shape)
	return add(strings.TrimSuffix(filepath.Base(path), ".npz"), s, batch.Evaluate(s, &method), batch.Kernel)
}

// checkpoint compares on a batch that the policy of a run's checkpoint plays.
func (o *integralsOptions) checkpoint(ctx context.Context, add reporter) error {
	subjects, err := given("--run ", []string{o.run})
	if err != nil {
		return err
	}
	if err := subjects[0].check([]uint{o.at}); err != nil {
		return err
	}
	subjects[0].settings.Fisher = config.Empirical
	seed := streams.New(subjects[0].settings.Seed, streams.Study, uint64(o.at)).Uint64()
	return subjects[0].restore(ctx, uint64(o.at), seed, func(ctx context.Context, r restored) error {
		batch, err := r.collector.Collect(ctx, collect.Order{Policy: r.run.Policy(1), Steps: r.run.BatchSteps})
		if err != nil {
			return err
		}
		s := compute.NewScope(r.run.Backend)
		defer s.Release()
		at, kernel, err := r.run.Evaluation(s, batch.Episodes)
		if err != nil {
			return err
		}
		return add(fmt.Sprintf("%s, iteration %d", subjects[0].settings.Name(), o.at), s, at, kernel)
	})
}

// row is the cosines of one batch's gradients to the exact one, under one kernel.
type row struct {
	state, noise float64
	integrals    []integral
}

// integral is the cosine of one way to integrate.
type integral struct {
	name, rank      string // rank: of the truncated kernel
	heading, format string // in the page's table
	cosine          float64
}

// compare takes the gradient of a batch in every way, with each state kernel, at each noise.
func (o *integralsOptions) compare(s *compute.Scope, at *train.Evaluation, kernel gp.Kernel) ([]row, error) {
	estimate, err := estimators.MonteCarlo{}.Estimate(s, &at.Batch)
	if err != nil {
		return nil, err
	}
	monteCarlo := compute.ToSlice(s.Backend(), estimate.Gradient)
	var rows []row
	for _, state := range []float64{kernel.C1, 0} {
		for _, noise := range o.noises {
			k := kernel
			k.C1, k.Noise = state, noise
			integrals, err := o.integrals(s, at, k, monteCarlo)
			if err != nil {
				return nil, fmt.Errorf("noise %g: %w", noise, err)
			}
			rows = append(rows, row{state, noise, integrals})
		}
	}
	return rows, nil
}

// integrals takes the gradients under one kernel.
func (o *integralsOptions) integrals(s *compute.Scope, at *train.Evaluation, k gp.Kernel, monteCarlo []float64) ([]integral, error) {
	ranks, full := o.ranks, uint(0)
	if n := at.Targets.Rows; n <= linop.ExactSamples {
		full = uint(min(n, len(monteCarlo)))
		ranks = append(slices.DeleteFunc(slices.Clone(ranks), func(r uint) bool { return r >= full }), full)
	}
	scope := compute.NewScope(s.Backend())
	defer scope.Release()
	random := train.NewRandom(1, 0)
	batch := at.Batch
	if err := decompose(scope, at, int(ranks[0]), random, &batch); err != nil {
		return nil, err
	}
	exact, err := gp.ExactFisher{Seed: random.Probe.Uint64()}.Kernel(scope, at.Scores, at.Fisher.Matrix, at.Fisher.Damping)
	if err != nil {
		return nil, err
	}
	iterative := gp.Iterative{FisherKernel: exact, Seed: random.Probe.Uint64()}
	gradients, err := integrate(scope, &batch, k, iterative, estimators.DampedIntegral{Kernel: exact}, estimators.PlainIntegral{})
	if err != nil {
		return nil, err
	}
	reference, exactPlain := gradients[0], gradients[1]
	var all []integral
	for _, rank := range ranks {
		name := fmt.Sprint(rank)
		if rank == full {
			name = "all"
		}
		if err := decompose(scope, at, int(rank), random, &batch); err != nil {
			return nil, err
		}
		gradients, err := integrate(scope, &batch, k, gp.Direct{}, estimators.PlainIntegral{}, estimators.CompletedIntegral{})
		if err != nil {
			return nil, err
		}
		all = append(all, integral{"plain", name, "rank " + name + ": plain", "%.3f", cosine(gradients[0], reference)},
			integral{"completed", name, "completed", "**%.3f**", cosine(gradients[1], reference)})
	}
	return append(all, integral{"exact, plain", "", "exact, plain", "%.3f", cosine(exactPlain, reference)},
		integral{"Monte Carlo", "", "Monte Carlo", "%.3f", cosine(monteCarlo, reference)}), nil
}

// decompose gives a batch U's decomposition at some rank.
func decompose(s *compute.Scope, at *train.Evaluation, rank int, random train.Random, batch *estimators.Batch) error {
	method := train.Method{Rank: rank}
	err := method.Decompose(s, at, random)
	batch.SVD = at.SVD
	return err
}

// integrate returns the gradient by each integral of one posterior.
func integrate(s *compute.Scope, batch *estimators.Batch, k gp.Kernel, solver gp.Solver, integrals ...estimators.Integral) ([][]float64, error) {
	q := estimators.Quadrature{Kernel: k, Solver: solver}
	posterior, err := q.Condition(s, batch)
	if err != nil {
		return nil, err
	}
	var gradients [][]float64
	for _, q.Integral = range integrals {
		e, err := q.Integrate(s, batch, posterior)
		if err != nil {
			return nil, err
		}
		gradients = append(gradients, compute.ToSlice(s.Backend(), e.Gradient))
	}
	return gradients, nil
}
