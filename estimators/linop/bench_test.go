package linop_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/estimators/linop/linoptest"
)

// task is the size of a batch's scores.
type task struct {
	name                 string
	observation, actions int
	rank                 int
}

var tasks = []task{{"Swimmer", 8, 2, 30}, {"HumanoidStandup", 376, 17, 140}}

const benchSamples = 15_000

// scores returns n random ones of the task's size.
func (k task) scores(s *compute.Scope, n int) *linop.Scores {
	rng := rand.New(rand.NewPCG(1, 1))
	normal := func(cols int) compute.Block { return s.FromSlice(n, cols, linoptest.Normal(rng, n*cols)) }
	return linop.NewScores(s.Backend(), []linop.ScoreLayer{
		{Inputs: normal(k.observation), Signals: normal(64)},
		{Inputs: normal(64), Signals: normal(64)},
		{Inputs: normal(64), Signals: normal(k.actions)},
	}, normal(k.actions))
}

func reportRate(b *testing.B, flops float64) {
	b.ReportMetric(flops*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}

// BenchmarkGemm is the machine's rate, to hold the others against.
func BenchmarkGemm(b *testing.B) {
	const m, k, n = benchSamples, 376, 64
	s := compute.NewScope(cpu.New(0))
	defer s.Release()
	x, y, z := s.FromSlice(m, k, make([]float64, m*k)), s.FromSlice(k, n, make([]float64, k*n)), s.New(m, n)
	for b.Loop() {
		s.Backend().Gemm(false, false, 1, x, y, 0, z)
	}
	reportRate(b, 2*m*k*n)
}

func BenchmarkScores(b *testing.B) {
	for _, task := range tasks {
		for _, trans := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/trans=%t", task.name, trans), func(b *testing.B) {
				s := compute.NewScope(cpu.New(0))
				defer s.Release()
				u := task.scores(s, benchSamples)
				p, n := u.Dims()
				if trans {
					p, n = n, p
				}
				x, dst := s.FromSlice(n, 1, linoptest.Normal(rand.New(rand.NewPCG(2, 2)), n)), s.New(p, 1)
				for b.Loop() {
					u.MulTo(dst, x, trans)
				}
				reportRate(b, 2*float64(n)*float64(p))
			})
		}
	}
}

func BenchmarkRandomizedSVD(b *testing.B) {
	for _, task := range tasks {
		b.Run(task.name, func(b *testing.B) {
			s := compute.NewScope(cpu.New(0))
			defer s.Release()
			u := task.scores(s, benchSamples)
			p, n := u.Dims()
			for b.Loop() {
				results := compute.NewScope(s.Backend())
				if _, err := linop.RandomizedSVD(results, u, task.rank, rand.New(rand.NewPCG(3, 3))); err != nil {
					b.Fatal(err)
				}
				results.Release()
			}
			layers := 0
			for _, width := range []int{task.observation + 64, 128, 64 + task.actions} {
				layers += width
			}
			r := float64(task.rank)
			reportRate(b, 4*float64(n)*r*float64(layers)+8*float64(n)*r*r+2*float64(n)*float64(p)+23*float64(p)*r*r)
		})
	}
}

// BenchmarkKernel is one product with the kernel of the paper's way of solving.
func BenchmarkKernel(b *testing.B) {
	const n, dims, rank = benchSamples, 10, 140
	s := compute.NewScope(cpu.New(0))
	defer s.Release()
	rng := rand.New(rand.NewPCG(4, 4))
	grid := compute.Grid{Low: -0.95 - 1.9/125, Step: 1.9 / 125, Size: 128}
	z, column := make([]float64, n*dims), make([]float64, grid.Size)
	for i := range z {
		z[i] = 1.9*rng.Float64() - 0.95
	}
	for i := range column {
		d := grid.Step * float64(i)
		column[i] = math.Exp(-d * d)
	}
	k := linop.NewSum(s.Backend(),
		linop.NewInterp(s.Backend(), s.FromSlice(n, dims, z), grid,
			linop.NewDense(s.Backend(), s.FromSlice(grid.Size, grid.Size, toeplitz(column).RawMatrix().Data))),
		linop.NewLowRank(s.Backend(), 0.5, s.FromSlice(n, rank, linoptest.Normal(rng, n*rank))),
		linop.NewScaledIdentity(s.Backend(), n, 0.7))
	x, dst := s.FromSlice(n, 1, linoptest.Normal(rng, n)), s.New(n, 1)
	for b.Loop() {
		k.MulTo(dst, x, false)
	}
}
