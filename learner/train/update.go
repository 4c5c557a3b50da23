package train

import (
	"fmt"
	"math/rand/v2"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/learner/critic"
	"github.com/dbqpg/dbqpg/learner/gaussian"
	"github.com/dbqpg/dbqpg/learner/optim"
	"github.com/dbqpg/dbqpg/learner/progress"
)

// Method says how a batch becomes a policy step.
type Method struct {
	Shape policy.Shape

	Vanilla     bool // the step follows the gradient, not the natural gradient
	Bayesian    bool // the gradient is a posterior mean, not a Monte-Carlo mean
	Aware       bool // and is corrected by its uncertainty
	ActorCritic bool // as UBAC does it, or else as UAPG does

	Advantages    bool // generalised advantages for targets, or else discounted returns
	Gamma, Lambda float64
	Bootstrap     bool // a time limit's end continues with the value of its last state

	Rank           int       // of the scores' decomposition
	Inducing       int       // samples that stand for all in the state kernel; 0: interpolation on a grid
	Solver         gp.Solver // of the kernel system
	ExactKernel    bool      // the Fisher kernel by exact products; Solver is then gp.Iterative
	C1, C2         float64
	FisherSamples  float64 // samples of the Fisher matrix, as a multiple of the gradient's; at least 1
	AnalyticFisher bool    // in the uncertainty, the exact Fisher matrix in place of the empirical one
	Randomized     bool    // the paper's randomised decomposition of the uncertainty
	Epsilon        float64 // bound on the natural correction's step lengthening
	Damping        float64 // of the Fisher matrix
}

// Learner is what an update changes: the policy, the critic, and their optimisers.
type Learner struct {
	Method
	Backend   compute.Backend
	Params    []float64       // the policy's, p
	Critic    *critic.Critic  // nil where neither advantages nor a kernel are needed
	Optimizer optim.Algorithm // takes the policy step
}

// update is one batch on its way to a policy step. The blocks live in scope.
type update struct {
	*Learner
	Samples
	scope *compute.Scope
	rng   *rand.Rand // of the sketches and the inducing points
	row   *progress.Row

	policy *gaussian.Policy
	scores *linop.Scores // U
	fisher struct {      // the same over all samples of the Fisher matrix
		policy *gaussian.Policy
		scores *linop.Scores
	}
	targets   compute.Block    // y, n × 1
	inducing  []int            // rows of the inducing points, chosen once an update; nil: none
	svd       *linop.SVD       // of U; nil for Monte Carlo
	svdGram   *mat.SymDense    // V'V of it
	exact     *gp.FisherKernel // nil where the decomposition stands for the Fisher kernel
	features  compute.Block    // of the posterior
	posterior gp.Posterior     // nil for Monte Carlo
	objective optim.Objective
}

// stages is the paper's Algorithm 1 after the batch is collected, and the policy
// step.
var stages = []struct {
	Name string
	run  func(*update) error
}{
	{"scores", (*update).evaluate},         // U: one forward, one backward pass
	{"targets", (*update).judge},           // action values y; a step on the value loss
	{"decomposition", (*update).decompose}, // U = P S V', for the Fisher kernel
	{"kernel step", (*update).learnKernel}, // a step on the marginal likelihood
	{"posterior", (*update).condition},     // alpha = (K + noise I)^-1 y
	{"calibration", (*update).calibrate},   // how good a critic that is
	{"gradient", (*update).estimate},       // U alpha, and its uncertainty
	{"policy step", (*update).step},        // VanillaPG, NPG or TRPO
}

// Update takes the step that a batch calls for and fills in its row. rng draws the
// sketches and the inducing points; lap, where not nil, hears how long each stage took.
func (l *Learner) Update(x Samples, scope *compute.Scope, rng *rand.Rand, row *progress.Row, lap func(stage string, took time.Duration)) error {
	u := &update{Learner: l, Samples: x, scope: scope, rng: rng, row: row}
	for _, stage := range stages {
		start := time.Now()
		if err := stage.run(u); err != nil {
			return fmt.Errorf("%s: %w", stage.Name, err)
		}
		if lap != nil {
			lap(stage.Name, time.Since(start))
		}
	}
	return nil
}

