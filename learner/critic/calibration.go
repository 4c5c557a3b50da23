package critic

import (
	"fmt"
	"math"

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

// degrees are the degrees of freedom that [Degrees] chooses from.
var degrees = []float64{3, 4, 5, 7, 10, 15, 30}

// Degrees returns the degrees of freedom of Student's t distribution under which targets are most
// likely, given the means and variances of their predictive distributions; +Inf stands for the
// normal distribution. The predictions of a Gaussian process are the best linear ones whatever
// the noise's distribution; this is how heavy the noise's tails are.
func Degrees(targets, mean, variance []float64) float64 {
	best, most := math.Inf(1), LogDensity(targets, mean, variance)
	for _, nu := range degrees {
		sum := 0.0
		for i, y := range targets {
			sum += distuv.StudentsT{Mu: mean[i], Sigma: math.Sqrt(variance[i] * (nu - 2) / nu), Nu: nu}.LogProb(y)
		}
		if sum /= float64(len(targets)); sum > most {
			best, most = nu, sum
		}
	}
	return best
}

// Narrowed returns the variances whose central normal intervals of a level are those of Student's t
// distributions with variances and degrees of freedom above 2, for [Coverage].
func Narrowed(level, degrees float64, variance []float64) []float64 {
	if math.IsInf(degrees, 1) {
		return variance
	}
	t := distuv.StudentsT{Sigma: math.Sqrt((degrees - 2) / degrees), Nu: degrees}.Quantile((1 + level) / 2)
	ratio := t / (math.Sqrt2 * math.Erfinv(level))
	narrowed := make([]float64, len(variance))
	for i, v := range variance {
		narrowed[i] = v * ratio * ratio
	}
	return narrowed
}

// Coverage returns the fraction of targets that lie within the central intervals of the
// given probability level, in (0, 1), of their normal predictive distributions. For a
// calibrated critic it equals the level up to sampling error; for an overconfident one it is
// smaller. Without targets it is NaN.
func Coverage(level float64, targets, mean, variance []float64) float64 {
	if len(mean) != len(targets) || len(variance) != len(targets) {
		panic(fmt.Sprintf("critic: %d means and %d variances for %d targets", len(mean), len(variance), len(targets)))
	}
	width, inside := math.Sqrt2*math.Erfinv(level), 0
	for i, y := range targets {
		if math.Abs(y-mean[i]) <= width*math.Sqrt(variance[i]) {
			inside++
		}
	}
	return float64(inside) / float64(len(targets))
}
