// Package gradient computes the policy gradients of one batch from a file, for given
// samples, networks and hyperparameters, without a simulator or a training run. It
// implements `learner gradient`, which compares the estimators with exact answers.
package gradient

import (
	"errors"
	"fmt"
	"math"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/npz"
	"github.com/dbqpg/dbqpg/learner/device"
)

// Options select how the gradients are computed. The zero value of each string means
// the first of its choices.
type Options struct {
	Solver     config.Solver       // direct or cg
	Kernel     config.FisherKernel // svd, or exact with cg
	Fisher     config.Fisher       // analytic or empirical, in natural gradients, the exact kernel and the uncertainty
	Covariance config.Covariance   // projected or randomized
	Noise      float64             // noise variance; 0: that of the batch
	Device     config.Device       // device to compute on
	Seed       uint64              // seed of the random sketches, if any
}

// Command returns `learner gradient`.
func Command() *cobra.Command {
	var batchPath, outPath string
	options := Options{Seed: 1}
	cmd := &cobra.Command{
		Use:   "gradient --batch FILE --out FILE",
		Short: "Compute the policy gradients of one batch from a file",
		Long: `Reads a batch from an npz file: observations (n, o; normalised), actions (n, a), rewards,
dones and targets (n), the networks policy_* feature_* value_* (w: out, in), and the
scalars lengthscale outputscale fisher_variance noise c1 c2 rank epsilon damping gamma
gae_lambda. Writes the results to another npz file, as expect_NAME: returns, values, the
log likelihood of the Gaussian process and its gradients, the posterior mean and variance
of V, A and Q at each sample, and the policy gradients by Monte Carlo, DBQPG, UAPG (plain
and natural) and UBAC. Gradients with completion of the Fisher kernel are named
NAME_completed. If the batch itself has an array expect_NAME, the relative difference is
printed. With query_observations (m, o) and query_actions (m, a), the posterior moments are
also computed there.`,
		Example: "  learner gradient --batch batch.npz --out gradients.npz --fisher analytic",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := options.validate(); err != nil {
				return err
			}
			return run(cmd, batchPath, outPath, options)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&batchPath, "batch", "", "npz file to read")
	flags.StringVar(&outPath, "out", "", "npz file to write")
	flags.StringVar((*string)(&options.Solver), "solver", string(config.Direct),
		"solver for the Gaussian process: direct (closed form), or cg (the paper's conjugate gradients)")
	flags.StringVar((*string)(&options.Kernel), "fisher-kernel", string(config.TruncatedSVD),
		"Fisher kernel: svd (from the leading singular vectors of the scores), or exact (by products, requires "+
			"--solver cg)")
	flags.StringVar((*string)(&options.Fisher), "fisher", string(config.Analytic),
		"Fisher matrix in natural gradients, the exact Fisher kernel and the uncertainty: analytic or empirical")
	flags.StringVar((*string)(&options.Covariance), "covariance", string(config.Projected),
		"eigenpairs of the uncertainty: projected (closed form), or randomized (the paper's randomised decomposition)")
	flags.Float64Var(&options.Noise, "noise", 0, "noise variance, such as the paper's 1e-4 (default: that of the "+
		"batch)")
	flags.Var(&options.Device, "device", config.DeviceHelp)
	flags.Uint64Var(&options.Seed, "seed", options.Seed,
		fmt.Sprintf("random seed; it matters only for batches of more than %d samples, cg and randomized",
			linop.ExactSamples))
	for _, name := range []string{"batch", "out"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err)
		}
	}
	return cmd
}

// run reads, computes, writes and compares.
func run(cmd *cobra.Command, batchPath, outPath string, options Options) error {
	if err := different(batchPath, outPath); err != nil {
		return err
	}
	arrays, err := npz.ReadFile(batchPath)
	if err != nil {
		return fmt.Errorf("batch: %w", err)
	}
	batch, err := Parse(arrays)
	if err != nil {
		return fmt.Errorf("batch %s: %w", batchPath, err)
	}
	computer, err := device.Open(options.Device)
	if err != nil {
		return err
	}
	defer computer.Close()
	answers, err := Compute(computer.Backend, batch, options)
	if err != nil {
		return fmt.Errorf("batch %s: %w", batchPath, err)
	}
	if err := npz.WriteFile(outPath, answers); err != nil {
		return err
	}
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, d := range Compare(answers, arrays) {
		fmt.Fprintf(table, "%s\trelative difference %.1e\tcosine %.6f\n", d.Name, d.Relative, d.Cosine)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "wrote %d arrays to %s\n", len(answers), outPath)
	return nil
}

// different returns an error if the output would overwrite the batch.
func different(batchPath, outPath string) error {
	in, err := os.Stat(batchPath)
	if err != nil {
		return fmt.Errorf("batch: %w", err)
	}
	out, err := os.Stat(outPath)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && os.SameFile(in, out) {
		err = fmt.Errorf("--out %s is the batch itself", outPath)
	}
	return err
}

// validate checks the choices.
func (o Options) validate() error {
	for _, choice := range []struct{ flag, value, first, second string }{
		{"solver", string(o.Solver), string(config.Direct), string(config.ConjugateGradient)},
		{"fisher-kernel", string(o.Kernel), string(config.TruncatedSVD), string(config.Exact)},
		{"fisher", string(o.Fisher), string(config.Analytic), string(config.Empirical)},
		{"covariance", string(o.Covariance), string(config.Projected), string(config.Randomized)},
	} {
		if choice.value != "" && choice.value != choice.first && choice.value != choice.second {
			return fmt.Errorf("--%s %s: want %s or %s", choice.flag, choice.value, choice.first, choice.second)
		}
	}
	if math.IsNaN(o.Noise) || math.IsInf(o.Noise, 0) || o.Noise < 0 {
		return fmt.Errorf("--noise %v: want a positive number", o.Noise)
	}
	if o.Kernel == config.Exact && o.Solver != config.ConjugateGradient {
		return errors.New("--fisher-kernel exact: it is known only through its products and has no closed form; add " +
			"--solver cg")
	}
	return nil
}
