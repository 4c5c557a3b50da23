package critic

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/estimators/gp"
)

// The critic's part of an update at the sizes of Swimmer-v2 and HumanoidStandup-v2:
// an evaluation and the value step, another evaluation and the process's step.
func BenchmarkSteps(b *testing.B) {
	const n = 15000
	for _, o := range []int{8, 376} {
		backend := cpu.New(0)
		s := compute.NewScope(backend)
		rng := rand.New(rand.NewPCG(1, 0))
		c := New(o, Kind{}, rng)
		observations, returns := s.FromSlice(n, o, random(rng, n*o)), random(rng, n)
		features := s.FromSlice(n, 10, random(rng, 10*n))
		flops := 0
		for l, layer := range Value(o).Layers() {
			flops += 2 * 4 * layer.In * layer.Out // twice: the value, the gradient in the weights
			if l > 0 {
				flops += 2 * 2 * layer.In * layer.Out // and the signal
			}
		}
		b.Run(fmt.Sprintf("%d-64-48-10", o), func(b *testing.B) {
			for b.Loop() {
				scope := compute.NewScope(backend)
				if _, err := c.StepValue(c.Evaluate(scope, observations), returns); err != nil {
					b.Fatal(err)
				}
				if err := c.StepProcess(c.Evaluate(scope, observations), features,
					gp.Hyper{Base: []float64{0}}); err != nil {
					b.Fatal(err)
				}
				scope.Release()
			}
			b.ReportMetric(n*float64(flops)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
		s.Release()
	}
}

// Five passes of the value function, at the sizes of HalfCheetah-v2 and Humanoid-v2.
func BenchmarkLearn(b *testing.B) {
	for _, n := range []int{2000, 15000} {
		for _, o := range []int{17, 376} {
			b.Run(fmt.Sprintf("%d of %d", n, o), func(b *testing.B) {
				s := compute.NewScope(cpu.New(0))
				defer s.Release()
				rng := rand.New(rand.NewPCG(1, 0))
				v, observations, targets := NewValueFunction(o, rng), s.FromSlice(n, o, random(rng, n*o)),
					random(rng, n)
				for b.Loop() {
					v.passes = 0
					if _, err := v.Learn(s.Backend(), observations, targets, 5); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
