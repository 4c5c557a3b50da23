package train

import (
	"fmt"
	"time"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/learner/critic"
	"github.com/dbqpg/dbqpg/learner/optim"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// Learner is what an update changes: the policy, the critic, and their optimisers.
type Learner struct {
	Method
	Backend   compute.Backend
	Params    []float64             // the policy's, p
	Critic    *critic.Critic        // nil if neither its value head nor a kernel are needed
	Value     *critic.ValueFunction // in place of the critic's value head; nil: that one
	Optimizer optim.Algorithm       // takes the policy steps
}

// Update runs one iteration of the paper's Algorithm 1 on a collected batch: it takes a policy step and fills in the
// iteration's row. lap, if non-nil, is called with each stage's duration.
func (l *Learner) Update(x Samples, s *compute.Scope, r Random, row *runs.Row,
	lap func(stage string, took time.Duration)) error {
	rest, err := l.step(x, s, r, row, lap)
	if err != nil {
		return err
	}
	return stages(lap)("deferred", rest.wait())
}

// step is Update without the deferred parts' end: until they are done, they use x and s, change the critic, and fill in
// the row's columns of their own.
func (l *Learner) step(x Samples, s *compute.Scope, r Random, row *runs.Row,
	lap func(stage string, took time.Duration)) (_ *deferral, err error) {
	stage, rest := stages(lap), &deferral{last: l.Backend.Distant()}
	defer func() {
		if err != nil {
			rest.abandon()
		}
	}()
	at := l.Evaluate(s, l.Params, x.fisher.observations, x.fisher.actions, x.size()) // U, G
	row.Entropy = at.policy.Entropy()
	if err := stage("scores", nil); err != nil {
		return nil, err
	}
	targets, later, err := l.Targets.of(l, x, row) // y, and a step on the value loss
	if err := stage("targets", err); err != nil {
		return nil, err
	}
	rest.add(later)
	at.Targets, at.variance = s.FromSlice(x.size(), 1, targets), row.TargetStd*row.TargetStd
	err = l.Decompose(s, at, r) // U = P S V'
	if err := stage("decomposition", err); err != nil {
		return nil, err
	}
	estimator, later, err := l.learnKernel(s, at, x, r, row) // a step on the marginal likelihood
	if err := stage("kernel step", err); err != nil {
		return nil, err
	}
	rest.add(later)
	estimate, err := estimator.Estimate(s, &at.Batch) // U w, and its uncertainty
	if err := stage("estimate", err); err != nil {
		return nil, err
	}
	err = l.calibrate(at, x, estimate.Posterior, row) // how well the process predicts held-out episodes
	if err := stage("calibration", err); err != nil {
		return nil, err
	}
	return rest, stage("policy step", l.improve(at, x, estimate, row)) // VanillaPG, NPG or TRPO
}

// stages returns a function that ends a stage: it calls lap with the stage's duration, or
// names the stage in its error.
func stages(lap func(stage string, took time.Duration)) func(name string, err error) error {
	start := time.Now()
	return func(name string, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if lap != nil {
			lap(name, time.Since(start))
		}
		start = time.Now()
		return nil
	}
}

// learnKernel learns the kernel and the features from the batch, and returns the estimator that
// has them, and what is left to learn for the next batch. Monte Carlo has nothing to learn.
func (l *Learner) learnKernel(s *compute.Scope, at *Evaluation, x Samples, r Random,
	row *runs.Row) (estimators.Estimator, deferred, error) {
	if l.Quadrature == nil {
		return estimators.MonteCarlo{Correction: l.correct(at, r)}, nil, nil
	}
	scope := compute.NewScope(l.Backend)
	defer scope.Release()
	l.center(at)
	embedding := l.Critic.Embed(scope, x.observations)
	at.Features = embedding.Features()
	quadrature, err := l.Estimator(s, at, l.kernel(at), r)
	if err != nil {
		return nil, nil, err
	}
	learn := l.stepProcess
	if l.Quadrature.Converge {
		learn = l.learnFromHeldOut
	}
	later, err := learn(s, at, x, embedding, quadrature, row)
	if err != nil {
		return nil, nil, err
	}
	quadrature.Kernel = l.kernel(at)
	hyper := l.Critic.Hyper()
	row.FisherRank, row.Lengthscale, row.Noise = float64(len(at.SVD.S)), l.Critic.Lengthscale(), hyper.Noise
	row.OutputScale, row.FisherVariance = hyper.OutputScale, hyper.FisherVariance
	return quadrature, later, nil
}

// stepProcess takes one step up the marginal likelihood of the targets (eqn:GP_nll), and sets the
// features, in s, to those after it.
func (l *Learner) stepProcess(s *compute.Scope, at *Evaluation, x Samples, embedding *critic.Evaluation,
	quadrature *estimators.Quadrature, row *runs.Row) (deferred, error) {
	scope := compute.NewScope(l.Backend)
	defer scope.Release()
	posterior, err := quadrature.Condition(scope, &at.Batch)
	if err != nil {
		return nil, err
	}
	likelihood, err := posterior.LogLikelihood()
	if err != nil {
		return nil, err
	}
	row.LogLikelihood = likelihood.Value
	var features compute.Block // remains the zero Block if no features are learned
	if l.Critic.Deep() {
		features = scope.New(at.Features.Rows, at.Features.Cols)
	}
	hyper, err := posterior.Gradient(features)
	if err != nil {
		return nil, err
	}
	if err := l.Critic.StepProcess(embedding, features, hyper); err != nil {
		return nil, err
	}
	at.Features = l.Critic.Embed(s, x.observations).Features()
	return nil, nil
}

// kernel returns the process's covariance at the critic's current hyperparameters.
func (l *Learner) kernel(at *Evaluation) gp.Kernel {
	k := gp.Kernel{Base: l.Critic.Base(), C1: l.Quadrature.C1, C2: l.Quadrature.C2, Hyper: l.Critic.Hyper()}
	if l.Quadrature.Converge { // they are those of standardised targets
		k.OutputScale *= at.scale * at.scale
		k.FisherVariance *= at.scale * at.scale
		k.Noise *= at.scale * at.scale
	}
	return k
}
