package bench

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/sim"
)

// Floating-point operations of each stage of an update, and their rate.
func BenchmarkStages(b *testing.B) {
	task, err := sim.Lookup("Swimmer-v2")
	if err != nil {
		b.Fatal(err)
	}
	for _, estimator := range []config.Estimator{config.MonteCarlo, config.DBQPG, config.UAPG} {
		b.Run(string(estimator), func(b *testing.B) {
			settings, err := options{algorithm: "npg"}.learner(task.Name, estimator)
			if err != nil {
				b.Fatal(err)
			}
			err = withSampler(b.Context(), task, device.Cores(), func(ctx context.Context, s *sampler) error {
				batch, err := s.collect(ctx, 15000)
				if err != nil {
					return err
				}
				counter, normalizer := newCounter(cpu.New(0)), s.moments.Normalizer(5)
				flops, seconds := map[string]float64{}, map[string]float64{}
				for b.Loop() {
					lap := func(stage string, took time.Duration) {
						flops[stage] += counter.take()
						seconds[stage] += took.Seconds()
					}
					if _, err := Update(counter, &settings, task, batch.Episodes, normalizer, lap); err != nil {
						return err
					}
				}
				for stage, n := range flops {
					if n > 0 {
						name := strings.ReplaceAll(stage, " ", "-")
						b.ReportMetric(n/1e9/float64(b.N), name+"-GFLOP")
						b.ReportMetric(n/1e9/seconds[stage], name+"-GFLOP/s")
					}
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}

// counter is a backend that counts the floating-point operations of what it passes
// on to another: of products, sketches and interpolation, the parts that grow faster
// than the blocks themselves.
type counter struct {
	compute.Backend
	flops *atomic.Int64
}

func newCounter(b compute.Backend) counter { return counter{b, new(atomic.Int64)} }

// Distant implements [compute.Backend]: nothing is computed beside a stage, so that its count is its own.
func (c counter) Distant() bool { return true }

// take returns the count since the last call.
func (c counter) take() float64 { return float64(c.flops.Swap(0)) }

func (c counter) add(factors ...int) {
	n := int64(1)
	for _, f := range factors {
		n *= int64(f)
	}
	c.flops.Add(n)
}

func (c counter) Panels(rows int, body func(b compute.Backend, panel, lo, hi int)) {
	c.Backend.Panels(rows, func(b compute.Backend, panel, lo, hi int) { body(counter{b, c.flops}, panel, lo, hi) })
}

func (c counter) Gemm(transA, transB bool, alpha float64, x, y compute.Block, beta float64, z compute.Block) {
	c.add(2, x.Rows, x.Cols, z.Cols)
	c.Backend.Gemm(transA, transB, alpha, x, y, beta, z)
}

func (c counter) Gram(dst, x compute.Block) {
	c.add(x.Rows, x.Cols, x.Cols+1)
	c.Backend.Gram(dst, x)
}

func (c counter) GroupOuter(dst, d, h compute.Block, g *compute.Groups) {
	c.add(2, d.Rows, d.Cols, h.Cols)
	c.Backend.GroupOuter(dst, d, h, g)
}

func (c counter) Interpolate(trans bool, dst, z, x compute.Block, g compute.Grid) {
	c.add(8, z.Rows, x.Cols)
	c.Backend.Interpolate(trans, dst, z, x, g)
}

func (c counter) InterpolateGrad(dst, z, table, x compute.Block, g compute.Grid) {
	c.add(8, x.Rows, x.Cols)
	c.Backend.InterpolateGrad(dst, z, table, x, g)
}
