package linop

import (
	"math/rand/v2"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

func randomSigns(n int, rng *rand.Rand) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(2*rng.IntN(2) - 1)
	}
	return x
}

// randomGroups deals n samples out into groups of nearly equal size, each with a
// random sign: the columns of a sparse sign matrix S, n × groups.
func randomGroups(n, groups int, rng *rand.Rand) *compute.Groups {
	g := &compute.Groups{Order: make([]int32, n), Bounds: make([]int32, groups+1), Signs: randomSigns(n, rng)}
	for i, row := range rng.Perm(n) {
		g.Order[i] = int32(row)
	}
	for i := range g.Bounds {
		g.Bounds[i] = int32(i * n / groups)
	}
	return g
}
