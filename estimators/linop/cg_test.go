package linop_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/computetest"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/estimators/linop/linoptest"
)

// positive returns a random symmetric positive definite matrix, B'B + ridge I.
func positive(rng *rand.Rand, n int, ridge float64) *mat.SymDense {
	factor := mat.NewDense(n, n, linoptest.Normal(rng, n*n))
	var a mat.SymDense
	a.SymOuterK(1, factor.T())
	for i := range n {
		a.SetSym(i, i, a.At(i, i)+ridge)
	}
	return &a
}

func dense(s *compute.Scope, a mat.Matrix) linop.Operator {
	rows, cols := a.Dims()
	return linop.NewDense(s.Backend(), s.FromSlice(rows, cols, mat.DenseCopyOf(a).RawMatrix().Data))
}

func TestCGSolves(t *testing.T) {
	linoptest.EachBackend(t, func(t *testing.T, b compute.Backend) {
		rapid.Check(t, func(t *rapid.T) {
			rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			n, k := rapid.IntRange(1, 30).Draw(t, "n"), rapid.IntRange(1, 5).Draw(t, "columns")
			a := positive(rng, n, 1)
			y := mat.NewDense(n, k, linoptest.Normal(rng, n*k))
			if k > 1 {
				y.SetCol(0, make([]float64, n)) // one column is done before the others
			}
			var want mat.Dense
			if err := want.Solve(a, y); err != nil {
				t.Fatal(err)
			}
			s := compute.NewScope(b)
			defer s.Release()
			cg := linop.CG{MaxIterations: 10*n + 10, Tolerance: 1e-24}
			if rapid.Bool().Draw(t, "precondition") {
				diagonal := mat.NewDiagDense(n, nil)
				for i := range n {
					diagonal.SetDiag(i, 1/a.At(i, i))
				}
				cg.Preconditioner = dense(s, diagonal)
			}
			x := s.FromSlice(n, k, y.RawMatrix().Data)
			result, err := cg.Solve(b, dense(s, a), x, x)
			if err != nil {
				t.Fatalf("%v (%+v)", err, result)
			}
			got := mat.NewDense(n, k, compute.ToSlice(b, x))
			if !mat.EqualApprox(got, &want, 1e-6*(1+mat.Norm(&want, math.Inf(1)))) {
				t.Fatalf("solution %v, want %v", mat.Formatted(got), mat.Formatted(&want))
			}
		})
	})
}

// TestCGColumns solves a block and each of its columns alone: the columns must not
// know of one another.
func TestCGColumns(t *testing.T) {
	linoptest.EachBackend(t, func(t *testing.T, b compute.Backend) {
		const n, k = 25, 3
		rng := rand.New(rand.NewPCG(8, 0))
		s := compute.NewScope(b)
		defer s.Release()
		a := dense(s, positive(rng, n, 0.1))
		y, x, one := s.FromSlice(n, k, linoptest.Normal(rng, n*k)), s.New(n, k), s.New(n, 1)
		cg := linop.CG{MaxIterations: 200, Tolerance: 1e-24}
		if _, err := cg.Solve(b, a, x, y); err != nil {
			t.Fatal(err)
		}
		for j := range k {
			if _, err := cg.Solve(b, a, one, y.Col(j)); err != nil {
				t.Fatal(err)
			}
			together, alone := compute.ToSlice(b, x.Col(j)), compute.ToSlice(b, one)
			for i := range alone {
				if math.Abs(together[i]-alone[i]) > 1e-8*(1+math.Abs(alone[i])) {
					t.Fatalf("x[%d, %d] is %g in a block, %g alone", i, j, together[i], alone[i])
				}
			}
		}
	})
}

// TestCGFindsFiniteTermination is the method's theorem: as many iterations as A has
// different eigenvalues.
func TestCGFindsFiniteTermination(t *testing.T) {
	const n = 300
	rng := rand.New(rand.NewPCG(4, 0))
	b := cpu.New(0)
	s := compute.NewScope(b)
	defer s.Release()
	low := s.FromSlice(n, 4, linoptest.Normal(rng, n*4))
	a := linop.NewSum(b, linop.NewScaledIdentity(b, n, 2), linop.NewLowRank(b, 1, low)) // five eigenvalues
	result, err := linop.CG{Tolerance: 1e-20}.Solve(b, a, s.New(n, 1), s.FromSlice(n, 1, linoptest.Normal(rng, n)))
	if err != nil || result.Iterations > 6 {
		t.Errorf("%+v, %v; want 5 iterations or one more", result, err)
	}
}

