package train

import (
	"math/rand/v2"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/estimators/gp/statekernel"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/learner/batched"
)

// Method describes how a batch becomes an estimate of the policy gradient.
type Method struct {
	Shape         policy.Shape
	Targets       Targets
	Fisher        FisherMatrix
	Damping       float64     // of the Fisher matrix
	FisherSamples float64     // that it is taken over, as a multiple of the gradient's; at least 1
	CG            linop.CG    // solves for natural gradients
	Quadrature    *Quadrature // nil: Monte Carlo
	Rank          int         // of the scores' decomposition, which quadrature and corrections need; 0: none

	Correction func(at *Evaluation, r Random) estimators.Correction // nil: none
}

// Quadrature holds the settings of [estimators.Quadrature]; the rest is learned or comes
// with the batch.
type Quadrature struct {
	C1, C2    float64 // weights of the state and the Fisher kernel
	Condition Condition
	Process   Process // how the process learns
}

// Random are the random streams of one update.
type Random struct {
	Sketch *rand.Rand // of the sketches and the inducing points
	Probe  *rand.Rand // of the vectors that estimate traces and determinants
}

// NewRandom returns the streams of the update from one batch of a run.
func NewRandom(seed, batch uint64) Random {
	return Random{Sketch: streams.New(seed, streams.Sketch, batch), Probe: streams.New(seed, streams.Probe, batch)}
}

// Evaluation is a policy evaluated on a batch, initially without targets and features.
// After the batch's n samples there may be more, m in all, used only for the Fisher
// matrix. Its blocks live in the scope it was made in.
type Evaluation struct {
	estimators.Batch
	scale     float64         // the unit of the process's standard deviations
	policy    *batched.Policy // on the n samples
	onAll     *batched.Policy // on the m
	allScores *linop.Scores   // p × m
}

// Evaluate runs the policy with all its parameters over m observations and actions, of
// which the first n are the batch, and keeps the factors of its scores U.
func (m *Method) Evaluate(s *compute.Scope, params []float64, observations, actions compute.Block, n int) *Evaluation {
	at := &Evaluation{scale: 1, onAll: batched.New(s, m.Shape, params, observations)}
	at.allScores = at.onAll.Scores(s, actions)
	at.policy = at.onAll.First(n)
	at.Scores = at.allScores.First(n)
	at.Fisher = m.Fisher(s.Backend(), at, m.Damping)
	return at
}

// ScoresAt returns the scores of q further samples in the batch's p parameters, given all of
// the policy's; see [batched.Policy.ScoresAt].
func (at *Evaluation) ScoresAt(s *compute.Scope, params []float64, observations, actions compute.Block) *linop.Scores {
	return at.policy.ScoresAt(s, params, observations, actions)
}

// Expand returns a direction in the p parameters of the scores as one in all of the
// policy's; see [batched.Policy].
func (at *Evaluation) Expand(direction compute.Block) []float64 {
	return at.policy.Expand(compute.ToSlice(at.policy.Backend(), direction))
}

// Direction allocates in s a direction in all of the policy's parameters as one in the p of the scores.
func (at *Evaluation) Direction(s *compute.Scope, direction []float64) compute.Block {
	return at.policy.Direction(s, make([]float64, len(direction)), direction)
}

// Decompose computes the truncated decomposition of U, exactly if that is cheap. Without a rank it
// does nothing.
func (m *Method) Decompose(s *compute.Scope, at *Evaluation, r Random) error {
	if m.Rank == 0 {
		return nil
	}
	svd, err := linop.Decompose(s, at.allScores, m.Rank, r.Sketch)
	if err != nil {
		return err
	}
	at.SVD = svd.First(s, at.policy.Samples())
	return nil
}

// Estimator returns the estimator of a batch that has its features, targets and
// decomposition. The hyperparameters are the process's; Monte Carlo has none.
func (m *Method) Estimator(s *compute.Scope, at *Evaluation, kernel gp.Kernel, r Random) (*estimators.Quadrature,
	error) {
	solver, integral, err := m.Quadrature.Condition(s, at, r)
	if err != nil {
		return nil, err
	}
	return &estimators.Quadrature{Kernel: kernel, Solver: solver, Integral: integral, Correction: m.correct(at, r)}, nil
}

// correct returns the correction of a batch's estimate, nil for none.
func (m *Method) correct(at *Evaluation, r Random) estimators.Correction {
	if m.Correction == nil {
		return nil
	}
	return m.Correction(at, r)
}

