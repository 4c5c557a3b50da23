package optim

import "github.com/dbqpg/dbqpg/estimators/compute"

// VanillaPG ascends the policy gradient with Adam.
type VanillaPG struct{ adam *Adam }

// NewVanillaPG returns the algorithm for n policy parameters.
func NewVanillaPG(n int, learningRate float64) *VanillaPG {
	return &VanillaPG{NewAdam(n, learningRate, DefaultWeightDecay)}
}

// Step implements [Algorithm].
func (v *VanillaPG) Step(params []float64, o Objective) (Report, error) {
	s := compute.NewScope(o.Policy.Backend())
	defer s.Release()
	report := Report{GradientNorm: o.norm(s.Backend())}
	d, err := download(s.Backend(), "gradient", o.corrected(s, o.Gradient))
	if err != nil {
		return report, err
	}
	ascend(v.adam, params, d)
	report.arrive(o.Policy, o.Policy.At(s, params))
	return report, nil
}

// State implements [Algorithm].
func (v *VanillaPG) State() State { return v.adam.State() }

// Restore implements [Algorithm].
func (v *VanillaPG) Restore(s State) error { return v.adam.Restore(s) }

// ascend takes one Adam step along d, which is negated because Adam minimises.
func ascend(adam *Adam, params, d []float64) {
	downhill := make([]float64, len(d))
	for i, v := range d {
		downhill[i] = -v
	}
	adam.Step(params, downhill)
}
