package statekernel

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// ChooseInducing chooses m different rows of the features (n × d) as inducing points for
// [Kernel.Factor], by the seeding of k-means++ (Arthur and Vassilvitskii 2007). The first
// is drawn uniformly, each further one with a probability proportional to its squared
// distance from the nearest of those before it, so that they are spread like the features
// themselves. It works on the host and takes 3 n m d operations. The choice is a function
// of the features and of rng's state. The error is an [*InducingError].
func ChooseInducing(b compute.Backend, features compute.Block, m int, rng *rand.Rand) ([]int, error) {
	n, d := features.Rows, features.Cols
	if m < 1 || m > n {
		return nil, &InducingError{Points: m, Samples: n}
	}
	x := compute.ToSlice(b, features)
	distances := make([]float64, n) // squared, to the nearest chosen row; -1 for chosen ones
	for i := range distances {
		distances[i] = math.Inf(1)
	}
	chosen := []int{rng.IntN(n)}
	for len(chosen) < m {
		last := chosen[len(chosen)-1]
		distances[last] = -1
		total := 0.0
		for i := range distances {
			if distances[i] > 0 {
				distances[i] = min(distances[i], squaredDistance(x[i*d:(i+1)*d], x[last*d:(last+1)*d]))
				total += distances[i]
			}
		}
		chosen = append(chosen, draw(distances, total*rng.Float64()))
	}
	return chosen, nil
}

// draw returns the first row at which the positive weights add up to more than target. Rows
// of weight 0, which equal chosen ones, follow when no others are left.
func draw(weights []float64, target float64) int {
	last, spare := -1, -1
	for i, w := range weights {
		switch {
		case w > 0:
			last = i
			if target -= w; target < 0 {
				return i
			}
		case w == 0 && spare < 0:
			spare = i
		}
	}
	if last >= 0 { // the sum fell short by rounding
		return last
	}
	return spare
}

func squaredDistance(x, y []float64) float64 {
	sum := 0.0
	for i, v := range x {
		sum += (v - y[i]) * (v - y[i])
	}
	return sum
}

// InducingError reports that the number of inducing points is impossible.
type InducingError struct{ Points, Samples int }

// Error implements error.
func (e *InducingError) Error() string {
	return fmt.Sprintf("gp: %d inducing points chosen among %d samples: it takes at least 1, and "+
		"no more than there are samples", e.Points, e.Samples)
}