// FisherMatrix is which Fisher matrix a method uses throughout: [Empirical] or [Analytic].
type FisherMatrix func(b compute.Backend, at *Evaluation, damping float64) estimators.Fisher

// Empirical returns UU'/m (eqn:kernel_equations).
func Empirical(b compute.Backend, at *Evaluation, damping float64) estimators.Fisher {
	return estimators.EmpiricalFisher(b, at.allScores, damping)
}

// Analytic returns the expectation of uu' over the actions at the m observations.
func Analytic(_ compute.Backend, at *Evaluation, damping float64) estimators.Fisher {
	return estimators.NewFisher(at.onAll.Fisher(0), damping)
}

// Condition is how the Gaussian process of a batch is conditioned, and integrated.
type Condition func(s *compute.Scope, at *Evaluation, r Random) (gp.Solver, estimators.Integral, error)

// NewMethod returns the method that valid settings describe.
func NewMethod(s *config.Settings, shape policy.Shape) Method {
	m := Method{Shape: shape, Targets: Returns{Gamma: s.Gamma}, Fisher: Analytic, Damping: s.Damping,
		FisherSamples: s.FisherSamples,
		CG:            linop.CG{MaxIterations: s.CGIterations, Tolerance: s.CGTolerance * s.CGTolerance}}
	if s.Targets == config.GAE {
		m.Targets = Advantages{Gamma: s.Gamma, Lambda: s.GAELambda, Bootstrap: s.Bootstrap}
	}
	if s.Fisher == config.Empirical {
		m.Fisher = Empirical
	}
	if s.Estimator != config.MonteCarlo {
		m.Quadrature = &Quadrature{C1: s.C1, C2: s.C2, Condition: condition(*s), Process: Likelihood{}}
		if s.KernelLearning == config.Converge {
			m.Quadrature.Process = HeldOut{}
		}
		m.Rank, m.Correction = s.Rank, correction(*s)
	}
	return m
}

// condition returns the closed form, on the interpolation's grid or with inducing points in the state kernel; or the
// paper's conjugate gradients, with the products of the exact Fisher kernel K_f = U'(G + damping I)^-1 U if it is asked
// for.
func condition(s config.Settings) Condition {
	return func(scope *compute.Scope, at *Evaluation, r Random) (gp.Solver, estimators.Integral, error) {
		var integral estimators.Integral = estimators.PlainIntegral{}
		if s.Completion {
			integral = estimators.CompletedIntegral{}
		}
		switch {
		case s.FisherKernel == config.Exact:
			kernel, err := gp.ExactFisher{Seed: r.Probe.Uint64()}.Kernel(scope, at.Scores, at.Fisher.Matrix,
				at.Fisher.Damping)
			if err != nil {
				return nil, nil, err
			}
			integral = estimators.PlainIntegral{}
			// that of the damped kernel is known for the empirical G alone
			if s.Completion && s.Fisher == config.Empirical {
				integral = estimators.DampedIntegral{Kernel: kernel}
			}
			return gp.Iterative{Seed: r.Probe.Uint64(), FisherKernel: kernel}, integral, nil
		case s.Solver == config.ConjugateGradient:
			return gp.Iterative{Seed: r.Probe.Uint64()}, integral, nil
		}
		direct, err := gp.Direct{}, error(nil)
		if s.Inducing > 0 {
			direct.Inducing, err = statekernel.ChooseInducing(scope.Backend(), at.Features, s.Inducing, r.Sketch)
		}
		direct.FisherGram = gp.FisherGram(scope.Backend(), at.SVD.V)
		return direct, integral, err
	}
}

// correction returns UAPG's, of the gradient for VanillaPG, of the natural gradient for NPG and
// TRPO; or UBAC's, of the gradient.
func correction(s config.Settings) func(at *Evaluation, r Random) estimators.Correction {
	if s.Estimator != config.UAPG && s.Estimator != config.UBAC {
		return nil
	}
	return func(at *Evaluation, r Random) estimators.Correction {
		decompose := estimators.Decomposition(estimators.Projected)
		if s.Covariance == config.Randomized {
			decompose = estimators.Randomized(len(at.SVD.S), 1, r.Sketch)
		}
		switch {
		case s.Estimator == config.UBAC:
			return estimators.UBAC{Rand: r.Sketch}
		case s.Algorithm == config.Vanilla:
			return estimators.UAPG{Decompose: decompose}
		default:
			return estimators.NaturalUAPG{Epsilon: s.Epsilon, Decompose: decompose}
		}
	}
}
