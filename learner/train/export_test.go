package train

import "github.com/dbqpg/dbqpg/learner/runs"

// HoldLearning makes the value function of l learn from a batch once wait, called with the batch's iteration, has
// returned.
func HoldLearning(l *Learner, wait func(iteration uint64)) { l.Targets = heldTargets{l.Targets, wait} }

type heldTargets struct {
	Targets
	wait func(iteration uint64)
}

func (h heldTargets) of(l *Learner, x Samples, row *runs.Row) ([]float64, deferred, error) {
	targets, later, err := h.Targets.of(l, x, row)
	iteration := row.Iteration
	return targets, func() error {
		h.wait(iteration)
		return later.run()
	}, err
}
