//go:build gpu

package cuda

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/computetest"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
)

func TestBackend(t *testing.T) {
	computetest.TestBackend(t, func() compute.Backend { return opened(t) })
}

// shaped is a size that takes more than one of whatever launches are made of: ranges of a
// sum, blocks of a grid, tiles of an outer product.
type shaped struct{ n, k int }

func (s shaped) block(scope *compute.Scope, rng *rand.Rand) compute.Block {
	x := make([]float64, s.n*s.k)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return scope.FromSlice(s.n, s.k, x)
}

// Sums in several stages agree with the processor's, and are the same bits when repeated
// and on a second backend.
func TestSumsInStages(t *testing.T) {
	sums := func(b compute.Backend, shape shaped) []float64 {
		s := compute.NewScope(b)
		defer s.Release()
		rng := rand.New(rand.NewPCG(uint64(shape.n), uint64(shape.k)))
		x, y := shape.block(s, rng), shape.block(s, rng)
		row, column := s.New(1, shape.k), s.New(shape.n, 1)
		results := []float64{b.Dot(x, y)}
		b.SumRows(row, x)
		results = append(results, compute.ToSlice(b, row)...)
		b.ColDots(row, x, y)
		results = append(results, compute.ToSlice(b, row)...)
		b.RowDots(column, x, y, 0)
		results = append(results, compute.ToSlice(b, column)...)
		low, high := b.Extremes(x)
		return append(results, low.Value, float64(low.Row), float64(low.Col), high.Value, float64(high.Row),
			float64(high.Col))
	}
	host, first, second := cpu.New(1), opened(t), opened(t)
	for _, shape := range []shaped{{1, 1}, {1, 70_000}, {70_000, 1}, {3000, 33}, {40_000, 3}, {257, 300}, {2, 5000}} {
		want, got := sums(host, shape), sums(first, shape)
		for i := range want {
			if !(math.Abs(got[i]-want[i]) <= 1e-11*max(1, math.Abs(want[i]))) {
				t.Errorf("%v: result %d is %v, want %v", shape, i, got[i], want[i])
			}
		}
		if !slices.Equal(sums(first, shape), got) || !slices.Equal(sums(second, shape), got) {
			t.Errorf("%v: other bits when repeated", shape)
		}
	}
}

// W is written out a part at a time: parts change nothing but the rounding.
func TestInterpolationInParts(t *testing.T) {
	b := opened(t)
	grid := compute.Grid{Low: -1, Step: 0.125, Size: 17}
	scope := compute.NewScope(b)
	defer scope.Release()
	rng := rand.New(rand.NewPCG(4, 4))
	z, x := shaped{101, 3}.block(scope, rng), shaped{101, 5}.block(scope, rng)
	results := func() []float64 {
		gram, trans := scope.New(3*17, 3*17), scope.New(17, 5)
		b.InterpolateGram(gram, z, grid)
		b.Interpolate(true, trans, z.Col(1), x, grid)
		return append(compute.ToSlice(b, gram), compute.ToSlice(b, trans)...)
	}
	want, parts := results(), 0
	b.weights(z, grid, func(compute.Block, int, int) { parts++ })
	if parts != 1 {
		t.Errorf("a small W is written in %d parts", parts)
	}
	for _, rows := range []int{1, 7, 50, 100} {
		b.mostWeights = rows * 3 * 17
		for i, got := range results() {
			if !(math.Abs(got-want[i]) <= 1e-13*max(1, math.Abs(want[i]))) {
				t.Fatalf("%d rows at a time: result %d is %v, want %v", rows, i, got, want[i])
			}
		}
	}
}

// Groups are uploaded when they are first used, and again when others were used since.
func TestGroupsChange(t *testing.T) {
	b := opened(t)
	s := compute.NewScope(b)
	defer s.Release()
	x, sum := s.FromSlice(5, 1, []float64{1, 2, 4, 8, 16}), s.New(2, 1)
	odd := &compute.Groups{Order: []int32{4, 2, 0, 3, 1}, Bounds: []int32{0, 3, 5}, Signs: []float64{1, 1, 1, 1, -1}}
	one := &compute.Groups{Order: []int32{0, 1, 2, 3, 4}, Bounds: []int32{0, 1, 5}, Signs: []float64{1, 1, 1, 1, 1}}
	for i, c := range []struct {
		groups *compute.Groups
		want   []float64
	}{{odd, []float64{-11, 10}}, {odd, []float64{-11, 10}}, {one, []float64{1, 30}}, {odd, []float64{-11, 10}}} {
		b.GroupSum(sum, x, c.groups)
		if got := compute.ToSlice(b, sum); !slices.Equal(got, c.want) {
			t.Errorf("call %d: %v, want %v", i, got, c.want)
		}
	}
}
