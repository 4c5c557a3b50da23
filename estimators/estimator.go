package estimators

import (
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// Batch is what the estimators see of n state-action pairs, sampled from a policy with p
// parameters.
type Batch struct {
	Scores   linop.Operator // U, p × n
	SVD      *linop.SVD     // P S V', the leading part of U; nil is enough for Monte Carlo without a correction
	Fisher   Fisher         // G, for the natural gradient, the kernel, and the uncertainty alike
	Features compute.Block  // n × d: what the state kernel sees; Monte Carlo does without
	Targets  compute.Block  // y, n × 1: a target for the action value of each pair
}

// size returns n.
func (b *Batch) size() int { return b.Targets.Rows }

// An Estimator turns a batch into an estimate of the policy gradient. [MonteCarlo] and
// [Quadrature] are the two.
type Estimator interface {
	// Estimate allocates in s what the estimate needs; the batch must not change while it
	// is used. The errors are those of the process's solver and of the correction.
	Estimate(s *compute.Scope, batch *Batch) (*Estimate, error)
}

// Estimate is an estimate of the policy gradient, and what is known about its error.
type Estimate struct {
	// Weights are the w (n × 1) whose gradient is U w. They also define the surrogate
	// objective of a trust region.
	Weights compute.Block
	// Gradient is U w, p × 1.
	Gradient compute.Block
	// Posterior is the process that the estimate is the integral of; nil for Monte Carlo.
	Posterior gp.Posterior
	// Correct changes a direction (p × 1) in place by the estimate's own uncertainty, as
	// the estimator's [Correction] says. nil: there is none.
	Correct func(direction compute.Block)

	batch   *Batch
	backend compute.Backend
	kappa   float64 // the Fisher kernel's weight in the posterior
}

// correctBy sets the estimate's correction, nil for none.
func (e *Estimate) correctBy(s *compute.Scope, c Correction) (err error) {
	if c != nil {
		e.Correct, err = c.Of(s, e)
	}
	return err
}

// newEstimate returns the gradient U w of a batch.
func newEstimate(s *compute.Scope, batch *Batch, weights compute.Block) *Estimate {
	return &Estimate{Weights: weights, Gradient: linop.Mul(s, batch.Scores, weights, false), batch: batch,
		backend: s.Backend()}
}
