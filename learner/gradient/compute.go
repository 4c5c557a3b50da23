package gradient

import (
	"errors"
	"fmt"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/estimators/gp/statekernel"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/nn"
	"github.com/dbqpg/dbqpg/internal/npz"
	"github.com/dbqpg/dbqpg/learner/critic"
	"github.com/dbqpg/dbqpg/learner/train"
)

// Compute returns all its answers for a batch, as arrays named expect_NAME, using the code that trains.
func Compute(b compute.Backend, batch *Batch, options Options) (_ npz.Arrays, err error) {
	defer compute.Catch(&err)
	scope := compute.NewScope(b)
	defer scope.Release()
	c := newComputation(scope, batch, options)
	if err := c.run(); err != nil {
		return nil, err
	}
	return c.out, nil
}

func newComputation(scope *compute.Scope, batch *Batch, options Options) *computation {
	c := &computation{Batch: batch, options: options, scope: scope, b: scope.Backend(), out: npz.Arrays{},
		random: train.NewRandom(options.Seed, 0)}
	if options.Noise > 0 {
		c.Kernel.Noise = options.Noise
	}
	c.settings.Hyperparameters = config.Hyperparameters{Estimator: config.DBQPG, Rank: batch.Rank, C1: c.Kernel.C1,
		C2: c.Kernel.C2, Damping: batch.Damping, Solver: options.Solver, FisherKernel: options.FisherKernel,
		Fisher: options.Fisher}
	return c
}

