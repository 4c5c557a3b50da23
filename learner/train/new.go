package train

import (
	"github.com/dbqpg/dbqpg/estimators/compute"
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
	shape := policy.ShapeOf(task, s.Hidden)
	l := &Learner{
		Method:    NewMethod(s, shape),
		Backend:   b,
		Params:    shape.Init(streams.New(s.Seed, streams.Policy), s.InitialStd.Of(task)),
		Optimizer: optimizer(s, shape.NumParams()),
	}
	if l.Quadrature != nil || s.Targets == config.GAE && s.ValueLearning != config.Converge {
		kind := critic.Kind{Base: baseKernel(s.BaseKernel), Noise: s.Noise, FisherVariance: s.FisherVariance,
			RawFeatures: s.Features == config.Raw,
			Converge:    l.Quadrature != nil && s.KernelLearning == config.Converge}
		l.Critic = critic.New(shape.Observation, kind, streams.New(s.Seed, streams.Critic))
	}
	if l.Critic != nil {
		l.Values = Head{l.Critic}
	}
	if s.Targets == config.GAE && s.ValueLearning == config.Converge {
		network := critic.NewValueFunction(shape.Observation, streams.New(s.Seed, streams.Value))
		l.Values = Network{network, s.ValueEpochs}
	}
	return l
}

// baseKernel returns the kernel with a name, which Validate has checked.
func baseKernel(name string) *kernels.Kernel {
	k, err := kernels.Lookup(name)
	if err != nil {
		panic("train: " + err.Error())
	}
	return k
}

func optimizer(s *config.Settings, params int) optim.Algorithm {
	switch s.Algorithm {
	case config.Vanilla:
		return optim.NewVanillaPG(params, s.LearningRate)
	case config.NPG:
		return optim.NewNPG(params, s.LearningRate)
	default:
		return &optim.TRPO{MaxKL: s.MaxKL, StdRate: s.StdRate, Adaptive: s.AdaptiveKL}
	}
}
