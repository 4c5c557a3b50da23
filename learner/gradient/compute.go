package gradient

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/nn"
	"github.com/dbqpg/dbqpg/internal/npz"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/learner/critic"
	"github.com/dbqpg/dbqpg/learner/gaussian"
)

// Compute answers all that it can about a batch, as arrays named expect_NAME.
func Compute(b compute.Backend, batch *Batch, options Options) (_ npz.Arrays, err error) {
	defer compute.Catch(&err)
	scope := compute.NewScope(b)
	defer scope.Release()
	c := &computation{Batch: batch, options: options, scope: scope, b: b, out: npz.Arrays{},
		random: streams.New(options.Seed)}
	if options.Preset == config.Paper {
		c.Kernel.Noise = critic.NoiseFloor
	}
	c.judge()
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"the scores' decomposition", c.decompose},
		{"the Gaussian process", c.condition},
		{"the policy gradients", c.estimate},
		{"the gradient's uncertainty", c.correct},
		{"the uncertainty's spectra", c.spectra},
	} {
		if err := step.run(); err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return c.out, nil
}

// computation is a batch on its way to its answers. The blocks live in scope.
type computation struct {
	*Batch
	options Options
	scope   *compute.Scope
	b       compute.Backend
	out     npz.Arrays
	random  *rand.Rand

	evaluation *critic.Evaluation
	policy     *gaussian.Policy
	scores     *linop.Scores
	svd        *linop.SVD
	posterior  gp.Posterior
	targets    compute.Block
	gradient   compute.Block // DBQPG's
	natural    compute.Block // the same, natural
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

// decompose finds the scores U and their leading singular triplets.
func (c *computation) decompose() (err error) {
	n := c.Samples()
	observations := c.scope.FromSlice(n, c.Shape.Observation, c.Observations)
	params := c.scope.FromSlice(len(c.Policy), 1, c.Policy)
	c.policy = gaussian.New(c.scope, c.Shape, params, observations)
	c.scores = c.policy.Scores(c.scope, c.scope.FromSlice(n, c.Shape.Action, c.Actions))
	if c.svd, err = linop.Decompose(c.scope, c.scores, c.Rank, c.random); err == nil {
		c.vector("singular_values", c.svd.S)
	}
	return err
}

// condition fits the Gaussian process and differentiates its likelihood.
func (c *computation) condition() error {
	n, features := c.Samples(), c.evaluation.Features()
	scaled, gradient := c.scope.New(n, features.Cols), c.scope.New(n, features.Cols)
	if _, err := gp.Scale(c.b, scaled, features); err != nil {
		return err
	}
	c.matrix("feature_scaled", scaled)
	c.targets = c.scope.FromSlice(n, 1, c.Targets)
	solver, err := c.solver()
	if err != nil {
		return err
	}
	data := gp.Data{Features: features, Fisher: c.svd.V, Targets: c.targets}
	if c.posterior, err = solver.Fit(c.scope, c.Kernel, data); err != nil {
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
	return c.moments(data.Points())
}

// solver is how the options solve with K.
func (c *computation) solver() (_ gp.Solver, err error) {
	if c.options.Solver != config.ConjugateGradient {
		return gp.Direct{}, nil
	}
	solver := gp.Iterative{Seed: c.options.Seed}
	if c.options.Kernel == config.Exact {
		solver.FisherKernel, err = c.fisherKernel()
	}
	return solver, err
}

// fisherKernel is U'G^-1 U by its products.
func (c *computation) fisherKernel() (*gp.FisherKernel, error) {
	g := gp.EmpiricalFisher(c.b, c.scores)
	if c.options.Fisher == config.Analytic {
		g = c.policy.Fisher(0)
	}
	return gp.ExactFisher{Seed: c.options.Seed}.Kernel(c.scope, c.scores, g, c.Damping)
}

// estimate computes the gradients by Monte Carlo and by DBQPG, plain and natural.
func (c *computation) estimate() error {
	p := len(c.Policy)
	monteCarlo, naturalMonteCarlo := c.scope.New(p, 1), c.scope.New(p, 1)
	c.gradient, c.natural = c.scope.New(p, 1), c.scope.New(p, 1)
	estimators.MonteCarlo(c.b, monteCarlo, c.scores, c.targets)
	estimators.DBQPG(c.b, c.gradient, c.scores, c.Kernel.C2, c.posterior.Alpha())
	if err := errors.Join(c.precondition(naturalMonteCarlo, monteCarlo), c.precondition(c.natural, c.gradient)); err != nil {
		return err
	}
	c.policyGradient("mc", monteCarlo)
	c.policyGradient("natural_mc", naturalMonteCarlo)
	c.policyGradient("dbqpg", c.gradient)
	c.policyGradient("natural_dbqpg", c.natural)
	return nil
}

// precondition solves G dst = g with the damped analytic Fisher matrix, closer than
// training does.
func (c *computation) precondition(dst, g compute.Block) error {
	scope := compute.NewScope(c.b)
	defer scope.Release()
	cg := linop.CG{MaxIterations: 1000, Tolerance: 1e-20,
		Preconditioner: c.svd.Preconditioner(scope, 1/float64(c.Samples()), c.Damping)}
	_, err := cg.Solve(c.b, c.policy.Fisher(c.Damping), dst, g)
	return err
}

// correct computes UAPG's and UBAC's gradients: as the options say, and by the closed
// form.
func (c *computation) correct() error {
	fisher, pairs := estimators.Fisher{Damping: c.Damping}, (*computation).projected
	if c.options.Fisher == config.Analytic {
		fisher.Matrix = c.policy.Fisher(0)
	}
	if c.options.Covariance == config.Randomized {
		pairs = (*computation).randomized
	}
	if err := c.corrected("", fisher, pairs); err != nil {
		return err
	}
	return c.corrected("_projected", estimators.Fisher{Damping: c.Damping}, (*computation).projected)
}

// corrected computes uapg_vanilla, uapg_natural and ubac with a suffix.
func (c *computation) corrected(suffix string, fisher estimators.Fisher, pairs func(*computation, *estimators.Uncertainty) (*estimators.Eigenpairs, error)) error {
	covariance, precision, err := c.uncertainties(fisher)
	if err != nil {
		return err
	}
	uncertain, err := pairs(c, covariance)
	if err != nil {
		return err
	}
	confident, err := pairs(c, precision)
	if err != nil {
		return err
	}
	x := c.scope.New(c.gradient.Rows, 1)
	compute.Copy(c.b, x, c.gradient)
	uncertain.Vanilla(c.b, x)
	c.policyGradient("uapg_vanilla"+suffix, x)
	compute.Copy(c.b, x, c.natural)
	confident.Natural(c.b, x, c.Epsilon)
	c.policyGradient("uapg_natural"+suffix, x)
	nu0, err := covariance.Largest(c.random)
	if err != nil {
		return err
	}
	compute.Copy(c.b, x, c.gradient)
	estimators.UBAC(c.b, x, covariance, nu0)
	c.policyGradient("ubac"+suffix, x)
	return nil
}

// uncertainties are the gradient's covariance and the natural gradient's precision.
func (c *computation) uncertainties(fisher estimators.Fisher) (covariance, precision *estimators.Uncertainty, err error) {
	if covariance, err = estimators.Covariance(c.b, fisher, c.svd, c.Kernel.C2, c.posterior); err != nil {
		return nil, nil, err
	}
	precision, err = estimators.NaturalPrecision(c.b, fisher, c.svd, c.Kernel.C2, c.posterior)
	return covariance, precision, err
}

func (c *computation) projected(u *estimators.Uncertainty) (*estimators.Eigenpairs, error) {
	return u.Projected(c.scope)
}

func (c *computation) randomized(u *estimators.Uncertainty) (*estimators.Eigenpairs, error) {
	return u.Randomized(c.scope, len(c.svd.S), 1, c.random)
}

// exactDepth is the depth of randomised decompositions that stand for exact ones.
const exactDepth = 5

// spectra computes the leading eigenvalues of the uncertainties with the analytic
// Fisher matrix, for small batches: each takes hundreds of products with it.
func (c *computation) spectra() error {
	if c.Samples() > linop.ExactSamples {
		return nil
	}
	fisher := estimators.Fisher{Matrix: c.policy.Fisher(0), Damping: c.Damping}
	covariance, precision, err := c.uncertainties(fisher)
	if err != nil {
		return err
	}
	for name, matrix := range map[string]*estimators.Uncertainty{"cov_spectrum": covariance, "natural_precision_spectrum": precision} {
		pairs, err := matrix.Randomized(c.scope, len(c.svd.S), exactDepth, streams.New(c.options.Seed))
		if err != nil {
			return err
		}
		c.vector(name, pairs.Values)
	}
	return nil
}

// policyGradient puts a p × 1 gradient as NAME_policy_w1, ..., NAME_policy_log_std.
func (c *computation) policyGradient(name string, g compute.Block) {
	flat := compute.ToSlice(c.b, g)
	mean := c.Shape.Mean()
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