// run computes the answers.
func (c *computation) run() error {
	c.judge()
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"the scores' decomposition", c.decompose},
		{"the Gaussian process", c.condition},
		{"the policy gradients", c.estimate},
	} {
		if err := step.run(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// computation is the computation of a batch's answers. The blocks live in scope.
type computation struct {
	*Batch
	options  Options
	settings config.Settings // of the method
	scope    *compute.Scope
	b        compute.Backend
	out      npz.Arrays
	random   train.Random

	evaluation *critic.Evaluation
	at         *train.Evaluation // the policy on the batch
	posterior  gp.Posterior
}

// judge computes returns, values and advantages.
func (c *computation) judge() {
	n, o := c.Samples(), c.Shape.Observation
	c.evaluation = critic.Evaluate(c.scope, c.Critic, c.scope.FromSlice(n, o, c.Observations))
	values := c.evaluation.Values()
	c.vector("returns", c.Trajectories.Returns(c.Gamma))
	c.vector("values", values)
	c.vector("gae", c.Trajectories.Advantages(values, c.Gamma, c.Lambda))
}

// method returns the method of the options, with the kernel completed or not.
func (c *computation) method(completion bool) *train.Method {
	settings := c.settings
	settings.Completion = completion
	m := train.NewMethod(&settings, c.Shape)
	return &m
}

// Evaluate runs the batch's policy and feature network, in s: all that the method's estimator needs but the
// decomposition.
func (b *Batch) Evaluate(s *compute.Scope, m *train.Method) *train.Evaluation {
	n := b.Samples()
	observations := s.FromSlice(n, b.Shape.Observation, b.Observations)
	at := m.Evaluate(s, b.Policy, observations, s.FromSlice(n, b.Shape.Action, b.Actions), n)
	at.Features, at.Targets = critic.Evaluate(s, b.Critic, observations).Features(), s.FromSlice(n, 1, b.Targets)
	return at
}

// decompose finds the scores U and their leading singular triplets.
func (c *computation) decompose() error {
	m := c.method(false)
	c.at = c.Evaluate(c.scope, m)
	if err := m.Decompose(c.scope, c.at, c.random); err != nil {
		return err
	}
	c.vector("singular_values", c.at.SVD.S)
	return nil
}

// condition fits the Gaussian process and differentiates its likelihood.
func (c *computation) condition() error {
	features := c.at.Features
	scaled, gradient := c.scope.New(features.Rows, features.Cols), c.scope.New(features.Rows, features.Cols)
	if _, err := statekernel.Scale(c.b, scaled, features); err != nil {
		return err
	}
	c.matrix("feature_scaled", scaled)
	quadrature, err := c.method(false).Estimator(c.scope, c.at, c.Kernel, c.random)
	if err != nil {
		return err
	}
	if c.posterior, err = quadrature.Condition(c.scope, &c.at.Batch); err != nil {
		return err
	}
	likelihood, err := c.posterior.LogLikelihood()
	if err != nil {
		return err
	}
	hyper, err := c.posterior.Gradient(gradient)
	if err != nil {
		return err
	}
	c.column("alpha", c.posterior.Alpha())
	c.scalar("mll", likelihood.Value)
	if c.options.Solver == config.ConjugateGradient {
		c.scalar("mll_std_err", likelihood.StdErr)
	}
	c.scalar("mll_grad_lengthscale", hyper.Base[0])
	c.scalar("mll_grad_outputscale", hyper.OutputScale)
	c.scalar("mll_grad_fisher_variance", hyper.FisherVariance)
	c.scalar("mll_grad_noise", hyper.Noise)
	c.network("mll_grad_feature", critic.Features(c.Shape.Observation), c.evaluation.FeatureGradient(gradient))
	return c.moments(gp.Points{Features: features, Fisher: c.at.SVD.V})
}

// estimate computes the gradients by Monte Carlo, and by quadrature with every correction: as the options say, with the
// kernel completed, and with the corrections in closed form.
func (c *computation) estimate() error {
	monteCarlo, err := estimators.MonteCarlo{}.Estimate(c.scope, &c.at.Batch)
	if err != nil {
		return err
	}
	natural, err := c.natural(c.at.Fisher, monteCarlo.Gradient)
	if err != nil {
		return err
	}
	c.policyGradient("mc", monteCarlo.Gradient)
	c.policyGradient("natural_mc", natural)

	decompose := estimators.Decomposition(estimators.Projected)
	if c.options.Covariance == config.Randomized {
		decompose = estimators.Randomized(len(c.at.SVD.S), 1, c.random.Sketch)
	}
	closed := c.at.Batch // corrects the natural gradient of the analytic matrix
	closed.Fisher = train.Empirical(c.b, c.at, c.Damping)
	return errors.Join(
		c.quadrature("", false, &c.at.Batch, decompose),
		c.quadrature("_completed", true, &c.at.Batch, decompose),
		c.quadrature("_projected", false, &closed, estimators.Projected))
}

// quadrature computes dbqpg, uapg_vanilla, uapg_natural and ubac with a suffix. batch is the batch with the Fisher
// matrix of the uncertainty.
func (c *computation) quadrature(suffix string, completion bool, batch *estimators.Batch,
	decompose estimators.Decomposition) error {
	q, err := c.method(completion).Estimator(c.scope, c.at, c.Kernel, c.random)
	if err != nil {
		return err
	}
	plain, err := q.Integrate(c.scope, batch, c.posterior)
	if err != nil {
		return err
	}
	fisher := c.at.Fisher
	if batch != &c.at.Batch {
		fisher = train.Analytic(c.b, c.at, c.Damping)
	}
	natural, err := c.natural(fisher, plain.Gradient)
	if err != nil {
		return err
	}
	if batch == &c.at.Batch {
		c.policyGradient("dbqpg"+suffix, plain.Gradient)
		c.policyGradient("natural_dbqpg"+suffix, natural)
	}
	for _, corrected := range []struct {
		name       string
		direction  compute.Block
		correction estimators.Correction
	}{
		{"uapg_vanilla", plain.Gradient, estimators.UAPG{Decompose: decompose}},
		{"uapg_natural", natural, estimators.NaturalUAPG{Epsilon: c.Epsilon, Decompose: decompose}},
		{"ubac", plain.Gradient, estimators.UBAC{Rand: c.random.Sketch}},
	} {
		correct, err := corrected.correction.Of(c.scope, plain)
		if err != nil {
			return fmt.Errorf("%s: %w", corrected.name, err)
		}
		x := c.scope.New(corrected.direction.Rows, 1)
		compute.Copy(c.b, x, corrected.direction)
		correct(x)
		c.policyGradient(corrected.name+suffix, x)
	}
	return nil
}

// natural solves G d = g with the damped Fisher matrix, to a smaller tolerance than in training.
func (c *computation) natural(fisher estimators.Fisher, g compute.Block) (compute.Block, error) {
	scope, d := compute.NewScope(c.b), c.scope.New(g.Rows, 1)
	defer scope.Release()
	cg := linop.CG{MaxIterations: 1000, Tolerance: 1e-20,
		Preconditioner: c.at.SVD.Preconditioner(scope, 1/float64(c.Samples()), c.Damping)}
	_, err := cg.Solve(c.b, fisher.Metric(c.b), d, g)
	return d, err
}

// policyGradient puts a p × 1 gradient as NAME_policy_w1, ..., NAME_policy_log_std.
func (c *computation) policyGradient(name string, g compute.Block) {
	flat := c.at.Expand(g)
	mean := c.Shape.Network()
	c.network(name+"_policy", mean, flat)
	c.vector(name+"_policy_log_std", flat[mean.NumParams():])
}

// network puts flat parameters as NAME_w1, NAME_b1, ...
func (c *computation) network(name string, m nn.MLP, flat []float64) {
	for i, layer := range m.Layers() {
		c.out[fmt.Sprintf("expect_%s_w%d", name, i+1)] = npz.Of(flat[layer.Weights:layer.Bias], layer.Out, layer.In)
		c.out[fmt.Sprintf("expect_%s_b%d", name, i+1)] = npz.Of(flat[layer.Bias:layer.End()], layer.Out)
	}
}

func (c *computation) scalar(name string, x float64) { c.out["expect_"+name] = npz.Scalar(x) }

func (c *computation) vector(name string, x []float64) { c.out["expect_"+name] = npz.Of(x, len(x)) }

func (c *computation) column(name string, x compute.Block) {
	c.vector(name, compute.ToSlice(c.b, x))
}

func (c *computation) matrix(name string, x compute.Block) {
	c.out["expect_"+name] = npz.Of(compute.ToSlice(c.b, x), x.Rows, x.Cols)
}

// moments computes the process's mean and variance of V, A and Q at the batch's points
// and at the queries.
func (c *computation) moments(batch gp.Points) error {
	if err := c.predict("", batch); err != nil {
		return err
	}
	if c.Queries() == 0 {
		return nil
	}
	return c.predict("query_", c.queries())
}

// queries returns the further points as the process sees them.
func (c *computation) queries() gp.Points {
	m := c.Queries()
	observations := c.scope.FromSlice(m, c.Shape.Observation, c.QueryObservations)
	scores := c.at.ScoresAt(c.scope, c.Policy, observations, c.scope.FromSlice(m, c.Shape.Action, c.QueryActions))
	return gp.Points{
		Features: critic.Evaluate(c.scope, c.Critic, observations).Features(),
		Fisher:   c.at.SVD.Rows(c.scope, scores),
	}
}

// smallBatch is the largest batch whose variances conjugate gradients compute, each of which takes a solution.
const smallBatch = 2000

// predict puts prefix{v,a,q}_{mean,var}.
func (c *computation) predict(prefix string, at gp.Points) error {
	posterior, ok := c.posterior.(gp.Predictor)
	if !ok {
		return nil
	}
	m := at.Features.Rows
	mean, variance := c.scope.New(m, 1), c.scope.New(m, 1)
	if c.options.Solver == config.ConjugateGradient && m > smallBatch {
		variance = compute.Block{}
	}
	for _, part := range []struct {
		name string
		part gp.Part
	}{{"v", gp.Value}, {"a", gp.Advantage}, {"q", gp.ActionValue}} {
		if err := posterior.Predict(part.part, at, mean, variance); errors.Is(err, gp.ErrExactFisherKernel) {
			continue
		} else if err != nil {
			return err
		}
		c.column(prefix+part.name+"_mean", mean)
		if variance.Rows > 0 {
			c.column(prefix+part.name+"_var", variance)
		}
	}
	return nil
}
