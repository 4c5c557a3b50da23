package optim

import (
	"fmt"
	"math"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/learner/gaussian"
)

// Objective is what a policy step climbs, estimated at the current parameters from
// a batch of n samples.
type Objective struct {
	Policy  *gaussian.Policy // the current policy over the batch
	Actions compute.Block    // n × a
	// Fisher is the current policy's Fisher matrix, the metric of natural gradients.
	Fisher estimators.Fisher
	// SVD is the leading part of the scores; where there is one, it preconditions the
	// solution for the natural gradient. nil: none.
	SVD *linop.SVD
	// Estimate is the gradient. Its weights define TRPO's surrogate, and its correction
	// changes the gradient for VanillaPG, the natural gradient for NPG and TRPO.
	*estimators.Estimate
}

// Report says what a policy step did.
type Report struct {
	GradientNorm float64 // of U w, before the correction
	KL           float64 // mean divergence from the old to the new policy over the batch
	Entropy      float64 // of the new policy
	// Solve is the natural gradient's solution; zero for VanillaPG. A solution that
	// ran out of iterations is used as it is.
	Solve linop.Result
	// Halvings counts how often TRPO shortened its step; Rejected says that no
	// length was good enough and the policy stays as it is.
	Halvings int
	Rejected bool
}

// Algorithm turns a gradient into new parameters.
type Algorithm interface {
	// Step moves params (p), the parameters of o.Policy, uphill. The error is a
	// [*NotFiniteError] or linop's breakdown; params is unchanged then.
	Step(params []float64, o Objective) (Report, error)
	// State is a copy of the algorithm's memory; Restore takes it back, or changes
	// nothing and says why not.
	State() State
	Restore(State) error
}

// NotFiniteError says that a direction to step in is NaN or infinite, so that no
// step was taken.
type NotFiniteError struct {
	Direction string // as in "gradient of the value loss"
	Index     int
	Value     float64
}

// Error implements error.
func (e *NotFiniteError) Error() string {
	return fmt.Sprintf("the %s is not finite (element %d is %v), so no step was taken", e.Direction, e.Index, e.Value)
}

// CheckFinite returns a [*NotFiniteError] for the first element of a direction that
// is not finite.
func CheckFinite(direction string, x []float64) error {
	for i, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return &NotFiniteError{Direction: direction, Index: i, Value: v}
		}
	}
	return nil
}

// download copies a direction to the host and checks it.
func download(b compute.Backend, name string, x compute.Block) ([]float64, error) {
	d := compute.ToSlice(b, x)
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

// norm is the gradient's length.
func (o Objective) norm(b compute.Backend) float64 { return math.Sqrt(b.Dot(o.Gradient, o.Gradient)) }

// arrive completes a report at the new policy.
func (r *Report) arrive(from, to *gaussian.Policy) { r.KL, r.Entropy = from.KL(to), to.Entropy() }
