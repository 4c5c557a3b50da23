package train

import (
	"errors"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/learner/critic"
)

// Calibration stays below 3 % of an update. It predicts a few of the steps left out, evenly
// spaced, for those of an episode are much alike. And where the kernel is so rough that to
// leave episodes out takes nearly a fit, it is for iterations 1, 11, 21, ... alone.
const (
	calibrationSteps  = 500 // at most
	calibrationSize   = 500 // gp.CrossValidator's, above which a kernel is rough
	calibrationPeriod = 10  // then
)

// calibrate measures how well the process foretells the targets of episodes that it is not
// given: the share of them in its 50 % and 90 % intervals, under the kernel just learned.
// Nothing that is learned depends on it. Of solvers that cannot leave episodes out it stays
// unknown, as it does of Monte Carlo.
func (u *update) calibrate() error {
	process, ok := u.posterior.(gp.CrossValidator)
	held := u.trajectories.HeldOut()
	if !ok || held == 0 || process.Size() > calibrationSize && u.row.Iteration%calibrationPeriod != 1 {
		return nil
	}
	rest, err := process.LeaveOut(0, held)
	var rounded *gp.NotPositiveDefiniteError
	if errors.As(err, &rounded) {
		return nil // the fit of all episodes passed this test: training can go on
	} else if err != nil {
		return err
	}
	every := (held + calibrationSteps - 1) / calibrationSteps
	some := func(x compute.Block) compute.Block { return x.RowRange(0, held).EveryRow(every) }
	scope := compute.NewScope(u.Backend)
	defer scope.Release()
	at := gp.Points{Features: some(u.features), Fisher: some(u.svd.V)}
	mean, variance := scope.New(at.Features.Rows, 1), scope.New(at.Features.Rows, 1)
	if err := rest.Predict(gp.ActionValue, at, mean, variance); err != nil {
		return err
	}
	targets, means := compute.ToSlice(u.Backend, some(u.targets)), compute.ToSlice(u.Backend, mean)
	spreads := compute.ToSlice(u.Backend, variance)
	floats.AddConst(u.kernel().Noise, spreads)
	u.row.Coverage50 = critic.Coverage(0.5, targets, means, spreads)
	u.row.Coverage90 = critic.Coverage(0.9, targets, means, spreads)
	return nil
}
