package linop_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/computetest"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/estimators/linop/linoptest"
)

func toMat(b compute.Backend, x compute.Block) *mat.Dense {
	if x.Rows == 0 || x.Cols == 0 {
		return &mat.Dense{}
	}
	return mat.NewDense(x.Rows, x.Cols, compute.ToSlice(b, x))
}

// checkOrthonormal wants x'x = I.
func checkOrthonormal(t rapid.TB, name string, x *mat.Dense, tolerance float64) {
	t.Helper()
	var gram mat.Dense
	gram.Mul(x.T(), x)
	if k, _ := gram.Dims(); !mat.EqualApprox(&gram, scaledIdentity(k, 1), tolerance) {
		t.Errorf("the columns of %s are not orthonormal: %v", name, mat.Formatted(&gram, mat.Squeeze()))
	}
}

// checkExact compares a decomposition with LAPACK's of the dense twin: singular
// values, and P S V' with the best approximation, which does not depend on signs.
func checkExact(t rapid.TB, b compute.Backend, svd *linop.SVD, u *mat.Dense, tolerance float64) {
	t.Helper()
	s := compute.NewScope(b)
	defer s.Release()
	p, v := toMat(b, linop.MulOut(s, svd.P)), toMat(b, svd.V)
	checkOrthonormal(t, "P", p, tolerance)
	checkOrthonormal(t, "V", v, tolerance)
	var want mat.SVD
	if !want.Factorize(u, mat.SVDThin) {
		t.Fatal("no reference decomposition")
	}
	k, values := len(svd.S), want.Values(nil)
	for i, s := range svd.S {
		if math.Abs(s-values[i]) > tolerance*values[0] {
			t.Fatalf("singular value %d is %g, want %g", i, s, values[i])
		}
	}
	var left, right, got, best mat.Dense
	want.UTo(&left)
	want.VTo(&right)
	product := func(dst *mat.Dense, p, v mat.Matrix, s []float64) {
		var scaled mat.Dense
		scaled.Mul(p, mat.NewDiagDense(k, slices.Clone(s[:k])))
		dst.Mul(&scaled, v.T())
	}
	rows, cols := u.Dims()
	product(&got, p, v, svd.S)
	product(&best, left.Slice(0, rows, 0, k), right.Slice(0, cols, 0, k), values)
	if !mat.EqualApprox(&got, &best, tolerance*values[0]) {
		t.Fatalf("P S V' is not the best approximation of rank %d", k)
	}
}

func TestExactSVD(t *testing.T) {
	linoptest.EachBackend(t, func(t *testing.T, b compute.Backend) {
		rapid.Check(t, func(t *rapid.T) {
			rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			n := rapid.IntRange(1, 30).Draw(t, "samples")
			rank := rapid.IntRange(1, n).Draw(t, "rank")
			s := compute.NewScope(b)
			defer s.Release()
			data := drawScores(rng, n)
			svd, err := linop.ExactSVD(s, data.build(s), rank)
			if err != nil || len(svd.S) != rank {
				t.Fatalf("%d singular values, %v", len(svd.S), err)
			}
			checkExact(t, b, svd, data.dense(), 1e-9)
		})
	})
}

// TestRandomizedSVDWithoutLoss asks for so many columns and groups that neither
// sketch loses anything. The seeds are fixed, because one square sketch in a
// thousand or so is singular by chance.
func TestRandomizedSVDWithoutLoss(t *testing.T) {
	linoptest.EachBackend(t, func(t *testing.T, b compute.Backend) {
		for seed := uint64(100); seed < 130; seed++ {
			rng := rand.New(rand.NewPCG(seed, 0))
			n := 1 + rng.IntN(30)
			least := (4*n + 4) / 5
			rank := least + rng.IntN(n-least+1)
			s := compute.NewScope(b)
			data := drawScores(rng, n)
			svd, err := linop.RandomizedSVD(s, data.build(s), rank, rng)
			if err != nil || len(svd.S) != rank {
				t.Fatalf("seed %d, %d samples, rank %d: %+v, %v", seed, n, rank, svd, err)
			}
			checkExact(t, b, svd, data.dense(), 1e-5)
			s.Release()
		}
	})
}

func TestRankErrors(t *testing.T) {
	s := compute.NewScope(computetest.Naive())
	u := drawScores(rand.New(rand.NewPCG(1, 0)), 20).build(s)
	for _, rank := range []int{-1, 0, 21} {
		var rankError *linop.RankError
		if _, err := linop.ExactSVD(s, u, rank); !errors.As(err, &rankError) {
			t.Errorf("rank %d: %v", rank, err)
		}
		_, err := linop.RandomizedSVD(s, u, rank, rand.New(rand.NewPCG(1, 0)))
		if !errors.As(err, &rankError) || rankError.Rank != rank || rankError.Samples != 20 {
			t.Errorf("rank %d: %v", rank, err)
		}
		for _, number := range []string{"20 samples", "policy parameters"} {
			if !strings.Contains(err.Error(), number) {
				t.Errorf("%q does not name the %s", err, number)
			}
		}
	}
}

