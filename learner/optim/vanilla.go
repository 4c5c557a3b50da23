package optim

import (
	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// VanillaPG ascends the policy gradient with Adam, whose state is its own.
type VanillaPG struct{ *Adam }

// NewVanillaPG returns the algorithm for n policy parameters.
func NewVanillaPG(n int, learningRate float64) VanillaPG {
	return VanillaPG{NewAdam(n, learningRate, DefaultWeightDecay)}
}

// Step implements [Algorithm].
func (a VanillaPG) Step(params []float64, o Objective) (Report, error) {
	s := compute.NewScope(o.Policy.Backend())
	defer s.Release()
	report := Report{GradientNorm: o.norm(s.Backend())}
	err := a.ascend(s, params, o, "gradient", o.Gradient, &report)
	return report, err
}

// ascend takes a step along the direction x, corrected, which is negated because Adam minimises.
func (a *Adam) ascend(s *compute.Scope, params []float64, o Objective, name string, x compute.Block,
	report *Report) error {
	d, err := o.download(name, o.corrected(s, x))
	if err != nil {
		return err
	}
	floats.Scale(-1, d)
	a.Step(params, d)
	report.KL = o.Policy.KL(o.Policy.At(s, params))
	return nil
}
