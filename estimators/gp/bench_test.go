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
	kernel := Kernel{C1: 1, C2: 5e-5, Hyper: Hyper{[]float64{0.693}, 0.693, 0.693, 0.693}}
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

// The closed form's fit and gradient at the sizes of Swimmer-v2 (rank 30) and
// HumanoidStandup-v2 (rank 140), for a smooth and for a rough base kernel.
func BenchmarkDirect(b *testing.B) {
	for _, c := range []struct {
		base string
		n, k int
	}{{"rbf", 15000, 30}, {"rbf", 15000, 140}, {"rbf", 45000, 140}, {"matern12", 15000, 30}, {"matern12", 15000, 140}} {
		s := compute.NewScope(cpu.New(0))
		data := newBatch(rand.New(rand.NewPCG(1, 0)), c.n, 10, c.k).upload(s)
		gradient := s.New(c.n, 10)
		kernel := Kernel{Base: lookup(c.base), C1: 1, C2: 5e-5, Hyper: Hyper{[]float64{0.693}, 0.693, 0.693, 0.693}}
		fit := func(scope *compute.Scope) Posterior {
			p, err := Direct{}.Fit(scope, kernel, data)
			if err != nil {
				b.Fatal(err)
			}
			return p
		}
		b.Run(fmt.Sprintf("Fit/%s/n=%d/k=%d", c.base, c.n, c.k), func(b *testing.B) {
			for b.Loop() {
				scope := compute.NewScope(s.Backend())
				fit(scope)
				scope.Release()
			}
		})
		b.Run(fmt.Sprintf("FitAndGradient/%s/n=%d/k=%d", c.base, c.n, c.k), func(b *testing.B) {
			for b.Loop() {
				scope := compute.NewScope(s.Backend())
				if _, err := fit(scope).Gradient(gradient); err != nil {
					b.Fatal(err)
				}
				scope.Release()
			}
		})
		s.Release()
	}
}

// Hyperparameters from held-out samples, beginning with those that the last batch taught.
func BenchmarkCrossValidation(b *testing.B) {
	for _, n := range []int{5000, 15000} {
		s := compute.NewScope(cpu.New(0))
		data := newBatch(rand.New(rand.NewPCG(1, 0)), n, 10, 90).upload(s)
		kernel := Kernel{C1: 1, C2: 5e-5, Hyper: Hyper{[]float64{0.693}, 0.693, 0.693, 0.693}}
		var validation CrossValidation
		for i := range 5 {
			validation.Folds = append(validation.Folds, [2]int{i * n / 5, (i + 1) * n / 5})
		}
		learn := func() Validation {
			learned, err := validation.Maximize(s.Backend(), kernel, data)
			if err != nil {
				b.Fatal(err)
			}
			return learned
		}
		kernel.Hyper = learn().Hyper
		kernel.Noise *= 1.2
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			evaluations := 0
			for b.Loop() {
				evaluations = learn().Evaluations
			}
			b.ReportMetric(float64(evaluations), "evaluations")
		})
		s.Release()
	}
}
