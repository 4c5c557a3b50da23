package train

import "github.com/dbqpg/dbqpg/learner/runs"

// HoldLearning makes the value function of l learn from a batch once wait, called with the batch's iteration, has
// returned.
func HoldLearning(l *Learner, wait func(iteration uint64)) { l.Targets = heldTargets{l.Targets, wait} }

type heldTargets struct {
	Targets
	wait func(iteration uint64)
}

func (h heldTargets) of(u *update) ([]float64, deferred, error) {
	targets, later, err := h.Targets.of(u)
	iteration := u.row.Iteration
	return targets, func() (func(*runs.Row), error) {
		h.wait(iteration)
		if later == nil {
			return nil, nil
		}
		return later()
	}, err
}
