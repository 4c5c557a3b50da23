package gp

import (
	"fmt"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// Part is a part of the action-value function, Q(s,a) = V(s) + A(s,a).
type Part int

// The parts. V and A are independent in the prior; given a batch they are not, and Q's
// variance is not the sum of theirs.
const (
	Value       Part = iota // V(s), which the state kernel models
	Advantage               // A(s,a), which the Fisher kernel models
	ActionValue             // Q(s,a), with both
)

// String implements fmt.Stringer.
func (p Part) String() string {
	if p < Value || p > ActionValue {
		return fmt.Sprintf("Part(%d)", int(p))
	}
	return [...]string{"value", "advantage", "action value"}[p]
}

// Points are m states and actions, the batch's own or others.
type Points struct {
	// Features are m × d, before scaling. They are scaled as the batch's are. A feature
	// below the batch's smallest counts as the smallest, one above the largest as that.
	Features compute.Block
	// Fisher is m × k: rows u'P S^-1 with the points' scores u and the decomposition
	// P S V' of the batch's ([linop.SVD.Rows]). [Value] does not need them.
	Fisher compute.Block
}

// rowRange returns the view of points [i, j).
func (at Points) rowRange(i, j int) Points {
	at.Features = at.Features.RowRange(i, j)
	if at.Fisher.Rows > 0 {
		at.Fisher = at.Fisher.RowRange(i, j)
	}
	return at
}

// Predictor is implemented by posteriors that know the moments of Q and its parts at any
// points.
type Predictor interface {
	// Predict sets mean and variance (m × 1) to a part's posterior moments at m points,
	// without the observations' noise. With k* the part's kernel between a point and the
	// batch, c1 k_s, kappa k_f or their sum, they are
	//
	//	k*'K^-1 y  and  k** - k*'K^-1 k*
	//
	// (eqn:appendix_Q_function_posterior; eqn:appendix_value_posterior_1, _2;
	// eqn:appendix_adv_posterior_1, _2). No variance is negative. The zero Block for
	// variance means that it is not wanted, and saves the time.
	Predict(part Part, at Points, mean, variance compute.Block) error
}

// CrossValidator is implemented by posteriors that can do without some of their samples.
type CrossValidator interface {
	// LeaveOut is the process given all samples except [lo, hi), which are one or more,
	// under the same kernel, with the same V and the same scaling of the features. It lives
	// as long as the posterior does. The error may be a [*cholesky.NotPositiveDefiniteError].
	LeaveOut(lo, hi int) (Predictor, error)
	// Size is r, the order of the matrix that is factorised anew for LeaveOut, and
	// inverted for the first variance: 2/3 r³ operations.
	Size() int
}
