//go:build gpu

package cuda

import (
	"math/bits"
	"testing"

	"pgregory.net/rapid"
)

// Blocks of threads have blockThreads threads in powers of two, grids stay within what a
// device takes, and a grid with fewer threads than elements has as many as it may.
func TestGeometry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := 1 << rapid.IntRange(0, 40).Draw(t, "log n")
		k := 1 << rapid.IntRange(0, 20).Draw(t, "log k")
		n, k = n-rapid.IntRange(0, n/2).Draw(t, "less n"), k-rapid.IntRange(0, k/2).Draw(t, "less k")
		for _, threads := range []dim{tile(n, k), tall(k)} {
			if threads.x*threads.y != blockThreads || bits.OnesCount(uint(threads.x)) != 1 {
				t.Fatalf("blocks of %v threads", threads)
			}
			covered := cover(n, k, threads)
			if covered.x > mostBlocks || covered.y > mostBlocks {
				t.Fatalf("a grid of %v", covered)
			}
			if covered.x < mostBlocks && covered.x*threads.x < k || covered.y < mostBlocks && covered.y*threads.y < n {
				t.Fatalf("%v blocks of %v threads do not cover %d × %d", covered, threads, n, k)
			}
			if parts := share(n, k, threads); parts.x*parts.y > mostParts || parts.x < 1 || parts.y < 1 {
				t.Fatalf("a sum in %v parts", parts)
			}
		}
	})
}