// TestDeficientScores has 25 samples of which 5 are different, and none at all.
func TestDeficientScores(t *testing.T) {
	linoptest.EachBackend(t, func(t *testing.T, b compute.Backend) {
		for _, different := range []int{5, 0} {
			s := compute.NewScope(b)
			rng := rand.New(rand.NewPCG(6, 0))
			data := repeated(drawScores(rng, 5), 5, float64(different))
			for name, decompose := range map[string]func() (*linop.SVD, error){
				"exact":      func() (*linop.SVD, error) { return linop.ExactSVD(s, data.build(s), 12) },
				"randomized": func() (*linop.SVD, error) { return linop.RandomizedSVD(s, data.build(s), 12, rng) },
			} {
				svd, err := decompose()
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				_, left := svd.P.Dims()
				if len(svd.S) != different || left != different || svd.V.Cols != different {
					t.Errorf("%s: singular values %v of %d different samples", name, svd.S, different)
				} else if different > 0 {
					checkExact(t, b, svd, data.dense(), 1e-6)
				}
			}
			s.Release()
		}
	})
}

// repeated returns d's samples several times over, with their signals multiplied by scale.
func repeated(d *scoreData, times int, scale float64) *scoreData {
	r := &scoreData{n: times * d.n, in: d.in, out: d.out, actions: d.actions}
	for l := range d.in {
		r.inputs = append(r.inputs, slices.Repeat(d.inputs[l], times))
		r.signals = append(r.signals, slices.Repeat(d.signals[l], times))
		for i := range r.signals[l] {
			r.signals[l][i] *= scale
		}
	}
	r.logStd = slices.Repeat(d.logStd, times)
	for i := range r.logStd {
		r.logStd[i] *= scale
	}
	return r
}

func TestSVDOfNaN(t *testing.T) {
	linoptest.EachBackend(t, func(t *testing.T, b compute.Backend) {
		s := compute.NewScope(b)
		defer s.Release()
		data := drawScores(rand.New(rand.NewPCG(7, 0)), 20)
		data.signals[1][3] = math.NaN()
		var notFinite *linop.NotFiniteError
		if _, err := linop.ExactSVD(s, data.build(s), 4); !errors.As(err, &notFinite) {
			t.Errorf("exact: %v", err)
		}
		if _, err := linop.RandomizedSVD(s, data.build(s), 4, rand.New(rand.NewPCG(7, 0))); !errors.As(err,
			&notFinite) {
			t.Errorf("randomized: %v", err)
		}
	})
}

// TestRandomizedSVDRepeats wants the same bits from the same generator, whatever
// the number of processors, and others from another.
func TestRandomizedSVDRepeats(t *testing.T) {
	data := drawScores(rand.New(rand.NewPCG(9, 0)), linoptest.Tall)
	run := func(procs int, seed uint64) []float64 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		b := cpu.New(procs)
		s := compute.NewScope(b)
		defer s.Release()
		svd, err := linop.RandomizedSVD(s, data.build(s), 10, rand.New(rand.NewPCG(seed, 0)))
		if err != nil {
			t.Fatal(err)
		}
		return slices.Concat(svd.S, compute.ToSlice(b, linop.MulOut(s, svd.P)), compute.ToSlice(b, svd.V))
	}
	first := run(2, 1)
	for _, procs := range []int{1, 2, 4} {
		if !slices.Equal(run(procs, 1), first) {
			t.Errorf("other bits on %d processors", procs)
		}
	}
	if slices.Equal(run(2, 2), first) {
		t.Error("the generator makes no difference")
	}
}

// TestPreconditioner solves with the damped Fisher matrix, with its top taken off.
func TestPreconditioner(t *testing.T) {
	linoptest.EachBackend(t, func(t *testing.T, b compute.Backend) {
		const ridge = 0.01
		s := compute.NewScope(b)
		defer s.Release()
		rng := rand.New(rand.NewPCG(11, 0))
		data := drawScores(rng, 40)
		u := data.dense()
		p, n := u.Dims()
		svd, err := linop.ExactSVD(s, data.build(s), 30)
		if err != nil {
			t.Fatal(err)
		}
		var fisher mat.Dense
		fisher.Mul(u, u.T())
		fisher.Scale(1/float64(n), &fisher)
		fisher.Add(&fisher, scaledIdentity(p, ridge))
		y, x := s.FromSlice(p, 1, linoptest.Normal(rng, p)), s.New(p, 1)
		plain, err := linop.CG{MaxIterations: 500}.Solve(b, dense(s, &fisher), x, y)
		if err != nil {
			t.Fatal(err)
		}
		with, err := linop.CG{Preconditioner: svd.Preconditioner(s, 1/float64(n), ridge)}.Solve(b, dense(s, &fisher), x,
			y)
		if err != nil || with.Iterations >= plain.Iterations {
			t.Errorf("%d iterations with the preconditioner, %d without (%v)", with.Iterations, plain.Iterations, err)
		}
	})
}
