package gp

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
)

// The paper's way, at Swimmer-v2's size.
func BenchmarkIterative(b *testing.B) {
	const n, k = 15000, 30
	x := newBatch(rand.New(rand.NewPCG(1, 0)), n, 10, k)
	s := compute.NewScope(cpu.New(0))
	defer s.Release()
	data, gradient := x.upload(s), s.New(n, 10)
	kernel := Kernel{C1: DefaultC1, C2: DefaultC2, Hyper: Hyper{[]float64{0.693}, 0.693, 0.693, 0.693}}
	for b.Loop() {
		scope := compute.NewScope(s.Backend())
		p, err := Iterative{}.Fit(scope, kernel, data)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.Gradient(gradient); err != nil {
			b.Fatal(err)
		}
		scope.Release()
	}
}

// The closed form's fit and gradient at the sizes of Swimmer-v2 (rank 30) and HumanoidStandup-v2
// (rank 140); GFLOP/s counts the 2 n r² operations of each.
func BenchmarkDirect(b *testing.B) {
	for _, c := range []struct{ n, k int }{{15000, 30}, {15000, 140}, {45000, 140}} {
		x := newBatch(rand.New(rand.NewPCG(1, 0)), c.n, 10, c.k)
		s := compute.NewScope(cpu.New(0))
		data := x.upload(s)
		gradient := s.New(c.n, 10)
		kernel := Kernel{C1: DefaultC1, C2: DefaultC2, Hyper: Hyper{[]float64{0.693}, 0.693, 0.693, 0.693}}
		var p Posterior
		report := func(b *testing.B, operations float64) {
			b.ReportMetric(operations*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		}
		fit := func(b *testing.B) {
			for b.Loop() {
				scope := compute.NewScope(s.Backend())
				var err error
				if p, err = (Direct{}).Fit(scope, kernel, data); err != nil {
					b.Fatal(err)
				}
				scope.Release()
			}
			r := float64(p.(*directPosterior).gram.size())
			report(b, float64(c.n)*r*r)
		}
		b.Run(fmt.Sprintf("Fit/n=%d/rank=%d", c.n, c.k), fit)
		b.Run(fmt.Sprintf("Gradient/n=%d/rank=%d", c.n, c.k), func(b *testing.B) {
			scope := compute.NewScope(s.Backend())
			defer scope.Release()
			posterior, err := Direct{}.Fit(scope, kernel, data)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := posterior.Gradient(gradient); err != nil {
					b.Fatal(err)
				}
			}
			r := float64(posterior.(*directPosterior).gram.size())
			report(b, 2*float64(c.n)*r*float64(posterior.(*directPosterior).state.cols()))
		})
		s.Release()
	}
}
