//go:build gpu

package cuda

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// measured is an operation with the least that it must do: bytes that must be read and
// written, or the flops of the plain algorithm.
type measured struct {
	name  string
	bytes float64
	flops float64
	run   func()
}

// measure times launches of each operation until the device has done them all. Blocks of
// 15,000 rows and 64 columns (7.7 MB) stay in a large device's cache, those of 150,000
// do not: the first rate may exceed the memory's.
func measure(b *testing.B, backend *Backend, operations []measured) {
	for _, op := range operations {
		b.Run(op.name, func(b *testing.B) {
			op.run() // allocates what it needs
			backend.synchronize()
			b.ResetTimer()
			for range b.N {
				op.run()
			}
			backend.synchronize()
			seconds := b.Elapsed().Seconds() / float64(b.N)
			if op.bytes > 0 {
				b.ReportMetric(op.bytes/seconds/1e9, "GB/s")
			}
			if op.flops > 0 {
				b.ReportMetric(op.flops/seconds/1e12, "TFLOP/s")
			}
		})
	}
}

var batches = []int{15_000, 150_000}

// The hidden layers' width, HumanoidStandup's observations and actions, the features
// and the grid of its state kernel, and the rank of its Fisher kernel.
const (
	hidden, observations, actions = 64, 376, 17
	features, points, rank        = 10, 128, 140
)

// BenchmarkElementwise: what is bound by memory.
func BenchmarkElementwise(b *testing.B) {
	for _, n := range batches {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			d := opened(b)
			s := compute.NewScope(d)
			defer s.Release()
			rng := rand.New(rand.NewPCG(1, 1))
			matrix := shaped{n, hidden}
			x, y, z := matrix.block(s, rng), matrix.block(s, rng), matrix.block(s, rng)
			column, row := shaped{n, 1}.block(s, rng), shaped{1, hidden}.block(s, rng)
			once := 8 * float64(n*hidden)
			measure(b, d, []measured{
				{"Fill", once, 0, func() { compute.Fill(d, x, 1) }},
				{"Copy", 2 * once, 0, func() { compute.Copy(d, y, x) }},
				{"Scale", 2 * once, 0, func() { compute.Scale(d, -1, x) }},
				{"Axpy", 3 * once, 0, func() { compute.Axpy(d, 1e-3, x, y) }},
				{"AxpyOfViews", 3 * once / 2, 0,
					func() { compute.Axpy(d, 1e-3, x.ColRange(0, hidden/2), y.ColRange(0, hidden/2)) }},
				{"AxpyOfARow", 2 * once, 0, func() { compute.Axpy(d, 1, row, y) }},
				{"Affine", 2 * once, 0, func() { d.Affine(y, 2, x, 0, 1) }},
				{"Mul", 3 * once, 0, func() { d.Mul(z, x, y, 0) }},
				{"MulAdd", 4 * once, 0, func() { d.Mul(z, x, y, 1) }},
				{"MulByARow", 3 * once, 0, func() { d.Mul(y, row, x, 1) }},
				{"MulByAColumn", 2 * once, 0, func() { d.Mul(y, column, x, 0) }},
				{"DivideWhere", 5 * once, 0, func() { d.DivideWhere(z, x, y, x, y) }},
				{"Tanh", 2 * once, 0, func() { d.Tanh(y, row) }},
				{"TanhGrad", 3 * once, 0, func() { d.TanhGrad(z, y) }},
			})
		})
	}
}

// BenchmarkSums: Dot and Extremes wait for the result each time.
func BenchmarkSums(b *testing.B) {
	for _, n := range batches {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			d := opened(b)
			s := compute.NewScope(d)
			defer s.Release()
			rng := rand.New(rand.NewPCG(1, 1))
			matrix := shaped{n, hidden}
			x, y := matrix.block(s, rng), matrix.block(s, rng)
			column, row, number := s.New(n, 1), s.New(1, hidden), s.New(1, 1)
			once := 8 * float64(n*hidden)
			measure(b, d, []measured{
				{"Dot", 2 * once, 0, func() { d.Dot(x, y) }},
				{"Extremes", once, 0, func() { d.Extremes(x) }},
				{"RowDots", 2 * once, 0, func() { d.RowDots(column, x, y, 0) }},
				{"SumRows", once, 0, func() { d.SumRows(row, x) }},
				{"SumOfAColumn", 8 * float64(n), 0, func() { d.SumRows(number, column) }},
				{"ColDots", 2 * once, 0, func() { d.ColDots(row, x, y) }},
			})
		})
	}
}

