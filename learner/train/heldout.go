package train

import (
	"math"
	"slices"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/internal/stats"
	"github.com/dbqpg/dbqpg/learner/critic"
	"github.com/dbqpg/dbqpg/learner/runs"
)

const (
	// validationFolds is the number of folds of episodes that the hyperparameters are learned from.
	validationFolds = 5
	// drift is how far, in its logarithm, a variance is expected to move from one batch to the next.
	drift = 1
	// featureSteps bounds the steps of the feature network in a batch, each of which takes a
	// little longer than the single one of --kernel-learning step.
	featureSteps = 3
)

// turns are, by iteration, the factors by which a batch may change the base kernel's hyperparameters; 1: it teaches the
// features instead.
var turns = []float64{1, gp.LengthscaleStep, 1 / gp.LengthscaleStep}

// HeldOut lets the likelihood of held-out episodes decide (docs/kernels.md). The
// variances are those that predict each fifth of the episodes best from the others, with the
// features that earlier batches taught, which have seen none of them, and which the estimate has.
// The base kernel's hyperparameters and the features have their turns. The features take steps for
// the next batch, up the marginal likelihood of nine tenths of the episodes for as long as the other
// tenth is predicted better. A single episode teaches nothing.
type HeldOut struct{}

// center subtracts the targets' mean. Their standard deviation is the unit of the process's own: its hyperparameters
// are those of standardised targets, while its gradient is in the targets' own units.
func (HeldOut) center(u *update) {
	mean, deviation := stats.MeanStdDev(compute.ToSlice(u.Backend, u.at.Targets))
	u.Backend.Affine(u.at.Targets, 1, u.at.Targets, 0, -mean)
	if deviation > 0 { // not all alike, nor one
		u.at.scale = deviation
	}
}

func (HeldOut) learn(u *update, embedding *critic.Evaluation, _ *estimators.Quadrature) (deferred, error) {
	at := u.at
	at.Features = u.s.New(at.Features.Rows, at.Features.Cols)
	compute.Copy(u.Backend, at.Features, embedding.Features())
	held := u.x.trajectories.HeldOut()
	if held == 0 {
		return nil, nil
	}
	data := gp.Data{Features: at.Features, Fisher: at.SVD.V, Targets: u.s.New(u.x.Current, 1)}
	u.Backend.Affine(data.Targets, 1/at.scale, at.Targets, 0, 0)
	kernel := u.kernel()
	kernel.Hyper = u.Critic.Hyper()
	turn := turns[u.row.Iteration%uint64(len(turns))]
	validation := gp.CrossValidation{Folds: u.x.trajectories.Folds(validationFolds), Drift: drift, Ratio: turn}
	learned, err := validation.Maximize(u.Backend, kernel, data)
	if err != nil {
		return nil, err
	}
	u.Critic.SetHyper(learned.Hyper)
	calibrateOn(learned, validation.Folds, compute.ToSlice(u.Backend, data.Targets), math.Log(at.scale), u.row)
	if turn != 1 || !u.Critic.Deep() {
		return nil, nil
	}
	kernel.Hyper = u.Critic.Hyper()
	return func() (func(*runs.Row), error) { return nil, u.learnFeatures(kernel, data, held) }, nil
}

// calibrate has no more to measure than the log likelihood: [HeldOut] learns from its predictions (calibrateOn).
func (HeldOut) calibrate(u *update, posterior gp.Posterior) error {
	likelihood, err := posterior.LogLikelihood()
	u.row.LogLikelihood = likelihood.Value
	return err
}

// learnFeatures takes steps up the likelihood of all samples but the first held ones, which judge
// each of them: the first step that does not raise their own likelihood is taken back.
func (u *update) learnFeatures(kernel gp.Kernel, data gp.Data, held int) error {
	n := u.x.Current
	kernel.C2 *= float64(n) / float64(n-held) // V belongs to all samples
	solver := gp.Direct{FisherGram: gp.FisherGram(u.Backend, data.Fisher.RowRange(held, n))}
	best, undo := math.Inf(-1), func() {}
	for step := range featureSteps + 1 {
		rises, err := func() (bool, error) {
			scope := compute.NewScope(u.Backend)
			defer scope.Release()
			embedding := u.Critic.Embed(scope, u.x.observations())
			data.Features = embedding.Features()
			posterior, err := solver.Fit(scope, kernel, data.RowRange(held, n))
			if err != nil {
				return false, err
			}
			predicted, err := predict(scope, posterior.(gp.Predictor), data.RowRange(0, held), kernel.Noise)
			likelihood := predicted.logLikelihood()
			if err != nil || !(likelihood > best) || step == featureSteps {
				return likelihood > best, err
			}
			best = likelihood
			gradient := scope.New(data.Features.Rows, data.Features.Cols)
			compute.Fill(u.Backend, gradient, 0)
			if _, err := posterior.Gradient(gradient.RowRange(held, n)); err != nil {
				return false, err
			}
			undo, err = u.Critic.TryFeatures(embedding, gradient)
			return true, err
		}()
		if err != nil {
			return err
		}
		if !rises {
			undo()
			break
		}
	}
	return nil
}

// calibrateOn measures the calibration on the predictions that the hyperparameters were learned from,
// of standardised targets (n), whose unit has a logarithm. What is compared with a fold's targets knows
// nothing of these: a Gaussian with the moments of the others, and intervals with the tails of the others. Beside them
// is the coverage of the process's own normal distributions.
func calibrateOn(learned gp.Validation, folds [][2]int, targets []float64, unit float64, row *runs.Row) {
	all := predictions(learned, targets, func(int) bool { return true })
	row.NormalCoverage50 = critic.Coverage(0.5, all.targets, all.means, all.variances)
	row.NormalCoverage90 = critic.Coverage(0.9, all.targets, all.means, all.variances)
	gaussian := prediction{}
	row.Coverage50, row.Coverage90 = 0, 0
	for _, f := range folds {
		held := func(i int) bool { return f[0] <= i && i < f[1] }
		of, others := predictions(learned, targets, held),
			predictions(learned, targets, func(i int) bool { return !held(i) })
		if len(of.targets) == 0 || len(others.targets) == 0 {
			continue
		}
		share := float64(len(of.targets)) / float64(len(all.targets))
		tails := critic.TailsOf(others.targets, others.means, others.variances)
		row.Coverage50 += share * tails.Coverage(0.5, of.targets, of.means, of.variances)
		row.Coverage90 += share * tails.Coverage(0.9, of.targets, of.means, of.variances)
		mean, deviation := stats.MeanStdDev(slices.Concat(targets[:f[0]], targets[f[1]:]))
		gaussian.targets = append(gaussian.targets, of.targets...)
		gaussian.means = append(gaussian.means, slices.Repeat([]float64{mean}, len(of.targets))...)
		gaussian.variances = append(gaussian.variances,
			slices.Repeat([]float64{deviation * deviation}, len(of.targets))...)
	}
	row.HeldOutLogLikelihood, row.GaussianLogLikelihood = learned.LogLikelihood-unit, gaussian.logLikelihood()-unit
	if nu := critic.TailsOf(all.targets, all.means, all.variances).Degrees; !math.IsInf(nu, 1) {
		row.NoiseDegrees = nu
	}
}

// predictions returns the predictions of those samples that are wanted, and their targets.
func predictions(learned gp.Validation, targets []float64, wanted func(sample int) bool) (p prediction) {
	for k, i := range learned.Points {
		if wanted(i) {
			p.targets = append(p.targets, targets[i])
			p.means = append(p.means, learned.Mean[k])
			p.variances = append(p.variances, learned.Variance[k])
		}
	}
	return p
}
