package critic

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/estimators/gp/kernels"
	"github.com/dbqpg/dbqpg/learner/optim"
	"github.com/dbqpg/dbqpg/learner/state"
)

const (
	// NoiseFloor is the smallest observation noise that can be learned: the noise is NoiseFloor +
	// softplus(raw), as in the authors' code.
	NoiseFloor   = 1e-4
	learningRate = 1e-4
	featureRate  = 1e-3 // of phi's steps that held-out episodes confirm
	headScale    = 0.1

	sharedHyper = 3 // hyperparameters that every process has: c_o, v, noise
)

// Kind describes the Gaussian process that a critic learns.
type Kind struct {
	Base *kernels.Kernel // the base kernel; nil means rbf
	// Noise and FisherVariance are fixed values of these hyperparameters; 0 means that they
	// are learned.
	Noise, FisherVariance float64
	// Converge makes the process learn from predictions of held-out episodes ([Critic.SetHyper],
	// [Critic.TryFeatures]) in place of [Critic.StepProcess].
	Converge bool
	// RawFeatures makes the process see the observations instead of phi(s): the base kernel
	// without deep kernel learning.
	RawFeatures bool
}

// Critic contains the feature network, the value head, the process's hyperparameters, and
// their optimisers' states.
type Critic struct {
	observed int
	kind     Kind
	params   []float64   // of Value(observed)
	raw      []float64   // of the base kernel's hyperparameters, c_o, v, noise, before the softplus
	value    *optim.Adam // of params
	// of phi's parameters, if the process sees phi, then of the elements of raw that take its steps
	process *optim.Adam
}

// New returns a critic for o observation dimensions with the authors' initial
// values: PyTorch's default for linear layers, the head's weights times 0.1, its
// bias 0, hyperparameters at softplus(0).
func New(o int, kind Kind, rng *rand.Rand) *Critic {
	if !(kind.Noise >= 0 && kind.FisherVariance >= 0) {
		panic(fmt.Sprintf("critic: noise %g and Fisher variance %g, want positive numbers, or 0 to learn them",
			kind.Noise, kind.FisherVariance))
	}
	if kind.Base == nil {
		kind.Base = kernels.Default()
	}
	c := &Critic{observed: o, kind: kind, params: Value(o).Init(rng)}
	c.raw = make([]float64, len(kind.Base.Hyperparameters())+sharedHyper)
	head := c.params[Features(o).NumParams():]
	for i := range head {
		head[i] *= headScale
	}
	head[len(head)-1] = 0
	c.value = optim.NewAdam(len(c.params), learningRate, optim.DefaultWeightDecay)
	c.process = optim.NewAdam(c.embedding()+len(c.learned()), learningRate, optim.DefaultWeightDecay)
	if kind.Converge {
		c.process = optim.NewAdam(c.embedding(), featureRate, optim.DefaultWeightDecay)
	}
	return c
}

// Deep reports whether the process sees phi, so that phi learns from it.
func (c *Critic) Deep() bool { return !c.kind.RawFeatures }

// embedding returns the number of leading params that the process learns: those of phi, or
// none.
func (c *Critic) embedding() int {
	if c.Deep() {
		return Features(c.observed).NumParams()
	}
	return 0
}

// learned returns the indices in raw of the learned hyperparameters.
func (c *Critic) learned() (indices []int) {
	for i := range c.raw {
		fixed := i == len(c.raw)-1 && c.kind.Noise > 0 || i == len(c.raw)-2 && c.kind.FisherVariance > 0
		if !fixed {
			indices = append(indices, i)
		}
	}
	return indices
}

// Base returns the process's base kernel.
func (c *Critic) Base() *kernels.Kernel { return c.kind.Base }

// Hyper returns the process's hyperparameters.
func (c *Critic) Hyper() gp.Hyper {
	positive := make([]float64, len(c.raw))
	for i, x := range c.raw {
		positive[i] = softplus(x)
	}
	own := len(positive) - sharedHyper
	h := gp.Hyper{Base: positive[:own:own], OutputScale: positive[own], FisherVariance: positive[own+1],
		Noise: NoiseFloor + positive[own+2]}
	if c.kind.FisherVariance > 0 {
		h.FisherVariance = c.kind.FisherVariance
	}
	if c.kind.Noise > 0 {
		h.Noise = c.kind.Noise
	}
	return h
}

// Lengthscale returns the base kernel's hyperparameter of that name, or NaN if it has none.
func (c *Critic) Lengthscale() float64 {
	if i := slices.Index(c.kind.Base.Hyperparameters(), "lengthscale"); i >= 0 {
		return softplus(c.raw[i])
	}
	return math.NaN()
}

// Evaluate runs the critic's networks on observations (n × o, normalised).
func (c *Critic) Evaluate(s *compute.Scope, observations compute.Block) *Evaluation {
	return Evaluate(s, c.params, observations)
}

