package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/blas/gonum"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/computetest"
)

func TestBackend(t *testing.T) {
	for _, workers := range []int{1, 2, 5} {
		t.Run(fmt.Sprintf("workers=%d", workers), func(t *testing.T) {
			computetest.TestBackend(t, func() compute.Backend { return New(workers) })
		})
	}
}

// What the pool keeps does not grow with the number of updates, though hardly two batches are of the same length.
func TestPoolIsBounded(t *testing.T) {
	var p pool
	const columns, blocks = 376, 5
	rng := rand.New(rand.NewPCG(1, 1))
	most, kept := 0, 0
	for range 1000 {
		n := (15000 + rng.IntN(1000)) * columns
		most = max(most, n)
		var held []compute.Buffer
		for range blocks {
			x := p.Alloc(n)
			if x.Len() != n {
				t.Fatalf("%d elements, asked for %d", x.Len(), n)
			}
			held = append(held, x)
		}
		for _, x := range held {
			p.Release(x)
		}
	}
	for _, list := range p.free {
		for _, b := range list {
			kept += cap(b.data)
		}
	}
	if kept > 4*blocks*most { // two or three sizes, each an eighth larger at most
		t.Errorf("%d elements are kept, %.1f times the most in use", kept, float64(kept)/float64(blocks*most))
	}
}

// Products of the shapes that an update makes, in GFLOP/s: the machine's own rate,
// beside which the other benchmarks are to be read.
func BenchmarkGemm(b *testing.B) {
	backend := New(0)
	for _, s := range []struct {
		m, k, n int
		ta, tb  bool
	}{
		{15000, 64, 64, false, true},
		{15000, 8, 64, false, true},
		{15000, 376, 64, false, true},
		{64, 15000, 376, true, false},
		{64, 15000, 64, true, false},
		{300, 15000, 300, true, false},
	} {
		b.Run(fmt.Sprintf("%dx%dx%d", s.m, s.k, s.n), func(b *testing.B) {
			block := func(transposed bool, rows, cols int) compute.Block {
				if transposed {
					rows, cols = cols, rows
				}
				x := compute.NewBlock(backend, rows, cols)
				compute.Fill(backend, x, 1)
				return x
			}
			x, y, z := block(s.ta, s.m, s.k), block(s.tb, s.k, s.n), compute.NewBlock(backend, s.m, s.n)
			for b.Loop() {
				backend.Gemm(s.ta, s.tb, 1, x, y, 0, z)
			}
			flops := 2 * float64(s.m) * float64(s.k) * float64(s.n)
			b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

func BenchmarkTanh(b *testing.B) {
	backend := New(1)
	z, bias := compute.NewBlock(backend, 512, 64), compute.NewBlock(backend, 1, 64)
	compute.Fill(backend, bias, 0.1)
	for b.Loop() {
		backend.Tanh(z, bias)
	}
	b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N*512*64), "ns/element")
}

// Products are the same in the parts in which they are computed as in one piece, whatever their shapes, strides and
// beta.
func TestProductsInParts(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 0))
	for _, s := range [][3]int{ // m, n, k
		{512, 64, 64}, {513, 64, 64}, {240, 64, 64}, {1000, 6, 64}, {1000, 64, 1}, {64, 64, 512}, {17, 64, 999},
		{64, 6, 5000},
		{300, 300, 300}, {700, 230, 130}, {64, 176, 177}, {65, 64, 488}, {33, 977, 31}, {2000, 1, 3}, {1, 1, 2000000},
	} {
		m, n, k := s[0], s[1], s[2]
		for _, beta := range []float64{0, 1, -0.5} {
			for way := range 4 {
				transA, transB := way&1 == 1, way&2 == 2
				a, b, c := matrix(rng, m, k, transA), matrix(rng, k, n, transB), matrix(rng, m, n, false)
				want := matrix(rng, m, n, false)
				copy(want.Data, c.Data)
				blas64.Gemm(transpose(transA), transpose(transB), 1.5, a, b, beta, c)
				gonum.Implementation{}.Dgemm(transpose(transA), transpose(transB), m, n, k, 1.5, a.Data, a.Stride,
					b.Data, b.Stride, beta, want.Data, want.Stride)
				for i, x := range want.Data {
					if !(math.Abs(c.Data[i]-x) <= 1e-12*float64(k)) {
						t.Fatalf("%d x %d by %d x %d, transposed %t and %t, beta %g: element %d is %g, want %g", m, k,
							k, n, transA, transB, beta, i, c.Data[i], x)
					}
				}
			}
		}
	}
}

// matrix returns a random one, or its transpose, within a wider one.
func matrix(rng *rand.Rand, rows, cols int, transposed bool) blas64.General {
	if transposed {
		rows, cols = cols, rows
	}
	x := blas64.General{Rows: rows, Cols: cols, Stride: cols + 3, Data: make([]float64, rows*(cols+3))}
	for i := range x.Data {
		x.Data[i] = rng.NormFloat64()
	}
	return x
}