// BenchmarkProducts: the products of an update, the largest of which says what rate the
// device can reach in float64.
func BenchmarkProducts(b *testing.B) {
	d := opened(b)
	s := compute.NewScope(d)
	defer s.Release()
	rng := rand.New(rand.NewPCG(1, 1))
	gemm := func(transA, transB bool, m, inner, n int) measured {
		size := func(rows, cols int, transposed bool) compute.Block {
			if transposed {
				rows, cols = cols, rows
			}
			return shaped{rows, cols}.block(s, rng)
		}
		x, y, c := size(m, inner, transA), size(inner, n, transB), s.New(m, n)
		return measured{fmt.Sprintf("Gemm/%dx%dx%d", m, inner, n), 0, 2 * float64(m) * float64(inner) * float64(n),
			func() { d.Gemm(transA, transB, 1, x, y, 0, c) }}
	}
	gram := func(n, k int) measured {
		x, c := shaped{n, k}.block(s, rng), s.New(k, k)
		return measured{fmt.Sprintf("Gram/%dx%d", n, k), 0, float64(n) * float64(k) * float64(k),
			func() { d.Gram(c, x) }}
	}
	operations := []measured{gemm(false, false, 4096, 4096, 4096)}
	for _, n := range batches {
		operations = append(operations,
			gemm(false, true, n, observations, hidden), gemm(false, true, n, hidden, hidden),
			gemm(true, false, hidden, n, observations), gemm(true, false, hidden, n, 1),
			gram(n, 2*rank), gram(n, features*points))
	}
	measure(b, d, operations)
}

// BenchmarkInterpolation: the state kernel's operations. Flops are those of the dense
// product where one is made.
func BenchmarkInterpolation(b *testing.B) {
	for _, n := range batches {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			d := opened(b)
			s := compute.NewScope(d)
			defer s.Release()
			rng := rand.New(rand.NewPCG(1, 1))
			grid := compute.Grid{Low: -1, Step: 2.0 / (points - 1), Size: points}
			z, all := shaped{n, features}.block(s, rng), features*points
			compute.Scale(d, 0.3, z)
			x, column, table := shaped{n, rank}.block(s, rng), s.New(n, 1), shaped{points, rank}.block(s, rng)
			square, grads, onGrid := s.New(all, all), s.New(n, features), s.New(points, rank)
			compute.Fill(d, square, 1)
			once := 8 * float64(n*rank)
			measure(b, d, []measured{
				{"Interpolate", once, 0, func() { d.Interpolate(false, x, z.Col(0), table, grid) }},
				{"InterpolateGrad", once, 0, func() { d.InterpolateGrad(column, z.Col(0), table, x, grid) }},
				{"InterpolateTrans", 0, 2 * float64(n*points*rank),
					func() { d.Interpolate(true, onGrid, z.Col(0), x, grid) }},
				{"InterpolateTransOfAColumn", 8 * float64(n), 0,
					func() { d.Interpolate(true, onGrid.Col(0), z.Col(0), x.Col(0), grid) }},
				{"InterpolateGram", 0, float64(n) * float64(all*all), func() { d.InterpolateGram(square, z, grid) }},
				{"InterpolateGramGrad", 0, 40 * float64(n*features*features),
					func() { d.InterpolateGramGrad(grads, z, square, grid) }},
			})
		})
	}
}

// BenchmarkSketches: a layer's outer products in eight groups a rank.
func BenchmarkSketches(b *testing.B) {
	for _, n := range batches {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			d := opened(b)
			s := compute.NewScope(d)
			defer s.Release()
			rng := rand.New(rand.NewPCG(1, 1))
			groups := evenGroups(n, 8*rank, rng)
			signals, inputs := shaped{n, hidden}.block(s, rng), shaped{n, observations}.block(s, rng)
			outer, sums := s.New(groups.Len(), hidden*observations), s.New(groups.Len(), hidden)
			measure(b, d, []measured{
				{"GroupOuter", 8 * float64(groups.Len()*hidden*observations), 2 * float64(n*hidden*observations),
					func() { d.GroupOuter(outer, signals, inputs, groups) }},
				{"GroupSum", 8 * float64(n*hidden), 0, func() { d.GroupSum(sums, signals, groups) }},
			})
		})
	}
}

// evenGroups deals n rows out into groups of nearly one size.
func evenGroups(n, groups int, rng *rand.Rand) *compute.Groups {
	g := &compute.Groups{}
	for _, row := range rng.Perm(n) {
		g.Order = append(g.Order, int32(row))
		g.Signs = append(g.Signs, float64(1-2*rng.IntN(2)))
	}
	for i := range groups + 1 {
		g.Bounds = append(g.Bounds, int32(i*n/groups))
	}
	return g
}

// BenchmarkRoundTrip: a launch alone, and a result that the host waits for.
func BenchmarkRoundTrip(b *testing.B) {
	d := opened(b)
	x := compute.NewBlock(d, 1, 1)
	defer d.Release(x.Buffer)
	host := make([]float64, 1)
	measure(b, d, []measured{
		{"Launch", 0, 0, func() { compute.Fill(d, x, 1) }},
		{"Download", 0, 0, func() { d.Download(host, x) }},
	})
}
