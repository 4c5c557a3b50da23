package cpu

import (
	"fmt"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

func BenchmarkGemm(b *testing.B) {
	backend := New(0)
	for _, s := range []struct {
		m, k, n int
		ta, tb  bool
	}{
		{15000, 64, 64, false, true}, {15000, 8, 64, false, true}, {15000, 376, 64, false, true}, {64, 15000, 376, true, false}, {64, 15000, 64, true, false}, {300, 15000, 300, true, false},
	} {
		b.Run(fmt.Sprintf("%dx%dx%d", s.m, s.k, s.n), func(b *testing.B) {
			dims := func(t bool, r, c int) compute.Block {
				if t {
					r, c = c, r
				}
				x := compute.NewBlock(backend, r, c)
				backend.Fill(x, 1)
				return x
			}
			x, y, z := dims(s.ta, s.m, s.k), dims(s.tb, s.k, s.n), compute.NewBlock(backend, s.m, s.n)
			for b.Loop() {
				backend.Gemm(s.ta, s.tb, 1, x, y, 0, z)
			}
			b.ReportMetric(2*float64(s.m)*float64(s.k)*float64(s.n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