// evaluate runs the policy over the batch and keeps the scores' factors.
func (u *update) evaluate() error {
	params := u.scope.FromSlice(len(u.Params), 1, u.Params)
	u.fisher.policy = gaussian.New(u.scope, u.Shape, params, u.Samples.fisher.observations)
	u.fisher.scores = u.fisher.policy.Scores(u.scope, u.Samples.fisher.actions)
	u.policy, u.scores = u.fisher.policy.First(u.size()), u.fisher.scores.First(u.size())
	u.row.Entropy = u.policy.Entropy()
	return nil
}

// judge turns the rewards into targets.
func (u *update) judge() (err error) {
	var targets []float64
	if u.Advantages {
		targets, err = u.advantages()
	} else {
		targets = u.trajectories.Returns(u.Gamma)
	}
	if err != nil {
		return err
	}
	u.row.TargetStd = deviation(targets)
	if u.Advantages {
		critic.Standardize(targets)
	}
	u.targets = u.scope.FromSlice(u.size(), 1, targets)
	return nil
}

// advantages come from the values before the value step, which it takes then, as in
// the authors' code.
func (u *update) advantages() ([]float64, error) {
	if u.Bootstrap {
		u.trajectories.Bootstrap = u.continuations()
	}
	evaluation := u.Critic.Evaluate(u.scope, u.observations)
	values, returns := evaluation.Values(), u.trajectories.Returns(u.Gamma)
	loss, err := u.Critic.StepValue(evaluation, returns)
	u.row.ValueLoss, u.row.ExplainedVariance = loss, critic.ExplainedVariance(values, returns)
	return u.trajectories.Advantages(values, u.Gamma, u.Lambda), err
}

// continuations are the values of the states after the episodes' ends: 0 where the
// task ended them.
func (u *update) continuations() []float64 {
	scope := compute.NewScope(u.Backend)
	defer scope.Release()
	final := scope.FromSlice(len(u.terminated), u.Shape.Observation, u.final)
	values := u.Critic.Evaluate(scope, final).Values()
	for i, terminated := range u.terminated {
		if terminated {
			values[i] = 0
		}
	}
	return values
}

// decompose finds the leading part of U, exactly where that is cheap.
func (u *update) decompose() error {
	if !u.Bayesian {
		return nil
	}
	svd, err := linop.Decompose(u.scope, u.fisher.scores, u.Rank, u.rng)
	if err != nil {
		return err
	}
	u.svd = svd.First(u.scope, u.size())
	u.svdGram = gp.FisherGram(u.Backend, u.svd.V)
	u.row.FisherRank = float64(len(u.svd.S))
	if u.ExactKernel {
		u.exact, err = u.fisherKernel()
	}
	return err
}

// fisherKernel is K_f = U'G^-1 U by its products, with the damped Fisher matrix.
func (u *update) fisherKernel() (*gp.FisherKernel, error) {
	g := gp.EmpiricalFisher(u.Backend, u.fisher.scores)
	if u.AnalyticFisher {
		g = u.fisher.policy.Fisher(0)
	}
	return gp.ExactFisher{}.Kernel(u.scope, u.scores, g, u.Damping)
}

// kernel is the process's covariance at the critic's current hyperparameters.
func (u *update) kernel() gp.Kernel {
	return gp.Kernel{Base: u.Critic.Base(), C1: u.C1, C2: u.C2, Hyper: u.Critic.Hyper()}
}

// learnKernel takes one step up the marginal likelihood of the targets (eqn:GP_nll).
func (u *update) learnKernel() error {
	if !u.Bayesian {
		return nil
	}
	scope := compute.NewScope(u.Backend)
	defer scope.Release()
	evaluation := u.Critic.Embed(scope, u.observations)
	posterior, err := u.fit(scope, evaluation)
	if err != nil {
		return err
	}
	likelihood, err := posterior.LogLikelihood()
	if err != nil {
		return err
	}
	u.row.LogLikelihood = likelihood.Value
	var features compute.Block // stays the zero Block where none learn
	if u.Critic.Deep() {
		features = scope.New(u.size(), evaluation.Features().Cols)
	}
	hyper, err := posterior.Gradient(features)
	if err != nil {
		return err
	}
	return u.Critic.StepProcess(evaluation, features, hyper)
}

