package optim

import (
	"cmp"
	"math"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/learner/state"
)

// TRPO steps along the natural gradient to the boundary of a trust region (Schulman et
// al., 2015), where the quadratic model of the mean KL divergence is MaxKL, and halves
// the step until the surrogate objective gains enough and the divergence itself is
// within MaxKL. The zero value has the paper's settings.
type TRPO struct {
	// MaxKL bounds the divergence of a step; 0 means 0.01.
	MaxKL float64
	// StdRate multiplies the log standard deviations' part of the step; 0 means 1. Below 1 the
	// policy keeps exploring while its mean moves on (Abdolmaleki et al., 2018, bound the
	// divergences of the two apart).
	StdRate float64
	// Adaptive multiplies MaxKL by
	//
	//	min(1, 4 s² / S)
	//
	// with the variance s² of the batch's targets before they were standardised, and its
	// running mean S. A policy that has nothing to gain then stays as it is: its targets are
	// the value function's errors, and their standardisation hides how small these are.
	Adaptive bool

	batches, variance float64 // so far, and S
}

const (
	maxHalvings = 10  // after which there is no step
	acceptRatio = 0.1 // the least gain of the surrogate, relative to the gain that the gradient predicts for the step
	// varianceWeight is the weight of a batch in the running mean S. The first batches weigh more: of k, each 1/k.
	varianceWeight = 0.02
	// varianceTolerance is how many times the variance may be below S before the step is shorter.
	varianceTolerance = 4
)

// Step implements [Algorithm].
func (t *TRPO) Step(params []float64, o Objective) (Report, error) {
	maxKL := cmp.Or(t.MaxKL, 0.01)
	if t.Adaptive {
		maxKL *= t.share(o.TargetVariance)
	}
	b := o.Policy.Backend()
	s := compute.NewScope(b)
	defer s.Release()
	report := Report{GradientNorm: o.norm(b), Rejected: true}
	natural, solve, err := o.natural(s)
	if report.Solve = solve; err != nil {
		return report, err
	}
	d := o.corrected(s, natural)
	compute.Scale(b, cmp.Or(t.StdRate, 1), d.RowRange(d.Rows-len(o.Policy.LogStd()), d.Rows))
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
	length := math.Sqrt(2 * maxKL / curvature)
	t.search(params, host, length, length*b.Dot(o.Gradient, d), maxKL, o, &report)
	return report, nil
}

// share adds a batch's variance to the running mean, and returns the factor of MaxKL that they decide.
func (t *TRPO) share(variance float64) float64 {
	t.batches++
	t.variance += max(varianceWeight, 1/t.batches) * (variance - t.variance)
	if t.variance > 0 {
		return min(1, varianceTolerance*variance/t.variance)
	}
	return 1
}

// search halves the step length*d from params until it is accepted; promised is the
// surrogate's first-order gain at full length.
func (t *TRPO) search(params, d []float64, length, promised, maxKL float64, o Objective, report *Report) {
	s := compute.NewScope(o.Policy.Backend())
	defer s.Release()
	reference := o.Policy.LogProb(s, o.Actions)
	candidate := make([]float64, len(params))
	for ; report.Halvings <= maxHalvings; report.Halvings++ {
		fraction := math.Ldexp(1, -report.Halvings)
		for i := range candidate {
			candidate[i] = params[i] + fraction*length*d[i]
		}
		if t.accepts(candidate, fraction*promised, maxKL, reference, o, report) {
			copy(params, candidate)
			return
		}
	}
	report.Halvings = maxHalvings
}

// accepts compares a candidate's gain with the predicted one, and completes the report
// if it accepts it.
func (t *TRPO) accepts(candidate []float64, promised, maxKL float64, reference compute.Block, o Objective,
	report *Report) bool {
	s := compute.NewScope(o.Policy.Backend())
	defer s.Release()
	next := o.Policy.At(s, candidate)
	gain := next.Surrogate(o.Actions, o.Weights, reference)
	if !(gain > 0 && gain >= acceptRatio*promised) {
		return false
	}
	kl := o.Policy.KL(next)
	if !(kl <= maxKL) {
		return false
	}
	report.KL, report.Rejected = kl, false
	return true
}

// Visit implements [Algorithm].
func (t *TRPO) Visit(v *state.Visitor) {
	if t.Adaptive {
		v.Numbers("variance", state.Number{To: &t.batches, Check: state.Count},
			state.Number{To: &t.variance, Check: state.NotNegative})
	}
}
