package bench

import (
	"slices"
	"time"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// gemm returns the machine's own rate: the best of a few products m × k by k × n, in
// GFLOP/s.
func gemm(b compute.Backend, m, k, n int) float64 {
	scope := compute.NewScope(b)
	defer scope.Release()
	x, y, z := scope.New(m, k), scope.New(k, n), scope.New(m, n)
	compute.Fill(b, x, 1)
	compute.Fill(b, y, 1)
	best := time.Duration(1<<63 - 1)
	for range 5 {
		wait(b)
		start := time.Now()
		b.Gemm(false, false, 1, x, y, 0, z)
		wait(b)
		best = min(best, time.Since(start))
	}
	return 2 * float64(m) * float64(k) * float64(n) / best.Seconds() / 1e9
}

// wait waits until a distant device has done all it was told.
func wait(b compute.Backend) {
	if !b.Distant() {
		return
	}
	s := compute.NewScope(b)
	defer s.Release()
	var element [1]float64
	b.Download(element[:], s.FromSlice(1, 1, element[:]))
}

// median returns that of x, the upper of two.
func median[T ~int64 | ~float64](x []T) T {
	return slices.Sorted(slices.Values(x))[len(x)/2]
}
