package optim

import (
	"cmp"
	"math"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// TRPO steps along the natural gradient to the boundary of a trust region (Schulman et
// al., 2015), where the quadratic model of the mean KL divergence is MaxKL, and halves
// the step until the surrogate objective gains enough and the divergence itself is
// within MaxKL. The zero value has the paper's settings. TRPO is stateless.
type TRPO struct {
	// MaxKL bounds the divergence of a step; 0 means 0.01.
	MaxKL float64
	// MaxHalvings bounds the halvings; 0 means 10. After that there is no step.
	MaxHalvings int
	// AcceptRatio is the smallest acceptable gain of the surrogate relative to the
	// gain that the gradient predicts for the step; 0 means 0.1.
	AcceptRatio float64
}

// Step implements [Algorithm].
func (t TRPO) Step(params []float64, o Objective) (Report, error) {
	t = TRPO{cmp.Or(t.MaxKL, 0.01), cmp.Or(t.MaxHalvings, 10), cmp.Or(t.AcceptRatio, 0.1)}
	b := o.Policy.Backend()
	s := compute.NewScope(b)
	defer s.Release()
	report := Report{GradientNorm: o.norm(b), Entropy: o.Policy.Entropy(), Rejected: true}
	natural, solve, err := o.natural(s)
	if report.Solve = solve; err != nil {
		return report, err
	}
	d := o.corrected(s, natural)
	host, err := o.download("natural gradient", d)
	if err != nil {
		return report, err
	}
	product := s.New(d.Rows, 1)
	o.Fisher.Metric(b).MulTo(product, d, false)
	curvature := b.Dot(d, product)
	if curvature <= 0 { // d is zero
		return report, nil
	}
	length := math.Sqrt(2 * t.MaxKL / curvature)
	t.search(params, host, length, length*b.Dot(o.Gradient, d), o, &report)
	return report, nil
}

// search halves the step length*d from params until it is accepted; promised is the
// surrogate's first-order gain at full length.
func (t TRPO) search(params, d []float64, length, promised float64, o Objective, report *Report) {
	s := compute.NewScope(o.Policy.Backend())
	defer s.Release()
	reference := o.Policy.LogProb(s, o.Actions)
	candidate := make([]float64, len(params))
	for ; report.Halvings <= t.MaxHalvings; report.Halvings++ {
		fraction := math.Ldexp(1, -report.Halvings)
		for i := range candidate {
			candidate[i] = params[i] + fraction*length*d[i]
		}
		if t.accepts(candidate, fraction*promised, reference, o, report) {
			copy(params, candidate)
			return
		}
	}
	report.Halvings = t.MaxHalvings
}

// accepts compares a candidate's gain with the predicted one, and completes the report
// if it accepts it.
func (t TRPO) accepts(candidate []float64, promised float64, reference compute.Block, o Objective, report *Report) bool {
	s := compute.NewScope(o.Policy.Backend())
	defer s.Release()
	next := o.Policy.At(s, candidate)
	gain := next.Surrogate(o.Actions, o.Weights, reference)
	if !(gain > 0 && gain >= t.AcceptRatio*promised && o.Policy.KL(next) <= t.MaxKL) {
		return false
	}
	report.arrive(o.Policy, next)
	report.Rejected = false
	return true
}

// State implements [Algorithm].
func (TRPO) State() State { return State{} }

// Restore implements [Algorithm].
func (TRPO) Restore(State) error { return nil }