// condition fits the process with the kernel just learned.
func (u *update) condition() (err error) {
	if !u.Bayesian {
		return nil
	}
	evaluation := u.Critic.Embed(u.scope, u.observations)
	u.features = evaluation.Features()
	u.posterior, err = u.fit(u.scope, evaluation)
	hyper := u.Critic.Hyper()
	u.row.Noise, u.row.Lengthscale = hyper.Noise, u.Critic.Lengthscale()
	u.row.OutputScale, u.row.FisherVariance = hyper.OutputScale, hyper.FisherVariance
	return err
}

func (u *update) fit(s *compute.Scope, e *critic.Evaluation) (_ gp.Posterior, err error) {
	if u.Inducing > 0 && u.inducing == nil {
		if u.inducing, err = gp.ChooseInducing(u.Backend, e.Features(), u.Inducing, u.rng); err != nil {
			return nil, err
		}
	}
	solver := u.Solver
	switch s := solver.(type) {
	case gp.Direct:
		s.Inducing, s.FisherGram = u.inducing, u.svdGram
		solver = s
	case gp.Iterative:
		s.FisherKernel = u.exact
		solver = s
	}
	return solver.Fit(s, u.kernel(), gp.Data{Features: e.Features(), Fisher: u.svd.V, Targets: u.targets})
}

// estimate computes the gradient U w and, for UAPG, its correction. U's leading part
// preconditions the natural gradient's solution, unless it is a sketch of fewer than
// two samples a parameter: then it is too noisy to save an iteration (Ant), or costs
// some (HumanoidStandup).
func (u *update) estimate() (err error) {
	weights, gradient := u.scope.New(u.size(), 1), u.scope.New(len(u.Params), 1)
	u.objective = optim.Objective{Policy: u.policy, Fisher: u.fisher.policy, Actions: u.actions, Weights: weights, Gradient: gradient}
	if m := u.fisher.policy.Samples(); m <= linop.ExactSamples || m >= 2*len(u.Params) {
		u.objective.SVD = u.svd
	}
	if !u.Bayesian {
		u.Backend.Affine(weights, 1/float64(u.size()), u.targets, 0, 0)
		estimators.MonteCarlo(u.Backend, gradient, u.scores, u.targets)
		return nil
	}
	u.Backend.Affine(weights, u.C2, u.posterior.Alpha(), 0, 0)
	estimators.DBQPG(u.Backend, gradient, u.scores, u.C2, u.posterior.Alpha())
	if u.Aware {
		u.objective.Correct, err = u.correction()
	}
	return err
}

// correction is UAPG's, of the gradient for VanillaPG, of the natural gradient for
// NPG and TRPO; or UBAC's, of the gradient.
func (u *update) correction() (func(compute.Block), error) {
	fisher := estimators.Fisher{Damping: u.Damping}
	if u.AnalyticFisher {
		fisher.Matrix = u.fisher.policy.Fisher(0)
	}
	moments := estimators.NaturalPrecision
	if u.Vanilla {
		moments = estimators.Covariance
	}
	uncertainty, err := moments(u.Backend, fisher, u.svd, u.C2, u.posterior)
	if err != nil {
		return nil, err
	}
	if u.ActorCritic {
		nu0, err := uncertainty.Largest(u.rng)
		return func(g compute.Block) { estimators.UBAC(u.Backend, g, uncertainty, nu0) }, err
	}
	pairs, err := u.eigenpairs(uncertainty)
	if err != nil {
		return nil, err
	}
	if u.Vanilla {
		return func(g compute.Block) { pairs.Vanilla(u.Backend, g) }, nil
	}
	return func(d compute.Block) { pairs.Natural(u.Backend, d, u.Epsilon) }, nil
}

func (u *update) eigenpairs(uncertainty *estimators.Uncertainty) (*estimators.Eigenpairs, error) {
	if u.Randomized {
		return uncertainty.Randomized(u.scope, len(u.svd.S), 1, u.rng)
	}
	return uncertainty.Projected(u.scope)
}

// step moves the policy.
func (u *update) step() error {
	before := append([]float64(nil), u.Params...)
	report, err := u.Optimizer.Step(u.Params, u.objective)
	if err != nil {
		return err
	}
	u.row.KL, u.row.GradientNorm = report.KL, report.GradientNorm
	if !u.Vanilla {
		u.row.CGIterations = float64(report.Solve.Iterations)
	}
	if _, searches := u.Optimizer.(optim.TRPO); searches {
		u.row.Backtracks = float64(report.Halvings)
	}
	u.row.StepNorm = distance(before, u.Params)
	return nil
}
