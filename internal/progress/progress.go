// Package progress defines the columns of a run's tables: progress.csv, a [Row] for each iteration, and
// evaluations.csv, an [Evaluation] for each evaluated checkpoint.
package progress

import (
	"reflect"
	"strings"
)

// A Row contains one iteration's numbers. Its fields are the columns of progress.csv, in this order. The struct tags
// give the column's name, TensorBoard's tag, and the description in TensorBoard and docs/metrics.md.
//
// Columns whose names begin with "seconds_" are times, all but the processor's by the clock on the wall; all others are
// identical whenever the run is repeated, or killed and resumed. Numbers that do not apply to a run (the noise, without
// a Gaussian process) are NaN, and empty in progress.csv.
type Row struct {
	Iteration uint64 `csv:"iteration" help:"Iteration, from 0. The checkpoint of that number played the batch."`
	Steps     uint64 `csv:"steps" tag:"run/steps" help:"Environment steps so far, with those of the first batch, for the normaliser."`
	Episodes  uint64 `csv:"episodes" tag:"run/episodes" help:"Episodes ended so far."`

	ReturnMean float64 `csv:"return_mean" tag:"return/mean" help:"Mean undiscounted return of the episodes that ended in the batch, with sampled actions; empty if none did."`
	ReturnMin  float64 `csv:"return_min" tag:"return/min" help:"Lowest return in the batch."`
	ReturnMax  float64 `csv:"return_max" tag:"return/max" help:"Highest return in the batch."`
	LengthMean float64 `csv:"length_mean" tag:"return/length_mean" help:"Mean length of the episodes that ended in the batch."`

	KL           float64 `csv:"kl" tag:"policy/kl" help:"Mean KL divergence of the new policy from the old, in nats."`
	Entropy      float64 `csv:"entropy" tag:"policy/entropy" help:"Entropy of the policy that played the batch, in nats."`
	GradientNorm float64 `csv:"gradient_norm" tag:"policy/gradient_norm" help:"Euclidean norm of the estimated gradient."`

	FisherRank    float64 `csv:"fisher_rank" tag:"kernel/fisher_rank" help:"Singular values kept of the scores."`
	Noise         float64 `csv:"noise" tag:"kernel/noise" help:"Noise variance of the Gaussian process."`
	Lengthscale   float64 `csv:"lengthscale" tag:"kernel/lengthscale" help:"Lengthscale of the base kernel; empty if it has none."`
	LogLikelihood float64 `csv:"log_likelihood" tag:"kernel/log_likelihood" help:"Log marginal likelihood per step, before the update; with --kernel-learning converge, after it."`

	ValueLoss         float64 `csv:"value_loss" tag:"critic/value_loss" help:"Mean squared error of the values before training on the batch."`
	ExplainedVariance float64 `csv:"explained_variance" tag:"critic/explained_variance" help:"1 - var(targets - values) / var(targets), of the same values."`

	SecondsSampling float64 `csv:"seconds_sampling" tag:"seconds/sampling" help:"Time from the policy's publication to the complete batch."`
	SecondsUpdating float64 `csv:"seconds_updating" tag:"seconds/updating" help:"Time from the complete batch to the new policy."`

	ReturnStd      float64 `csv:"return_std" tag:"return/std" help:"Standard deviation of these returns (with n-1)."`
	TargetStd      float64 `csv:"target_std" tag:"critic/target_std" help:"Standard deviation of the targets, before standardisation."`
	StepNorm       float64 `csv:"step_norm" tag:"policy/step_norm" help:"Euclidean norm of the change of the policy's parameters."`
	CGIterations   float64 `csv:"cg_iterations" tag:"policy/cg_iterations" help:"Conjugate-gradient iterations for the natural gradient; empty with --algorithm vanilla."`
	Backtracks     float64 `csv:"backtracks" tag:"policy/backtracks" help:"Halvings of the step in TRPO's line search; empty with other algorithms."`
	OutputScale    float64 `csv:"output_scale" tag:"kernel/output_scale" help:"Output scale of the state kernel."`
	FisherVariance float64 `csv:"fisher_variance" tag:"kernel/fisher_variance" help:"Variance v of the Fisher kernel."`
	SecondsElapsed float64 `csv:"seconds_elapsed" tag:"seconds/elapsed" help:"Duration of the run so far, over all its starts."`

	// The critic's calibration on a held-out tenth of the episodes: the fraction of their targets within the central
	// intervals that should contain 50 % and 90 % of them (package critic); with --kernel-learning converge, on all
	// episodes, held out a fifth at a time, with the tails and the scale of the other folds' errors. Only with the
	// closed form and at least two episodes, and with a rough base kernel only in iterations 0, 10, 20, ...
	Coverage50 float64 `csv:"coverage_50" tag:"critic/coverage_50" help:"Fraction of held-out targets within central 50 % intervals; with --kernel-learning converge, of Student's t fitted to the other folds' errors."`
	Coverage90 float64 `csv:"coverage_90" tag:"critic/coverage_90" help:"The same for 90 % intervals."`

	SecondsProcessor float64 `csv:"seconds_processor" tag:"seconds/processor" help:"Processor time of the learner's process, without separate actors."`

	ValuePasses float64 `csv:"value_passes" tag:"critic/value_passes" help:"Passes of the value function over the batch; with --value-learning converge."`

	// The likelihood of the same targets, in the units that the process sees.
	HeldOutLogLikelihood  float64 `csv:"held_out_log_likelihood" tag:"critic/held_out_log_likelihood" help:"Mean log predictive density of the held-out targets."`
	GaussianLogLikelihood float64 `csv:"gaussian_log_likelihood" tag:"critic/gaussian_log_likelihood" help:"The same for a Gaussian with the other targets' mean and variance."`

	NoiseDegrees float64 `csv:"noise_degrees" tag:"kernel/noise_degrees" help:"Degrees of freedom of that Student's t; empty for a normal distribution."`

	// The coverage of the process's own normal distributions: that of coverage_50 and coverage_90 without tails or
	// scale.
	NormalCoverage50 float64 `csv:"normal_coverage_50" tag:"critic/normal_coverage_50" help:"Fraction of held-out targets within the process's own normal 50 % intervals."`
	NormalCoverage90 float64 `csv:"normal_coverage_90" tag:"critic/normal_coverage_90" help:"The same for 90 % intervals."`
}

