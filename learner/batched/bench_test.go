package batched

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/internal/policy"
)

func normals(n int, rng *rand.Rand) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

// fisherFlops counts a product's multiplications and additions: each layer's
// weights meet the inputs twice (forward and reverse), and all but the first
// layer's carry a tangent forward and a signal back.
func fisherFlops(shape policy.Shape, n int) float64 {
	flops := 0
	for l, layer := range shape.Network().Layers() {
		flops += 4 * layer.In * layer.Out
		if l > 0 {
			flops += 4 * layer.In * layer.Out
		}
	}
	return float64(n) * float64(flops)
}

// The Fisher-vector product beside the machine's own rate for the products it is
// made of: the first layer's, n × o × 64, and the second's, n × 64 × 64.
func BenchmarkFisher(b *testing.B) {
	const n = 15000
	backend := cpu.New(0)
	for _, shape := range []policy.Shape{
		{Observation: 8, Action: 2, Hidden: policy.DefaultHidden()},
		{Observation: 376, Action: 17, Hidden: policy.DefaultHidden()},
	} {
		scope := compute.NewScope(backend)
		rng := rand.New(rand.NewPCG(1, 1))
		p := shape.NumParams()
		g := New(scope, shape, shape.Init(rng, nil),
			scope.FromSlice(n, shape.Observation, normals(n*shape.Observation, rng)))
		fisher, x, y := g.Fisher(0.1), scope.FromSlice(p, 1, normals(p, rng)), scope.New(p, 1)
		name := fmt.Sprintf("%d-64-64-%d", shape.Observation, shape.Action)
		b.Run(name+"/product", func(b *testing.B) {
			for b.Loop() {
				fisher.MulTo(y, x, false)
			}
			b.ReportMetric(fisherFlops(shape, n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
		for l := range 2 {
			h, out := g.activations[l], scope.New(n, 64)
			w := scope.FromSlice(64, h.Cols, normals(64*h.Cols, rng))
			b.Run(fmt.Sprintf("%s/gemm%d", name, l+1), func(b *testing.B) {
				for b.Loop() {
					backend.Gemm(false, true, 1, h, w, 0, out)
				}
				b.ReportMetric(2*n*64*float64(h.Cols)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
		scope.Release()
	}
}
