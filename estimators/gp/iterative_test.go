package gp

import (
	"errors"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/computetest"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// The two solvers agree on every kernel: with a preconditioner of the kernel's rank in
// everything, with a poor one only as far as random probes reach in the likelihood and
// its gradient. The closed form leaves out what is 1e-6 of a derivative of K_s, which may be 1e-5 of the
// likelihood's, a difference of two terms.
func TestSolversAgree(t *testing.T) {
	x := newBatch(seeded(t, 6), 40, 2, 3)
	for name, k := range cases() {
		for _, c := range []struct {
			name              string
			solver            Iterative
			value, derivative float64 // tolerances
		}{
			{"default", Iterative{}, 1e-8, 1e-4},
			{"rank 12", Iterative{Rank: 12, LogDet: linop.LogDet{Probes: 200, Steps: 40}, Probes: 300}, 0.03, 0.3},
		} {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				onBackend(t, cpu.New(2), func(t *testing.T, s *compute.Scope) {
					data := x.upload(s)
					direct := fit(t, s, k, data)
					iterative, err := c.solver.Fit(s, k, data)
					if err != nil {
						t.Fatal(err)
					}
					wantNear(t, "alpha", compute.ToSlice(s.Backend(), iterative.Alpha()),
						compute.ToSlice(s.Backend(), direct.Alpha()), 1e-6)
					compareCores(t, iterative, direct)
					if got, want := likelihood(t, iterative),
						likelihood(t, direct); math.Abs(got-want) > c.value*(1+math.Abs(want)) {
						t.Errorf("log likelihood %g, directly %g", got, want)
					}
					compareGradients(t, s, iterative, direct, c.derivative)
				})
			})
		}
	}
}

// compareCores compares V'K^-1 V and V'(c1 K_s + noise I)^-1 V.
func compareCores(t *testing.T, got, want Posterior) {
	t.Helper()
	for name, core := range map[string]func(Posterior) (*mat.SymDense, error){
		"Fisher core": Posterior.FisherCore, "state core": Posterior.StateCore} {
		a, err := core(got)
		if err != nil {
			t.Fatal(err)
		}
		b, err := core(want)
		if err != nil {
			t.Fatal(err)
		}
		wantNear(t, name, mat.DenseCopyOf(a).RawMatrix().Data, mat.DenseCopyOf(b).RawMatrix().Data, 1e-6)
	}
}

// compareGradients compares the likelihood's gradients; the features' only where they
// matter.
func compareGradients(t *testing.T, s *compute.Scope, iterative, direct Posterior, tolerance float64) {
	t.Helper()
	kernel := direct.(*directPosterior).kernel
	want, got := s.New(iterative.Alpha().Rows, 2), s.New(iterative.Alpha().Rows, 2)
	wantHyper, err := direct.Gradient(want)
	if err != nil {
		t.Fatal(err)
	}
	hyper, err := iterative.Gradient(got)
	if err != nil {
		t.Fatal(err)
	}
	compareHyper(t, hyper, wantHyper, tolerance)
	if kernel.C1 != 0 {
		wantNear(t, "features", compute.ToSlice(s.Backend(), got), compute.ToSlice(s.Backend(), want), tolerance)
	}
}

// The bilinear forms by themselves: with the unit vectors for probes the traces are
// exact, whatever the preconditioner.
func TestExactTraces(t *testing.T) {
	x := newBatch(seeded(t, 8), 30, 2, 3)
	onBackend(t, cpu.New(2), func(t *testing.T, s *compute.Scope) {
		data := x.upload(s)
		direct := fit(t, s, someKernel(), data)
		iterative, err := Iterative{Rank: 2}.Fit(s, someKernel(), data)
		if err != nil {
			t.Fatal(err)
		}
		identity := make([]float64, x.n*x.n)
		for i := range x.n {
			identity[i*x.n+i] = 1
		}
		want, got := s.New(x.n, x.d), s.New(x.n, x.d)
		wantHyper, err := direct.Gradient(want)
		if err != nil {
			t.Fatal(err)
		}
		unit := s.FromSlice(x.n, x.n, identity)
		hyper, err := iterative.(*iterativePosterior).gradient(got, unit, unit)
		if err != nil {
			t.Fatal(err)
		}
		compareHyper(t, hyper, wantHyper, 1e-6)
		wantNear(t, "features", compute.ToSlice(s.Backend(), got), compute.ToSlice(s.Backend(), want), 1e-6)
	})
}

func TestIterativeSaysWhenItDoesNotConverge(t *testing.T) {
	x := newBatch(seeded(t, 7), 60, 3, 4)
	onBackend(t, computetest.Naive(), func(t *testing.T, s *compute.Scope) {
		p, err := Iterative{Rank: 1, CG: linop.CG{MaxIterations: 2}}.Fit(s, someKernel(), x.upload(s))
		var e *linop.NotConvergedError
		if p != nil || !errors.As(err, &e) || e.Iterations != 2 {
			t.Errorf("two iterations: %v, %v", p, err)
		}
	})
}
