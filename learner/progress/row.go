// Package progress reports a run's progress, iteration by iteration: a [Row] of numbers, which [CSV] appends to
// progress.csv and [Display] shows, on a terminal in one line that is updated below the log, elsewhere as a log
// line.
package progress

import (
	"math"
	"reflect"

	"github.com/dbqpg/dbqpg/internal/tensorboard"
)

// A Row contains one iteration's numbers. Its fields are progress.csv's columns, in this order, under the first name in
// their tag; the second name is TensorBoard's, which groups curves by the part before the slash.
//
// Columns whose names begin with "seconds_" are wall-clock times; all others are identical whenever the run is repeated,
// or killed and resumed. Numbers that do not apply to a run (the noise, without a Gaussian process) are NaN, and empty
// in progress.csv: start with [NewRow].
type Row struct {
	Iteration uint64 `csv:"iteration"`                   // from 0: the checkpoint of this number has the policy that played the batch
	Steps     uint64 `csv:"steps" tag:"run/steps"`       // environment steps so far, this iteration's included
	Episodes  uint64 `csv:"episodes" tag:"run/episodes"` // likewise

	ReturnMean float64 `csv:"return_mean" tag:"return/mean"`        // of the batch's episodes, undiscounted
	ReturnMin  float64 `csv:"return_min" tag:"return/min"`          //
	ReturnMax  float64 `csv:"return_max" tag:"return/max"`          //
	LengthMean float64 `csv:"length_mean" tag:"return/length_mean"` // steps of an episode

	KL           float64 `csv:"kl" tag:"policy/kl"`                       // mean divergence of the new policy from the old over the batch, in nats
	Entropy      float64 `csv:"entropy" tag:"policy/entropy"`             // of the policy that played the batch, in nats
	GradientNorm float64 `csv:"gradient_norm" tag:"policy/gradient_norm"` // of the estimated gradient

	FisherRank    float64 `csv:"fisher_rank" tag:"kernel/fisher_rank"`       // columns kept of the scores' singular value decomposition
	Noise         float64 `csv:"noise" tag:"kernel/noise"`                   // the Gaussian process's noise variance
	Lengthscale   float64 `csv:"lengthscale" tag:"kernel/lengthscale"`       // of the base kernel; NaN if it has none
	LogLikelihood float64 `csv:"log_likelihood" tag:"kernel/log_likelihood"` // log marginal likelihood per step, before the update

	ValueLoss         float64 `csv:"value_loss" tag:"critic/value_loss"`                 // mean squared error of V against the returns, before the update
	ExplainedVariance float64 `csv:"explained_variance" tag:"critic/explained_variance"` // 1 - var(returns - V) / var(returns)

	SecondsSampling float64 `csv:"seconds_sampling" tag:"seconds/sampling"` // from the policy's publication to the complete batch
	SecondsUpdating float64 `csv:"seconds_updating" tag:"seconds/updating"` // from the complete batch to the new policy

	ReturnStd      float64 `csv:"return_std" tag:"return/std"`                  // with n-1
	TargetStd      float64 `csv:"target_std" tag:"critic/target_std"`           // of the targets, before any standardising
	StepNorm       float64 `csv:"step_norm" tag:"policy/step_norm"`             // of the change in the policy's parameters
	CGIterations   float64 `csv:"cg_iterations" tag:"policy/cg_iterations"`     // conjugate-gradient iterations for the natural gradient
	Backtracks     float64 `csv:"backtracks" tag:"policy/backtracks"`           // halvings in TRPO's line search
	OutputScale    float64 `csv:"output_scale" tag:"kernel/output_scale"`       // of the state kernel
	FisherVariance float64 `csv:"fisher_variance" tag:"kernel/fisher_variance"` // of the Fisher kernel
	SecondsElapsed float64 `csv:"seconds_elapsed" tag:"seconds/elapsed"`        // the run so far, all its starts together

	// The critic's calibration on a held-out tenth of the episodes: the fraction of their targets within the central
	// intervals that should contain 50 % and 90 % of them (package critic). Only with the closed form and at least two
	// episodes, and with a rough base kernel only in iterations 0, 10, 20, ...
	Coverage50 float64 `csv:"coverage_50" tag:"critic/coverage_50"`
	Coverage90 float64 `csv:"coverage_90" tag:"critic/coverage_90"`
}

// An Evaluation is what a checkpoint's policy reached in episodes of its own (package evaluate): a row of evaluations.csv,
// as [Row] is one of progress.csv. Returns are undiscounted. The policy played Episodes episodes with the mean action,
// without noise, and as many, from the same initial states, with actions sampled as in training.
type Evaluation struct {
	Iteration uint64 `csv:"iteration"` // the checkpoint's number
	Steps     uint64 `csv:"steps"`     // environment steps of training before that checkpoint
	Episodes  uint64 `csv:"episodes"`  // with each kind of action

	MeanReturn        float64 `csv:"mean_action_return" tag:"evaluation/mean_action_return"`                 // mean over the episodes
	MeanStandardError float64 `csv:"mean_action_standard_error" tag:"evaluation/mean_action_standard_error"` // of that mean
	MeanIQM           float64 `csv:"mean_action_iqm" tag:"evaluation/mean_action_iqm"`                       // interquartile mean
	MeanMin           float64 `csv:"mean_action_min" tag:"evaluation/mean_action_min"`                       // lowest return
	MeanMax           float64 `csv:"mean_action_max" tag:"evaluation/mean_action_max"`                       // highest return
	MeanLength        float64 `csv:"mean_action_length" tag:"evaluation/mean_action_length"`                 // mean number of steps

	SampledReturn        float64 `csv:"sampled_action_return" tag:"evaluation/sampled_action_return"`
	SampledStandardError float64 `csv:"sampled_action_standard_error" tag:"evaluation/sampled_action_standard_error"`
	SampledIQM           float64 `csv:"sampled_action_iqm" tag:"evaluation/sampled_action_iqm"`
	SampledMin           float64 `csv:"sampled_action_min" tag:"evaluation/sampled_action_min"`
	SampledMax           float64 `csv:"sampled_action_max" tag:"evaluation/sampled_action_max"`
	SampledLength        float64 `csv:"sampled_action_length" tag:"evaluation/sampled_action_length"`
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

// NewRow returns a row in which all numbers are NaN or 0.
func NewRow() Row {
	var row Row
	fields := reflect.ValueOf(&row).Elem()
	for i := range fields.NumField() {
		if field := fields.Field(i); field.CanFloat() {
			field.SetFloat(math.NaN())
		}
	}
	return row
}

// Scalars returns a row, of any type, for TensorBoard: every number that applies.
func Scalars(row any) []tensorboard.Scalar {
	var scalars []tensorboard.Scalar
	fields := reflect.ValueOf(row)
	for i := range fields.NumField() {
		tag := fields.Type().Field(i).Tag.Get("tag")
		if tag == "" {
			continue // the iteration is the curves' abscissa
		}
		var value float64
		if field := fields.Field(i); field.CanUint() {
			value = float64(field.Uint())
		} else {
			value = field.Float()
		}
		if !math.IsNaN(value) {
			scalars = append(scalars, tensorboard.Scalar{Tag: tag, Value: value})
		}
	}
	return scalars
}
