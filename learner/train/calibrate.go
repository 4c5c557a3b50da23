package train

import (
	"errors"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/learner/critic"
)

// calibrate measures how well the process foretells the targets of episodes that it is not
// given: the share of them in its 50 % and 90 % intervals, under the kernel just learned.
// Nothing that is learned depends on it. It is for solvers that leave episodes out at a
// fraction of a fit's cost; the others', and that of Monte Carlo, stays unknown.
func (u *update) calibrate() error {
	process, ok := u.posterior.(gp.CrossValidator)
	held := u.trajectories.HeldOut()
	if !ok || held == 0 {
		return nil
	}
	scope := compute.NewScope(u.Backend)
	defer scope.Release()
	mean, variance := scope.New(held, 1), scope.New(held, 1)
	var rounded *gp.NotPositiveDefiniteError
	if err := process.LeaveOut(0, held, mean, variance); errors.As(err, &rounded) {
		return nil // the fit of all episodes passed this test: training can go on
	} else if err != nil {
		return err
	}
	targets := compute.ToSlice(u.Backend, u.targets.RowRange(0, held))
	means, spreads := compute.ToSlice(u.Backend, mean), compute.ToSlice(u.Backend, variance)
	for i := range spreads {
		spreads[i] += u.kernel().Noise
	}
	u.row.Coverage50 = critic.Coverage(0.5, targets, means, spreads)
	u.row.Coverage90 = critic.Coverage(0.9, targets, means, spreads)
	return nil
}
