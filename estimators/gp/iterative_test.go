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

// The two solvers agree on every kernel.
func TestSolversAgree(t *testing.T) {
	x := newBatch(seeded(t, 6), 40, 2, 3)
	for name, k := range kernels() {
		t.Run(name, func(t *testing.T) {
			onBackend(t, cpu.New(2), func(t *testing.T, s *compute.Scope) {
				data := x.upload(s)
				direct := fit(t, s, k, data)
				iterative, err := Iterative{LogDet: linop.LogDet{Probes: 200}, Probes: 200}.Fit(s, k, data)
				if err != nil {
					t.Fatal(err)
				}
				b := s.Backend()
				wantNear(t, "alpha", compute.ToSlice(b, iterative.Alpha()), compute.ToSlice(b, direct.Alpha()), 1e-6)
				for name, core := range map[string]func(Posterior) (*mat.SymDense, error){
					"V'K^-1 V": Posterior.FisherCore, "V'(c1 K_s + noise I)^-1 V": Posterior.StateCore} {
					got, err := core(iterative)
					if err != nil {
						t.Fatal(err)
					}
					want, err := core(direct)
					if err != nil {
						t.Fatal(err)
					}
					wantNear(t, name, mat.DenseCopyOf(got).RawMatrix().Data, mat.DenseCopyOf(want).RawMatrix().Data, 1e-6)
				}
				// 200 random probes: a few percent of the log determinant.
				if got, want := iterative.LogLikelihood(), direct.LogLikelihood(); math.Abs(got-want) > 0.05*(1+math.Abs(want)) {
					t.Errorf("log likelihood %g, directly %g", got, want)
				}
				compareGradients(t, s, iterative.(*iterativePosterior), direct)
			})
		})
	}
}

// compareGradients gives the iterative posterior the unit vectors for probes, with
// which its traces are exact, and then random ones.
func compareGradients(t *testing.T, s *compute.Scope, iterative *iterativePosterior, direct Posterior) {
	b, n := s.Backend(), iterative.alpha.Rows
	want, got := s.New(n, iterative.scaled.Cols), s.New(n, iterative.scaled.Cols)
	wantHyper, err := direct.Gradient(want)
	if err != nil {
		t.Fatal(err)
	}
	identity := mat.NewDense(n, n, nil)
	for i := range n {
		identity.Set(i, i, 1)
	}
	hyper, err := iterative.gradient(got, s.FromSlice(n, n, identity.RawMatrix().Data), 1)
	if err != nil {
		t.Fatal(err)
	}
	compareHyper(t, hyper, wantHyper, 1e-5)
	if iterative.kernel.C1 != 0 {
		wantNear(t, "features", compute.ToSlice(b, got), compute.ToSlice(b, want), 1e-5)
	}
	if hyper, err = iterative.Gradient(got); err != nil {
		t.Fatal(err)
	}
	compareHyper(t, hyper, wantHyper, 0.3)
	if iterative.kernel.C1 != 0 {
		wantNear(t, "features by random probes", compute.ToSlice(b, got), compute.ToSlice(b, want), 0.3)
	}
}

func TestIterativeSaysWhenItDoesNotConverge(t *testing.T) {
	x := newBatch(seeded(t, 7), 60, 3, 4)
	onBackend(t, computetest.Naive(), func(t *testing.T, s *compute.Scope) {
		p, err := Iterative{CG: linop.CG{MaxIterations: 2}}.Fit(s, someKernel(), x.upload(s))
		var e *linop.NotConvergedError
		if p != nil || !errors.As(err, &e) || e.Iterations != 2 {
			t.Errorf("two iterations: %v, %v", p, err)
		}
	})
}