// Embed is Evaluate restricted to the process's features; raw features need no
// network.
func (c *Critic) Embed(s *compute.Scope, observations compute.Block) *Evaluation {
	if !c.Deep() {
		return &Evaluation{backend: s.Backend(), features: observations}
	}
	return c.Evaluate(s, observations)
}

// StepValue takes one Adam step on the value loss, given an evaluation under the
// current parameters, and returns the loss before the step. An error is a
// [*optim.NotFiniteError] and leaves the critic unchanged.
func (c *Critic) StepValue(e *Evaluation, returns []float64) (loss float64, err error) {
	loss, gradient := e.lossGradient(returns)
	if err := optim.CheckFinite("gradient of the value loss", gradient); err != nil {
		return loss, err
	}
	c.value.Step(c.params, gradient)
	return loss, nil
}

// StepProcess takes one Adam step up the process's log marginal likelihood, given an
// evaluation (or embedding) under the current parameters and the likelihood's gradient
// in the features (n × 10; unused for raw features) and in the hyperparameters. An error
// is a [*optim.NotFiniteError] and leaves the critic unchanged.
func (c *Critic) StepProcess(e *Evaluation, features compute.Block, hyper gp.Hyper) error {
	var gradient []float64
	if c.Deep() {
		gradient = e.FeatureGradient(features)
	}
	slopes := append(slices.Clone(hyper.Base), hyper.OutputScale, hyper.FisherVariance, hyper.Noise)
	if len(slopes) != len(c.raw) {
		panic(fmt.Sprintf("critic: a gradient in %d hyperparameters of the base kernel %s, want %v",
			len(hyper.Base), c.kind.Base, c.kind.Base.Hyperparameters()))
	}
	phi := c.embedding()
	moved := slices.Clone(c.params[:phi])
	for _, i := range c.learned() {
		gradient = append(gradient, slopes[i]*sigmoid(c.raw[i]))
		moved = append(moved, c.raw[i])
	}
	floats.Scale(-1, gradient)
	if err := optim.CheckFinite("gradient of the marginal likelihood", gradient); err != nil {
		return err
	}
	c.process.Step(moved, gradient)
	copy(c.params, moved[:phi])
	for j, i := range c.learned() {
		c.raw[i] = moved[phi+j]
	}
	return nil
}

// SetHyper sets the process's hyperparameters, all of which must be learned.
func (c *Critic) SetHyper(h gp.Hyper) {
	positive := append(slices.Clone(h.Base), h.OutputScale, h.FisherVariance, h.Noise-NoiseFloor)
	if len(positive) != len(c.raw) || len(c.learned()) != len(c.raw) {
		panic(fmt.Sprintf("critic: %d hyperparameters of a process that learns %d of %d", len(positive),
			len(c.learned()), len(c.raw)))
	}
	for i, x := range positive {
		c.raw[i] = inverseSoftplus(x)
	}
}

// TryFeatures takes one Adam step of phi up the process's log likelihood, given an evaluation
// under the current parameters and the likelihood's gradient in the features (n × 10). undo
// takes the step back. An error is a [*optim.NotFiniteError] and leaves the critic unchanged.
func (c *Critic) TryFeatures(e *Evaluation, features compute.Block) (undo func(), err error) {
	gradient := e.FeatureGradient(features)
	floats.Scale(-1, gradient)
	if err := optim.CheckFinite("gradient of the likelihood", gradient); err != nil {
		return nil, err
	}
	phi := c.params[:c.embedding()]
	before, optimizer := slices.Clone(phi), c.process.Clone()
	c.process.Step(phi, gradient)
	return func() {
		copy(phi, before)
		c.process = optimizer
	}, nil
}

// softplus returns log(1 + exp(x)).
func softplus(x float64) float64 { return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

// leastPositive is the smallest hyperparameter that SetHyper tells from others.
const leastPositive = 1e-12

// inverseSoftplus returns the x whose softplus is y, for y above 0.
func inverseSoftplus(y float64) float64 {
	y = max(y, leastPositive)
	return y + math.Log(-math.Expm1(-y))
}

// sigmoid returns the derivative of softplus.
func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// Sizes returns the sizes of the network's layers.
func (c *Critic) Sizes() []int { return Value(c.observed).Sizes }

// Visit visits all that the critic has learned, and its optimisers.
func (c *Critic) Visit(v *state.Visitor) {
	c.Learned(v, true)
	v.Part("value", c.value.Visit)
	v.Part("process", c.process.Visit)
}

// Learned visits all that the critic has learned without the optimisers: the networks, and with hyper the process's
// hyperparameters.
func (c *Critic) Learned(v *state.Visitor, hyper bool) {
	v.Array("params", c.params)
	if hyper {
		v.Array("raw", c.raw)
	}
}
