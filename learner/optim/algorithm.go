package optim

import (
	"fmt"
	"math"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/learner/batched"
	"github.com/dbqpg/dbqpg/learner/state"
)

// Objective is the objective of a policy step, estimated at the current parameters from
// a batch of n samples.
type Objective struct {
	Policy  *batched.Policy // the current policy over the batch
	Actions compute.Block   // n × a
	// Fisher is the current policy's Fisher matrix, the metric of natural gradients.
	Fisher estimators.Fisher
	// SVD is the scores' truncated decomposition, which preconditions the solution for the
	// natural gradient; it may be nil.
	SVD *linop.SVD
	// CG solves for the natural gradient; its preconditioner is SVD's.
	CG linop.CG
	// Estimate is the gradient. Its weights define TRPO's surrogate, and its correction
	// changes the gradient for VanillaPG, the natural gradient for NPG and TRPO.
	*estimators.Estimate
	// TargetVariance is the variance of the batch's targets before they were standardised.
	TargetVariance float64
}

// Report describes a policy step.
type Report struct {
	GradientNorm float64 // of U w, before the correction
	KL           float64 // mean divergence from the old to the new policy over the batch
	// Solve is the result of solving for the natural gradient; zero for VanillaPG. A
	// solution that has not converged is used as it is.
	Solve linop.Result
	// Halvings counts how often TRPO halved its step; Rejected reports that no length was
	// accepted and the policy is unchanged.
	Halvings int
	Rejected bool
}

// Algorithm turns a gradient into new parameters.
type Algorithm interface {
	// Step takes one ascent step on params, all the parameters of o.Policy. An error is a
	// [*NotFiniteError] or linop's breakdown, and leaves params unchanged.
	Step(params []float64, o Objective) (Report, error)
	// Visit visits the algorithm's state.
	Visit(v *state.Visitor)
}

// NotFiniteError reports that a step's direction is NaN or infinite, so that no step
// was taken.
type NotFiniteError struct {
	Direction string // as in "gradient of the value loss"
	Index     int
	Value     float64
}

// Error implements error.
func (e *NotFiniteError) Error() string {
	return fmt.Sprintf("the %s is not finite (element %d is %v), so no step was taken", e.Direction, e.Index, e.Value)
}

// CheckFinite returns a [*NotFiniteError] for the first non-finite element of a
// direction.
func CheckFinite(direction string, x []float64) error {
	for i, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return &NotFiniteError{Direction: direction, Index: i, Value: v}
		}
	}
	return nil
}

// download copies a direction to the host, as one in all of the policy's parameters, and
// checks it.
func (o Objective) download(name string, x compute.Block) ([]float64, error) {
	d := o.Policy.Expand(compute.ToSlice(o.Policy.Backend(), x))
	return d, CheckFinite(name, d)
}

// corrected copies the direction x to s and applies the correction to the copy.
func (o Objective) corrected(s *compute.Scope, x compute.Block) compute.Block {
	d := s.New(x.Rows, 1)
	compute.Copy(s.Backend(), d, x)
	if o.Correct != nil {
		o.Correct(d)
	}
	return d
}

// norm returns the gradient's norm.
func (o Objective) norm(b compute.Backend) float64 { return math.Sqrt(b.Dot(o.Gradient, o.Gradient)) }
