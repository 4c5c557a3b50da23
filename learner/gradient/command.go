// Package gradient computes the policy gradients of one batch from a file, for given
// samples, networks and hyperparameters, without a simulator or a training run. It
// implements `learner gradient`, which compares the estimators with exact answers.
package gradient

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/npz"
	"github.com/dbqpg/dbqpg/learner/device"
)

// Options select how the gradients are computed. The zero value of each string means
// the first of its choices.
type Options struct {
	Solver       config.Solver
	FisherKernel config.FisherKernel // exact with cg alone
	Fisher       config.Fisher       // in natural gradients, the exact kernel and the uncertainty
	Covariance   config.Covariance
	Noise        float64 // noise variance; 0: that of the batch
	Device       config.Device
	Seed         uint64 // of the random sketches, if any
}

// Command returns `learner gradient`.
func Command() *cobra.Command {
	var batchPath, outPath string
	options := Options{Solver: config.Direct, FisherKernel: config.TruncatedSVD, Fisher: config.Analytic,
		Covariance: config.Projected, Seed: 1}
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
	config.AddFlags(flags, &options, "solver", "fisher_kernel", "fisher", "covariance", "device")
	flags.Float64Var(&options.Noise, "noise", 0, "noise variance, such as the paper's 1e-4 (default: that of the "+
		"batch)")
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
	if filepath.Clean(batchPath) == filepath.Clean(outPath) {
		return fmt.Errorf("--out %s is the batch itself", outPath)
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

func (o *Options) validate() error {
	if math.IsNaN(o.Noise) || math.IsInf(o.Noise, 0) || o.Noise < 0 {
		return fmt.Errorf("--noise %v: want a positive number", o.Noise)
	}
	if o.FisherKernel == config.Exact && o.Solver != config.ConjugateGradient {
		return errors.New("--fisher-kernel exact: it is known only through its products and has no closed form; " +
			"add --solver cg")
	}
	return nil
}

// Difference is how far an answer is from the expected one.
type Difference struct {
	Name     string  // without expect_; a gradient's arrays together count as one
	Relative float64 // norm of the difference over the norm of the expected
	Cosine   float64
}

// parameter is the end of the name of one array of a network's gradient.
var parameter = regexp.MustCompile(`_(w\d+|b\d+|log_std)$`)

// Compare compares the answers with those of want that have their names, in order of
// the names.
func Compare(answers, want npz.Arrays) []Difference {
	groups := map[string][]string{}
	for _, name := range answers.Names() {
		if array, ok := want[name]; ok && slices.Equal(array.Shape, answers[name].Shape) {
			group := parameter.ReplaceAllString(name[len("expect_"):], "")
			groups[group] = append(groups[group], name)
		}
	}
	var differences []Difference
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		var x, y []float64
		for _, name := range groups[group] {
			x, y = append(x, want[name].Floats...), append(y, answers[name].Floats...)
		}
		norm := floats.Norm(x, 2)
		differences = append(differences, Difference{group, floats.Distance(x, y, 2) / norm,
			floats.Dot(x, y) / (norm * floats.Norm(y, 2))})
	}
	return differences
}
