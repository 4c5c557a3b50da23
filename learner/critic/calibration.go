package critic

import (
	"fmt"
	"math"
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
