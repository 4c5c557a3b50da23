package critic

import (
	"fmt"
	"math"
)

// heldOutShare is one in so many episodes.
const heldOutShare = 10

// HeldOut is the number of steps, the batch's first, that the critic's calibration is
// measured on: those of the first tenth of the episodes, rounded up; 0 of a single episode,
// which leaves no other to learn from. The last episodes would not do as well: a batch ends
// with the one that fills it, and a long one is the likelier to.
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

// Coverage is the share of the targets that lie in the central intervals which have the
// probability level, in (0, 1), under the normal distributions that predict them. Of a
// calibrated critic it is the level, give or take what few episodes tell; of one that is
// too sure of itself it is less. It is NaN of no targets.
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
