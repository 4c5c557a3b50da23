package train

import (
	"errors"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/estimators/gp/cholesky"
	"github.com/dbqpg/dbqpg/internal/stats"
	"github.com/dbqpg/dbqpg/learner/critic"
)

// Process is how the Gaussian process of a batch learns: [Likelihood] or [HeldOut].
type Process interface {
	// center prepares the targets, and their unit.
	center(u *update)
	// learn learns the kernel's hyperparameters and the features, given an embedding of the batch and the estimator
	// before it learns. It sets the batch's features, in u's scope, to those that the estimate has.
	learn(u *update, embedding *critic.Evaluation, before *estimators.Quadrature) (deferred, error)
	// calibrate measures how well the process predicts held-out targets, given the estimate's posterior.
	calibrate(u *update, posterior gp.Posterior) error
}

// Likelihood takes one step up the marginal likelihood of the targets (eqn:GP_nll), as the authors' code does.
type Likelihood struct{}

func (Likelihood) center(*update) {}

func (Likelihood) learn(u *update, embedding *critic.Evaluation, before *estimators.Quadrature) (deferred, error) {
	scope := compute.NewScope(u.Backend)
	defer scope.Release()
	posterior, err := before.Condition(scope, &u.at.Batch)
	if err != nil {
		return nil, err
	}
	likelihood, err := posterior.LogLikelihood()
	if err != nil {
		return nil, err
	}
	u.row.LogLikelihood = likelihood.Value
	var features compute.Block // remains the zero Block if no features are learned
	if u.Critic.Deep() {
		features = scope.New(u.at.Features.Rows, u.at.Features.Cols)
	}
	hyper, err := posterior.Gradient(features)
	if err != nil {
		return nil, err
	}
	if err := u.Critic.StepProcess(embedding, features, hyper); err != nil {
		return nil, err
	}
	u.at.Features = u.Critic.Embed(u.s, u.x.observations()).Features()
	return nil, nil
}

// Calibration takes less than 3 % of an update. It predicts only some evenly spaced held-out
// steps, since those of an episode are much alike. If the kernel is so rough that holding out
// episodes costs nearly as much as a fit, it runs only in iterations 0, 10, 20, ...
const (
	calibrationSteps  = 500 // at most
	calibrationSize   = 500 // gp.CrossValidator's, above which a kernel is rough
	calibrationPeriod = 10  // then
)

// calibrate measures the fractions of the targets of held-out episodes within the process's 50 % and 90 % intervals,
// under the kernel just learned. For solvers that cannot hold out episodes they remain NaN.
func (Likelihood) calibrate(u *update, posterior gp.Posterior) error {
	at, row := u.at, u.row
	process, ok := posterior.(gp.CrossValidator)
	held := u.x.trajectories.HeldOut()
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
	scope := compute.NewScope(u.Backend)
	defer scope.Release()
	data := gp.Data{Features: at.Features, Fisher: at.SVD.V, Targets: at.Targets}
	p, err := predict(scope, rest, data.RowRange(0, held), u.kernel().Noise)
	if err != nil {
		return err
	}
	row.Coverage50 = critic.Coverage(0.5, p.targets, p.means, p.variances)
	row.Coverage90 = critic.Coverage(0.9, p.targets, p.means, p.variances)
	row.HeldOutLogLikelihood = p.logLikelihood()
	mean, deviation := stats.MeanStdDev(compute.ToSlice(u.Backend, at.Targets.RowRange(held, u.x.Current)))
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
func predict(scope *compute.Scope, process gp.Predictor, held gp.Data, noise float64) (prediction, error) {
	every := (held.Targets.Rows + calibrationSteps - 1) / calibrationSteps
	some := func(x compute.Block) compute.Block { return x.EveryRow(every) }
	points := gp.Points{Features: some(held.Features), Fisher: some(held.Fisher)}
	mean, variance := scope.New(points.Features.Rows, 1), scope.New(points.Features.Rows, 1)
	if err := process.Predict(gp.ActionValue, points, mean, variance); err != nil {
		return prediction{}, err
	}
	b := scope.Backend()
	p := prediction{compute.ToSlice(b, some(held.Targets)), compute.ToSlice(b, mean), compute.ToSlice(b, variance)}
	floats.AddConst(noise, p.variances)
	return p, nil
}
