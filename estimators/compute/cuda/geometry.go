//go:build gpu

package cuda

import (
	"fmt"
	"math"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// The assignment of elements to threads. It depends only on shapes, not on the device, so that
// sums are bit-identical on all devices.

const (
	// blockThreads is the number of threads in a block, THREADS in kernels/grid.h: eight
	// warps hide the latency of loads, and several blocks fit on a multiprocessor with the
	// 64 registers a thread that the largest kernels take.
	blockThreads = 256
	// warp is the number of threads that load memory together: 32 neighbouring float64 are
	// two whole cache lines.
	warp = 32
	// mostBlocks is the maximum number of blocks along a grid's y and z. Kernels stride over
	// larger matrices.
	mostBlocks = 1<<16 - 1
	// mostParts is the maximum number of blocks that share a sum over all elements, several
	// for each multiprocessor of the largest devices; a second launch adds up their results.
	mostParts = 1024
	// perThread is the minimum number of elements that a thread adds up alone: with fewer, a
	// tree over more threads costs more than it saves.
	perThread = 8
)

// ceil returns n/d, rounded up.
func ceil(n, d int) int { return (n + d - 1) / d }

// powerOfTwo returns the smallest power of two that is at least n, and at least 1.
func powerOfTwo(n int) int {
	p := 1
	for p < n {
		p *= 2
	}
	return p
}

// tile returns the shape of a block's threads over an n × k matrix: as wide as the rows up to
// a warp, and wider only for few rows. Both sides are powers of two.
func tile(n, k int) dim {
	x := powerOfTwo(min(k, warp))
	y := powerOfTwo(min(n, blockThreads/x))
	return dim{blockThreads / y, y, 1}
}

// tall returns the tile for a matrix of many rows, whatever n.
func tall(k int) dim { return tile(blockThreads, k) }

// cover returns the grid of blocks that covers n × k elements with one per thread, or with
// several if that would be too many blocks.
func cover(n, k int, threads dim) dim {
	return dim{min(ceil(k, threads.x), mostBlocks), min(ceil(n, threads.y), mostBlocks), 1}
}

// share is cover for kernels that add up all n × k elements, at least one, in
// mostParts blocks or fewer.
func share(n, k int, threads dim) dim {
	parts := min(ceil(n*k, blockThreads*perThread), mostParts)
	y := min(ceil(n, threads.y), parts)
	return dim{min(ceil(k, threads.x), max(1, parts/y)), y, 1}
}

// each launches an elementwise kernel. The last two parameters of such kernels are n and k.
func (b *Backend) each(kernel string, n, k int, args ...arg) {
	threads := tile(n, k)
	b.launchWith(kernel, cover(n, k, threads), threads, args, long(n), long(k))
}

// launchWith launches a kernel with the arguments first and then rest, without allocating a
// slice on the heap.
func (b *Backend) launchWith(kernel string, grid, threads dim, first []arg, rest ...arg) {
	var all [maxArgs]arg
	n := copy(all[:], first)
	n += copy(all[n:], rest)
	b.launch(kernel, grid, threads, all[:n]...)
}

// want panics, naming operation op, unless x is rows × cols.
func want(op string, x compute.Block, rows, cols int) {
	if x.Rows != rows || x.Cols != cols {
		panic(fmt.Sprintf("cuda: %s wants a %d × %d block, not %s", op, rows, cols, x.Shape()))
	}
}

// wantGrid panics unless g can interpolate.
func wantGrid(op string, g compute.Grid) {
	if g.Size < 4 || !(g.Step > 0) || math.IsInf(g.Low, 0) {
		panic(fmt.Sprintf("cuda: %s on the grid %+v", op, g))
	}
}
