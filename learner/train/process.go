package train

import (
	"errors"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/estimators/gp/cholesky"
	"github.com/dbqpg/dbqpg/internal/stats"
	"github.com/dbqpg/dbqpg/learner/critic"
	"github.com/dbqpg/dbqpg/learner/runs"
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
func (l *Learner) calibrate(at *Evaluation, x Samples, posterior gp.Posterior, row *runs.Row) error {
	if l.Quadrature != nil && l.Quadrature.Converge {
		likelihood, err := posterior.LogLikelihood()
		if err != nil {
			return err
		}
		row.LogLikelihood = likelihood.Value
		return nil // the rest is known from what it learned (calibrateOn)
	}
	process, ok := posterior.(gp.CrossValidator)
	held := x.trajectories.HeldOut()
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
	scope := compute.NewScope(l.Backend)
	defer scope.Release()
	data := gp.Data{Features: at.Features, Fisher: at.SVD.V, Targets: at.Targets}
	p, err := l.predict(scope, rest, data.RowRange(0, held), l.kernel(at).Noise)
	if err != nil {
		return err
	}
	row.Coverage50 = critic.Coverage(0.5, p.targets, p.means, p.variances)
	row.Coverage90 = critic.Coverage(0.9, p.targets, p.means, p.variances)
	row.HeldOutLogLikelihood = p.logLikelihood()
	mean, deviation := stats.MeanStdDev(compute.ToSlice(l.Backend, at.Targets.RowRange(held, x.size())))
	for i := range p.targets {
		p.means[i], p.variances[i] = mean, deviation*deviation
	}
	row.GaussianLogLikelihood = p.logLikelihood()
	return nil
}

// prediction holds the normal distributions that a process predicts for targets.
type prediction struct{ targets, means, variances []float64 }

// logLikelihood returns the mean logarithm of the densities of the targets.
func (p prediction) logLikelihood() float64 {
	return critic.LogDensity(p.targets, p.means, p.variances)
}

// predict predicts the targets of held-out samples, or of some that are evenly spaced, with their
// noise.
func (l *Learner) predict(scope *compute.Scope, process gp.Predictor, held gp.Data, noise float64) (prediction, error) {
	every := (held.Targets.Rows + calibrationSteps - 1) / calibrationSteps
	some := func(x compute.Block) compute.Block { return x.EveryRow(every) }
	points := gp.Points{Features: some(held.Features), Fisher: some(held.Fisher)}
	mean, variance := scope.New(points.Features.Rows, 1), scope.New(points.Features.Rows, 1)
	if err := process.Predict(gp.ActionValue, points, mean, variance); err != nil {
		return prediction{}, err
	}
	variances := compute.ToSlice(l.Backend, variance)
	floats.AddConst(noise, variances)
	return prediction{compute.ToSlice(l.Backend, some(held.Targets)), compute.ToSlice(l.Backend, mean), variances}, nil
}
