//go:build gpu

package cuda

import (
	"fmt"
	"math"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"gorgonia.org/cu"
)

// outerTile is the side of the tile of an outer product that a block of threads computes,
// TILE in kernels/sketches.cu; each thread makes 2 × 2 elements.
const outerTile = 32

// GroupOuter implements [compute.Backend].
func (b *Backend) GroupOuter(dst, d, h compute.Block, g *compute.Groups) {
	want("outer products of groups", h, d.Rows, h.Cols)
	want("outer products of groups", dst, g.Len(), d.Cols*h.Cols)
	wantGroups("outer products of groups", g, d.Rows)
	if d.Rows == 0 {
		compute.Fill(b, dst, 0)
		return
	}
	order, bounds, signs := b.onDevice(g)
	tiles := ceil(d.Cols, outerTile) * ceil(h.Cols, outerTile)
	b.launch("k_group_outer", dim{tiles, min(g.Len(), mostBlocks), 1}, dim{outerTile / 2, outerTile / 2, 1},
		ptr(dst), long(dst.Stride), ptr(d), long(d.Stride), ptr(h), long(h.Stride),
		order, bounds, signs, long(g.Len()), long(d.Cols), long(h.Cols))
}

// GroupSum implements [compute.Backend].
func (b *Backend) GroupSum(dst, x compute.Block, g *compute.Groups) {
	want("sums of groups", dst, g.Len(), x.Cols)
	wantGroups("sums of groups", g, x.Rows)
	if x.Rows == 0 {
		compute.Fill(b, dst, 0)
		return
	}
	order, bounds, signs := b.onDevice(g)
	threads := tall(x.Cols)
	b.launch("k_group_sum", dim{ceil(x.Cols, threads.x), min(g.Len(), mostBlocks), 1}, threads,
		ptr(dst), long(dst.Stride), ptr(x), long(x.Stride), order, bounds, signs, long(g.Len()), long(x.Cols))
}

func wantGroups(op string, g *compute.Groups, rows int) {
	if len(g.Order) != rows || len(g.Signs) != rows {
		panic(fmt.Sprintf("cuda: %s of %d rows, and the groups have %d rows and %d signs", op, rows, len(g.Order),
			len(g.Signs)))
	}
}

// deviceGroups is the device's copy of the groups used last. An update draws one
// partition for all layers.
type deviceGroups struct {
	of            *compute.Groups
	signs, packed compute.Block
}

const int32Bytes = 4

// packed holds pairs of integers as float64 for Upload, which copies their bits. They are
// never used as numbers.
func packed(x []int32) []float64 {
	words := make([]float64, ceil(len(x), 2))
	for i, v := range x {
		shift := 32 * (i % 2)
		words[i/2] = math.Float64frombits(math.Float64bits(words[i/2]) | uint64(uint32(v))<<shift)
	}
	return words
}

// onDevice returns the device's copy of g as arguments of a kernel.
func (b *Backend) onDevice(g *compute.Groups) (order, bounds, signs arg) {
	if b.groups.of != g {
		if b.groups.of != nil {
			b.Release(b.groups.signs.Buffer)
			b.Release(b.groups.packed.Buffer)
		}
		words := packed(append(append(make([]int32, 0, len(g.Order)+len(g.Bounds)), g.Order...), g.Bounds...))
		b.groups = deviceGroups{g, compute.FromSlice(b, len(g.Signs), 1, g.Signs),
			compute.FromSlice(b, len(words), 1, words)}
	}
	start := address(b.groups.packed)
	return device(start), device(start + cu.DevicePtr(int32Bytes*len(g.Order))), ptr(b.groups.signs)
}
