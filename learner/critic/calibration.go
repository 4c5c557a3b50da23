package critic

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/distuv"
)

// heldOutShare is the reciprocal of the held-out fraction of episodes.
const heldOutShare = 10

// HeldOut returns the number of steps at the beginning of the batch on which the critic's
// calibration is measured: those of the first tenth of the episodes, rounded up, or 0 for a
// single episode, which leaves none to condition on. The last episodes would be biased: a
// batch ends with the episode that fills it, which is more likely to be a long one.
func (e Trajectories) HeldOut() (steps int) {
	episodes := (len(e.Lengths) + heldOutShare - 1) / heldOutShare
	if episodes == len(e.Lengths) {
		return 0
	}
	for _, length := range e.Lengths[:episodes] {
		steps += length
	}
	return steps
}

// LogDensity returns the mean logarithm of the densities of targets under their normal
// predictive distributions. Without targets it is NaN.
func LogDensity(targets, mean, variance []float64) float64 {
	sum := 0.0
	for i, y := range targets {
		sum -= (math.Log(2*math.Pi*variance[i]) + (y-mean[i])*(y-mean[i])/variance[i]) / 2
	}
	return sum / float64(len(targets))
}

// Tails is the distribution of targets about a process's predictions: Student's t with these degrees of freedom, +Inf
// for the normal distribution, and a scale that is this multiple of the predicted standard deviation. A Gaussian
// process's predictions are the best linear ones whatever the noise's distribution; this is how heavy the noise's tails
// are.
type Tails struct{ Degrees, Scale float64 }

// degrees are the degrees of freedom that [TailsOf] chooses from.
var degrees = []float64{1, 1.5, 2, 2.5, 3, 4, 5, 7, 10, 15, 30, math.Inf(1)}

// A scale is found in steps of expectation maximisation, until one changes its square by less than this fraction.
const (
	scaleTolerance = 1e-6
	scaleSteps     = 100
)

// TailsOf returns the tails under which targets are most likely, given the means and variances of their predictive
// distributions.
func TailsOf(targets, mean, variance []float64) (best Tails) {
	squares := make([]float64, len(targets)) // of standardised errors
	for i, y := range targets {
		squares[i] = (y - mean[i]) * (y - mean[i]) / variance[i]
	}
	if floats.Max(squares) == 0 {
		return Tails{Degrees: math.Inf(1)}
	}
	most := math.Inf(-1)
	for _, nu := range degrees {
		scale, likelihood := scaleOf(squares, nu)
		if likelihood > most {
			best, most = Tails{nu, scale}, likelihood
		}
	}
	return best
}

// scaleOf returns the most likely scale of the squares of values that are distributed like Student's t, and the mean
// logarithm of their density, up to a constant that is the same for all degrees of freedom: s² is the mean of the
// squares z², weighted by (nu + 1)/(nu + z²/s²), which is 1 for the normal distribution (Lange, Little and Taylor,
// 1989).
func scaleOf(squares []float64, nu float64) (scale, likelihood float64) {
	n := float64(len(squares))
	if math.IsInf(nu, 1) {
		s2 := floats.Sum(squares) / n
		return math.Sqrt(s2), -(math.Log(2*math.Pi*s2) + 1) / 2
	}
	s2 := 1.0
	for range scaleSteps {
		sum := 0.0
		for _, z2 := range squares {
			sum += z2 * (nu + 1) / (nu + z2/s2)
		}
		old := s2
		if s2 = sum / n; math.Abs(s2-old) <= scaleTolerance*old {
			break
		}
	}
	sum := 0.0
	for _, z2 := range squares {
		sum += math.Log1p(z2 / (nu * s2))
	}
	above, _ := math.Lgamma((nu + 1) / 2)
	below, _ := math.Lgamma(nu / 2)
	return math.Sqrt(s2), above - below - math.Log(math.Pi*nu*s2)/2 - (nu+1)/2*sum/n
}

// Coverage returns the fraction of targets within the central intervals of a level, in (0, 1), of these tails.
func (t Tails) Coverage(level float64, targets, mean, variance []float64) float64 {
	if math.IsInf(t.Degrees, 1) {
		return within(t.Scale*math.Sqrt2*math.Erfinv(level), targets, mean, variance)
	}
	return within(distuv.StudentsT{Sigma: t.Scale, Nu: t.Degrees}.Quantile((1+level)/2), targets, mean, variance)
}

// Coverage returns the fraction of targets that lie within the central intervals of the
// given probability level, in (0, 1), of their normal predictive distributions. For a
// calibrated critic it equals the level up to sampling error; for an overconfident one it is
// smaller. Without targets it is NaN.
func Coverage(level float64, targets, mean, variance []float64) float64 {
	return Tails{math.Inf(1), 1}.Coverage(level, targets, mean, variance)
}

// within returns the fraction of targets that are no more than so many standard deviations from their means.
func within(width float64, targets, mean, variance []float64) float64 {
	if len(mean) != len(targets) || len(variance) != len(targets) {
		panic(fmt.Sprintf("critic: %d means and %d variances for %d targets", len(mean), len(variance), len(targets)))
	}
	inside := 0
	for i, y := range targets {
		if math.Abs(y-mean[i]) <= width*math.Sqrt(variance[i]) {
			inside++
		}
	}
	return float64(inside) / float64(len(targets))
}
