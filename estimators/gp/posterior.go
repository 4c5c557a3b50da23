package gp

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp/statekernel"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// Data holds the parts of a batch of n samples that the process depends on.
type Data struct {
	Features compute.Block // n × d, before scaling
	Fisher   compute.Block // n × k: V, the right singular vectors of the scores U
	Targets  compute.Block // n × 1: y
}

// RowRange returns the batch of samples [lo, hi) alone.
func (d Data) RowRange(lo, hi int) Data {
	return Data{Features: d.Features.RowRange(lo, hi), Fisher: d.Fisher.RowRange(lo, hi),
		Targets: d.Targets.RowRange(lo, hi)}
}

// Points returns the points of the batch itself.
func (d Data) Points() Points { return Points{Features: d.Features, Fisher: d.Fisher} }

// A Solver conditions the process on a batch. [Direct] and [Iterative] are the two.
type Solver interface {
	// Fit allocates the posterior in s. It is valid as long as s, and d's blocks must not
	// change meanwhile. The error is a [*HyperparameterError], a
	// [*NotFiniteError] or a [*statekernel.ConstantFeaturesError]. Direct adds those of
	// [statekernel.Kernel.Factor] and [*cholesky.NotPositiveDefiniteError], and Iterative
	// those of conjugate gradients.
	Fit(s *compute.Scope, k Kernel, d Data) (Posterior, error)
}

// Posterior is a Gaussian process conditioned on a batch, with the results of solving with
// K = c1 K_s + kappa K_f + noise I.
type Posterior interface {
	// Alpha returns K^-1 y, n × 1.
	Alpha() compute.Block
	// LogLikelihood returns log N(y; 0, K) / n, including the constant (eqn:GP_nll). In
	// closed form its standard error is 0. The error says why the estimate failed.
	LogLikelihood() (linop.Estimate, error)
	// Gradient returns the gradient of LogLikelihood in the hyperparameters, and
	// sets features (n × d) to that in the features before scaling, unless it is the
	// zero Block.
	Gradient(features compute.Block) (Hyper, error)
	// FisherCore returns V'K^-1 V, k × k: the middle of U K^-1 U' = P S (V'K^-1 V) S P'
	// in the gradient's covariance (eq:GP_grad).
	FisherCore() (*mat.SymDense, error)
	// StateCore returns V'(c1 K_s + noise I)^-1 V, k × k: the middle of the second term
	// of the natural gradient's precision (eqn:natural_bq_covariace).
	StateCore() (*mat.SymDense, error)
}

// inputs are common to both solvers: the checked data and the scaled features.
type inputs struct {
	backend compute.Backend
	kernel  Kernel
	data    Data
	scaling statekernel.Scaling
	scaled  compute.Block // n × d
}

// prepare checks the shapes and the numbers, except those of the Fisher vectors, and
// scales the features. A non-finite number anywhere makes its block's sum of squares
// non-finite.
func prepare(s *compute.Scope, k Kernel, d Data) (inputs, error) {
	n := d.Features.Rows
	if d.Fisher.Rows != n || d.Targets.Rows != n || d.Targets.Cols != 1 || n == 0 || d.Features.Cols == 0 {
		panic(fmt.Sprintf("gp: features %s, Fisher vectors %s, targets %s: want n × d, n × k, n × 1",
			d.Features.Shape(), d.Fisher.Shape(), d.Targets.Shape()))
	}
	in := inputs{backend: s.Backend(), kernel: k, data: d, scaled: s.New(n, d.Features.Cols)}
	if err := k.Validate(); err != nil {
		return in, err
	}
	if err := checkFinite(in.backend, "features", d.Features); err != nil {
		return in, err
	}
	if err := checkFinite(in.backend, "targets", d.Targets); err != nil {
		return in, err
	}
	var err error
	in.scaling, err = statekernel.Scale(in.backend, in.scaled, d.Features)
	return in, err
}

// checkPredict panics unless the blocks have the shapes that Predict needs.
func (in *inputs) checkPredict(part Part, at Points, mean, variance compute.Block) {
	m := at.Features.Rows
	fits := part >= Value && part <= ActionValue && at.Features.Cols == in.scaled.Cols &&
		mean.Rows == m && mean.Cols == 1 && (variance.Rows == 0 || variance.Rows == m && variance.Cols == 1) &&
		(part == Value || at.Fisher.Rows == m && at.Fisher.Cols == in.data.Fisher.Cols)
	if !fits {
		panic(fmt.Sprintf("gp: moments of the %v at features %s, Fisher vectors %s to %s and %s: "+
			"want m × %d, m × %d, m × 1, m × 1",
			part, at.Features.Shape(), at.Fisher.Shape(), mean.Shape(), variance.Shape(), in.scaled.Cols,
			in.data.Fisher.Cols))
	}
}

const fisherVectors = "Fisher vectors"

// checkFinite returns a [*NotFiniteError] unless all of x is finite.
func checkFinite(b compute.Backend, what string, x compute.Block) error {
	if sum := b.Dot(x, x); math.IsNaN(sum) || math.IsInf(sum, 0) {
		return &NotFiniteError{What: what, Value: sum}
	}
	return nil
}

// logLikelihood returns log N(y; 0, K) / n from y'K^-1 y and log det K.
func logLikelihood(n int, quadratic, logDet float64) float64 {
	return -(quadratic + logDet + float64(n)*math.Log(2*math.Pi)) / 2 / float64(n)
}

// NotFiniteError reports that an input or a result holds NaN or infinity.
type NotFiniteError struct {
	What  string
	Value float64 // its sum of squares, or the result itself
}

// Error implements error.
func (e *NotFiniteError) Error() string {
	return fmt.Sprintf("gp: the %s are not finite (%g)", e.What, e.Value)
}
