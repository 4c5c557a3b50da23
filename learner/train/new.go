package train

import (
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/estimators/gp/kernels"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/learner/critic"
	"github.com/dbqpg/dbqpg/learner/optim"
	"github.com/dbqpg/dbqpg/sim"
)

// New returns the learner that valid settings describe, with first parameters drawn
// from their seed.
func New(b compute.Backend, s *config.Settings, task sim.Spec) *Learner {
	shape := policy.Shape{Observation: task.ObservationDim, Action: task.ActionDim, Hidden: s.Hidden}
	l := &Learner{
		Method: Method{
			Shape:          shape,
			Vanilla:        s.Algorithm == config.Vanilla,
			Bayesian:       s.Estimator != config.MonteCarlo,
			Aware:          s.Estimator == config.UAPG || s.Estimator == config.UBAC,
			ActorCritic:    s.Estimator == config.UBAC,
			Advantages:     s.Targets == config.GAE,
			Gamma:          s.Gamma,
			Lambda:         s.GAELambda,
			Bootstrap:      s.Bootstrap,
			Rank:           s.Rank,
			Inducing:       s.Inducing,
			Solver:         solver(s.Solver),
			ExactKernel:    s.FisherKernel == config.Exact,
			C1:             s.C1,
			C2:             s.C2,
			FisherSamples:  s.FisherSamples,
			AnalyticFisher: s.Fisher == config.Analytic,
			Randomized:     s.Covariance == config.Randomized,
			Epsilon:        s.Epsilon,
			Damping:        s.Damping,
		},
		Backend:   b,
		Params:    shape.Init(streams.New(s.Seed, streams.Policy)),
		Optimizer: optimizer(s, shape.NumParams()),
	}
	if l.Advantages || l.Bayesian {
		kind := critic.Kind{Base: baseKernel(s.BaseKernel), Noise: critic.NoiseLearned, RawFeatures: s.Features == config.Raw}
		if s.Preset == config.Paper {
			kind.Noise = critic.NoiseFixed
		}
		l.Critic = critic.New(shape.Observation, kind, streams.New(s.Seed, streams.Critic))
	}
	return l
}

// baseKernel is the kernel of a name that Validate has found good.
func baseKernel(name string) *kernels.Kernel {
	k, err := kernels.Lookup(name)
	if err != nil {
		panic("train: " + err.Error())
	}
	return k
}

func solver(name config.Solver) gp.Solver {
	if name == config.ConjugateGradient {
		return gp.Iterative{}
	}
	return gp.Direct{}
}

func optimizer(s *config.Settings, params int) optim.Algorithm {
	switch s.Algorithm {
	case config.Vanilla:
		return optim.NewVanillaPG(params, s.LearningRate)
	case config.NPG:
		return optim.NewNPG(params, s.LearningRate, s.Damping)
	default:
		return optim.TRPO{MaxKL: s.MaxKL, Damping: s.Damping}
	}
}