func TestCGErrors(t *testing.T) {
	b := computetest.Naive()
	s := compute.NewScope(b)
	rng := rand.New(rand.NewPCG(5, 0))
	const n = 20
	y := s.FromSlice(n, 2, linoptest.Normal(rng, 2*n))

	var notConverged *linop.NotConvergedError
	result, err := linop.CG{MaxIterations: 3}.Solve(b, dense(s, positive(rng, n, 1e-3)), s.New(n, 2), y)
	if !errors.As(err, &notConverged) || notConverged.Iterations != 3 || notConverged.Residual != result.Residual ||
		!(result.Residual > 1e-10) {
		t.Errorf("three iterations of an ill-conditioned system: %v, %+v", err, result)
	}

	var breakdown *linop.BreakdownError
	if _, err := (linop.CG{}).Solve(b, linop.NewScaledIdentity(b, n, -1), s.New(n, 2), y); !errors.As(err,
		&breakdown) || breakdown.Value >= 0 {
		t.Errorf("a negative definite matrix: %v", err)
	}
	cg := linop.CG{Preconditioner: linop.NewScaledIdentity(b, n, -1)}
	if _, err := cg.Solve(b, linop.NewScaledIdentity(b, n, 1), s.New(n, 2), y); !errors.As(err, &breakdown) ||
		breakdown.Iteration != 0 {
		t.Errorf("a negative definite preconditioner: %v", err)
	}
	if _, err := (linop.CG{}).Solve(b, linop.NewScaledIdentity(b, n, math.NaN()), s.New(n, 2), y); !errors.As(err,
		&breakdown) {
		t.Errorf("a matrix of NaN: %v", err)
	}
	last := errors.New("the third product")
	if result, err := (linop.CG{}).SolveFunc(b, failing(2, last), s.New(n, 2), y); !errors.Is(err, last) ||
		result.Iterations != 2 {
		t.Errorf("products that fail: %+v, %v", result, err)
	}
	compute.Fill(b, y.Row(3).Col(1), math.NaN())
	if _, err := (linop.CG{}).Solve(b, linop.NewScaledIdentity(b, n, 1), s.New(n, 2), y); !errors.As(err, &breakdown) ||
		breakdown.Column != 1 {
		t.Errorf("NaN in column 1: %v", err)
	}
}

// distant counts how often the host waits for a backend that says it is distant.
type distant struct {
	compute.Backend
	waits int
}

func (d *distant) Distant() bool { return true }

func (d *distant) Download(dst []float64, src compute.Block) {
	d.waits++
	d.Backend.Download(dst, src)
}

func (d *distant) Dot(x, y compute.Block) float64 {
	d.waits++
	return d.Backend.Dot(x, y)
}

// TestCGOnADistantBackend reads the history only every few steps: the solution is
// bit-identical, in spite of superfluous steps.
func TestCGOnADistantBackend(t *testing.T) {
	const n, k = 60, 3
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		matrix, rhs := positive(rng, n, 5), linoptest.Normal(rng, n*k)
		solve := func(b compute.Backend) (linop.Result, []float64) {
			s := compute.NewScope(b)
			defer s.Release()
			x := s.New(n, k)
			result, err := linop.CG{MaxIterations: 100}.Solve(b, dense(s, matrix), x, s.FromSlice(n, k, rhs))
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			return result, compute.ToSlice(b, x)
		}
		near, want := solve(computetest.Naive())
		counting := &distant{Backend: computetest.Naive()}
		far, got := solve(counting)
		if near != far || !slices.Equal(got, want) {
			t.Errorf("seed %d: %+v near, %+v far", seed, near, far)
		}
		// The start, every eighth step, and the solution.
		if most := 1 + (far.Iterations+7)/8 + 1; counting.waits > most {
			t.Errorf("seed %d: the host waited %d times in %d iterations, want at most %d", seed, counting.waits,
				far.Iterations, most)
		}
	}
}