// An Evaluation contains a checkpoint's results in episodes of its own (package evaluate): a row of evaluations.csv, as
// [Row] is one of progress.csv. Returns are undiscounted. The policy played Episodes episodes with the mean action,
// without noise, and about as many, from the same initial states, with sampled actions, or none: then their numbers are
// NaN, and empty in the file.
type Evaluation struct {
	Iteration uint64 `csv:"iteration" help:"Number of the evaluated checkpoint."`
	Steps     uint64 `csv:"steps" help:"Environment steps of training before that checkpoint."`
	Episodes  uint64 `csv:"episodes" help:"Number of episodes with the mean action."`

	MeanReturn        float64 `csv:"mean_action_return" tag:"evaluation/mean_action_return" help:"Mean return with the mean action."`
	MeanStandardError float64 `csv:"mean_action_standard_error" tag:"evaluation/mean_action_standard_error" help:"Standard error of the mean return with the mean action."`
	MeanIQM           float64 `csv:"mean_action_iqm" tag:"evaluation/mean_action_iqm" help:"Interquartile mean of the returns with the mean action."`
	MeanMin           float64 `csv:"mean_action_min" tag:"evaluation/mean_action_min" help:"Lowest return with the mean action."`
	MeanMax           float64 `csv:"mean_action_max" tag:"evaluation/mean_action_max" help:"Highest return with the mean action."`
	MeanLength        float64 `csv:"mean_action_length" tag:"evaluation/mean_action_length" help:"Mean number of steps with the mean action."`

	SampledReturn        float64 `csv:"sampled_action_return" tag:"evaluation/sampled_action_return" help:"Mean return with sampled actions."`
	SampledStandardError float64 `csv:"sampled_action_standard_error" tag:"evaluation/sampled_action_standard_error" help:"Standard error of the mean return with sampled actions."`
	SampledIQM           float64 `csv:"sampled_action_iqm" tag:"evaluation/sampled_action_iqm" help:"Interquartile mean of the returns with sampled actions."`
	SampledMin           float64 `csv:"sampled_action_min" tag:"evaluation/sampled_action_min" help:"Lowest return with sampled actions."`
	SampledMax           float64 `csv:"sampled_action_max" tag:"evaluation/sampled_action_max" help:"Highest return with sampled actions."`
	SampledLength        float64 `csv:"sampled_action_length" tag:"evaluation/sampled_action_length" help:"Mean number of steps with sampled actions."`
}

// Columns returns the columns of T's file in order.
func Columns[T any]() []string {
	row := reflect.TypeFor[T]()
	names := make([]string, row.NumField())
	for i := range names {
		names[i] = row.Field(i).Tag.Get("csv")
	}
	return names
}

// Metric describes a column: its name, the group of charts it belongs to, and its meaning.
type Metric struct {
	Name  string `json:"name"`
	Group string `json:"group"`
	Help  string `json:"help"`
}

// Metrics describes the columns of T's file that TensorBoard shows, with a prefix before their names.
func Metrics[T any](prefix string) (all []Metric) {
	row := reflect.TypeFor[T]()
	for i := range row.NumField() {
		tags := row.Field(i).Tag
		if group, _, shown := strings.Cut(tags.Get("tag"), "/"); shown {
			all = append(all, Metric{prefix + tags.Get("csv"), group, tags.Get("help")})
		}
	}
	return all
}
