package train

import (
	"errors"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/estimators/gp/cholesky"
	"github.com/dbqpg/dbqpg/learner/critic"
	"github.com/dbqpg/dbqpg/learner/progress"
)

// Calibration takes less than 3 % of an update. It predicts only some evenly spaced held-out
// steps, since those of an episode are much alike. If the kernel is so rough that holding out
// episodes costs nearly as much as a fit, it runs only in iterations 0, 10, 20, ...
const (
	calibrationSteps  = 500 // at most
	calibrationSize   = 500 // gp.CrossValidator's, above which a kernel is rough
	calibrationPeriod = 10  // then
)

// calibrate measures how well the process predicts the targets of held-out episodes: the
// fractions of them within its 50 % and 90 % intervals, under the kernel just learned.
// Learning does not depend on the result. For Monte Carlo, and for solvers that cannot hold
// out episodes, it remains NaN.
func (l *Learner) calibrate(at *Evaluation, x Samples, posterior gp.Posterior, row *progress.Row) error {
	process, ok := posterior.(gp.CrossValidator)
	held := x.current().trajectories.HeldOut()
	if !ok || held == 0 || process.Size() > calibrationSize && row.Iteration%calibrationPeriod != 0 {
		return nil
	}
	rest, err := process.LeaveOut(0, held)
	var rounded *cholesky.NotPositiveDefiniteError
	if errors.As(err, &rounded) {
		return nil // the fit to all episodes passed this test, so training can continue
	} else if err != nil {
		return err
	}
	every := (held + calibrationSteps - 1) / calibrationSteps
	some := func(x compute.Block) compute.Block { return x.RowRange(0, held).EveryRow(every) }
	scope := compute.NewScope(l.Backend)
	defer scope.Release()
	points := gp.Points{Features: some(at.Features), Fisher: some(at.SVD.V)}
	mean, variance := scope.New(points.Features.Rows, 1), scope.New(points.Features.Rows, 1)
	if err := rest.Predict(gp.ActionValue, points, mean, variance); err != nil {
		return err
	}
	targets, means := compute.ToSlice(l.Backend, some(at.Targets)), compute.ToSlice(l.Backend, mean)
	spreads := compute.ToSlice(l.Backend, variance)
	floats.AddConst(l.kernel().Noise, spreads)
	row.Coverage50 = critic.Coverage(0.5, targets, means, spreads)
	row.Coverage90 = critic.Coverage(0.9, targets, means, spreads)
	return nil
}
