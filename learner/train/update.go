package train

import (
	"fmt"
	"slices"
	"time"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/learner/critic"
	"github.com/dbqpg/dbqpg/learner/optim"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// Learner is the state that an update changes: the policy, the critic, and their optimisers.
type Learner struct {
	Method
	Backend   compute.Backend
	Params    []float64       // the policy's, p
	Critic    *critic.Critic  // nil if neither its value head nor a kernel are needed
	Values    Values          // nil if the targets need none
	Optimizer optim.Algorithm // takes the policy steps
}

// Lap is told of each stage's duration; it may be nil.
type Lap func(stage string, took time.Duration)

// Update runs one iteration of the paper's Algorithm 1 on a collected batch: it takes a policy step and fills in the
// iteration's row.
func (l *Learner) Update(x Samples, s *compute.Scope, r Random, row *runs.Row, lap Lap) error {
	u := l.update(x, s, r, row, lap)
	if err := u.run(); err != nil {
		return err
	}
	return u.each(stage{"deferred", u.finish})
}

// update is one update.
type update struct {
	*Learner
	x         Samples
	s         *compute.Scope // of the update's blocks
	random    Random
	row       *runs.Row
	lap       Lap
	at        *Evaluation
	estimator estimators.Estimator
	estimate  *estimators.Estimate
	rest      *deferral // nil: the learner learns nothing for the next batch
}

func (l *Learner) update(x Samples, s *compute.Scope, r Random, row *runs.Row, lap Lap) *update {
	rest := &deferral{last: l.Backend.Distant()}
	return &update{Learner: l, x: x, s: s, random: r, row: row, lap: lap, rest: rest}
}

// run takes the policy step. Until finish has returned, deferred parts use the samples and the scope, and change the
// critic.
func (u *update) run() error {
	return u.each(
		stage{"scores", u.scores},               // U, G
		stage{"targets", u.targets},             // y, and a step on the value loss
		stage{"decomposition", u.decomposition}, // U = P S V'
		stage{"kernel step", u.kernelStep},      // phi and the hyperparameters
		stage{"estimate", u.integrate},          // g = U w, and its uncertainty
		stage{"calibration", u.calibration},     // how well the process predicts held-out episodes
		stage{"policy step", u.improve},         // VanillaPG, NPG or TRPO
	)
}

// finish waits for the deferred parts.
func (u *update) finish() error { return u.rest.wait(u.row) }

// stage is a part of an update.
type stage struct {
	name string
	run  func() error
}

// each runs stages up to the first that fails, whose error names it.
func (u *update) each(stages ...stage) error {
	for _, stage := range stages {
		start := time.Now()
		if err := stage.run(); err != nil {
			u.rest.abandon()
			return fmt.Errorf("%s: %w", stage.name, err)
		}
		if u.lap != nil {
			u.lap(stage.name, time.Since(start))
		}
	}
	return nil
}

func (u *update) scores() error {
	u.at = u.Evaluate(u.s, u.Params, u.x.Observations, u.x.Actions, u.x.Current)
	u.row.Entropy = u.at.policy.Entropy()
	return nil
}

func (u *update) targets() error {
	targets, later, err := u.Targets.of(u)
	if err != nil {
		return err
	}
	u.rest.add(later)
	u.at.Targets = u.s.FromSlice(len(targets), 1, targets)
	return nil
}

func (u *update) decomposition() error { return u.Decompose(u.s, u.at, u.random) }

// kernelStep learns the kernel and the features from the batch. Monte Carlo has nothing to learn.
func (u *update) kernelStep() error {
	if u.Quadrature == nil {
		u.estimator = estimators.MonteCarlo{Correction: u.correct(u.at, u.random)}
		return nil
	}
	scope := compute.NewScope(u.Backend)
	defer scope.Release()
	u.Quadrature.Process.center(u)
	embedding := u.Critic.Embed(scope, u.x.observations())
	u.at.Features = embedding.Features()
	quadrature, err := u.Estimator(u.s, u.at, u.kernel(), u.random)
	if err != nil {
		return err
	}
	later, err := u.Quadrature.Process.learn(u, embedding, quadrature)
	if err != nil {
		return err
	}
	u.rest.add(later)
	quadrature.Kernel, u.estimator = u.kernel(), quadrature
	row, hyper := u.row, u.Critic.Hyper()
	row.FisherRank, row.Lengthscale, row.Noise = float64(len(u.at.SVD.S)), u.Critic.Lengthscale(), hyper.Noise
	row.OutputScale, row.FisherVariance = hyper.OutputScale, hyper.FisherVariance
	return nil
}

// kernel returns the process's covariance at the critic's current hyperparameters.
func (u *update) kernel() gp.Kernel {
	k := gp.Kernel{Base: u.Critic.Base(), C1: u.Quadrature.C1, C2: u.Quadrature.C2, Hyper: u.Critic.Hyper()}
	square := u.at.scale * u.at.scale
	k.OutputScale *= square
	k.FisherVariance *= square
	k.Noise *= square
	return k
}

func (u *update) integrate() (err error) {
	u.estimate, err = u.estimator.Estimate(u.s, &u.at.Batch)
	return err
}

// calibration measures how well the process predicts. Learning does not depend on the result.
func (u *update) calibration() error {
	if u.Quadrature == nil {
		return nil
	}
	return u.Quadrature.Process.calibrate(u, u.estimate.Posterior)
}

// improve takes the policy step, and fills in its columns.
func (u *update) improve() error {
	before := slices.Clone(u.Params)
	report, err := u.Optimizer.Step(u.Params, u.objective(u.estimate))
	if err != nil {
		return err
	}
	row := u.row
	row.KL, row.GradientNorm = report.KL, report.GradientNorm
	row.StepNorm = floats.Distance(before, u.Params, 2)
	switch u.Optimizer.(type) {
	case *optim.TRPO:
		row.CGIterations, row.Backtracks = float64(report.Solve.Iterations), float64(report.Halvings)
	case optim.NPG:
		row.CGIterations = float64(report.Solve.Iterations)
	}
	return nil
}

// largeBatch is the number of samples above which [update.objective] judges a decomposition by how many samples there
// are to a parameter.
const largeBatch = 3000

// objective returns the objective of a policy step. U's truncated decomposition preconditions the natural gradient's
// solution, unless it is a sketch of a large batch with fewer than two samples per parameter: then it is too noisy to
// save iterations (Ant), or even costs some (HumanoidStandup). Of 2,000 samples and the rest of an episode it saves
// most of them (after a million steps 10 are as good as 50 without it on Hopper, and 15 better on HalfCheetah).
func (u *update) objective(e *estimators.Estimate) optim.Objective {
	at := u.at
	objective := optim.Objective{Policy: at.policy, Actions: u.x.actions(), Fisher: at.Fisher, Estimate: e, CG: u.CG,
		TargetVariance: u.row.TargetStd * u.row.TargetStd}
	if m := at.onAll.Samples(); m <= largeBatch || m >= 2*objective.Gradient.Rows {
		objective.SVD = at.SVD
	}
	return objective
}
