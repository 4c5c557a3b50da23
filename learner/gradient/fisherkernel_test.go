package gradient

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/batched"
	"github.com/dbqpg/dbqpg/learner/critic"
)

var exact = Options{Solver: config.ConjugateGradient, FisherKernel: config.Exact, Fisher: config.Empirical, Seed: 1}

// The exact Fisher kernel on the golden batches against dense algebra, with the radial
// basis function without a grid.
func TestGoldenExactFisherKernel(t *testing.T) {
	for _, name := range []string{"hopper_gae", "swimmer_returns"} {
		t.Run(name, func(t *testing.T) {
			arrays := golden(t, name)
			batch, err := Parse(arrays)
			if err != nil {
				t.Fatal(err)
			}
			v := dampedVectors(t, batch)
			var factor mat.Cholesky
			if !factor.Factorize(exactKernel(batch, arrays["expect_feature_scaled"].Floats, v)) {
				t.Fatal("the exact kernel is not positive definite")
			}
			y, alpha := mat.NewVecDense(batch.Samples(), batch.Targets), new(mat.VecDense)
			if err := factor.SolveVecTo(alpha, y); err != nil {
				t.Fatal(err)
			}
			answers := answer(t, cpu.New(2), arrays, exact)
			if e := relativeError(answers["expect_alpha"].Floats, alpha.RawVector().Data); !(e <= 1e-4) {
				t.Errorf("alpha: relative difference %.2g from the dense one", e)
			}
			n := float64(batch.Samples())
			want := -(mat.Dot(y, alpha) + factor.LogDet() + n*math.Log(2*math.Pi)) / 2 / n
			got, stdErr := answers["expect_mll"].Floats[0], answers["expect_mll_std_err"].Floats[0]
			t.Logf("log likelihood %.6f ± %.1g, exactly %.6f", got, stdErr, want)
			if !(math.Abs(got-want) <= 4*stdErr+1e-5) || !(stdErr < 0.01) {
				t.Errorf("log likelihood %g ± %g, exactly %g", got, stdErr, want)
			}
		})
	}
}

// dampedVectors returns the factor V diag(S²/(S² + n damping))^1/2 of the exact kernel over n,
// of all singular values of a batch's scores.
func dampedVectors(t *testing.T, x *Batch) *mat.Dense {
	b := cpu.New(2)
	s := compute.NewScope(b)
	defer s.Release()
	n := x.Samples()
	svd, err := linop.ExactSVD(s, scores(s, x), min(n, len(x.Policy)))
	if err != nil {
		t.Fatal(err)
	}
	v := mat.NewDense(n, len(svd.S), compute.ToSlice(b, svd.V))
	v.Apply(func(_, j int, value float64) float64 {
		return value * svd.S[j] / math.Sqrt(svd.S[j]*svd.S[j]+float64(n)*x.Damping)
	}, v)
	return v
}

// scores returns U of a batch.
func scores(s *compute.Scope, x *Batch) *linop.Scores {
	n := x.Samples()
	at := batched.New(s, x.Shape, x.Policy, s.FromSlice(n, x.Shape.Observation, x.Observations))
	return at.Scores(s, s.FromSlice(n, x.Shape.Action, x.Actions))
}

func relativeError(got, want []float64) float64 {
	squares, errors := 0.0, 0.0
	for i, w := range want {
		squares, errors = squares+w*w, errors+(got[i]-w)*(got[i]-w)
	}
	return math.Sqrt(errors / squares)
}

// The two approaches on a real batch: what the leading singular vectors give comes to
// what exact products give as the rank grows, with the damping that these have.
func TestApproachesAgreeAsTheRankGrows(t *testing.T) {
	x, err := Parse(golden(t, "swimmer_returns"))
	if err != nil {
		t.Fatal(err)
	}
	x.Damping = 1e-5
	b := cpu.New(2)
	s := compute.NewScope(b)
	defer s.Release()
	n, u, v := x.Samples(), scores(s, x), dampedVectors(t, x)
	_, full := v.Dims()
	features := critic.Evaluate(s, x.Critic, s.FromSlice(n, x.Shape.Observation, x.Observations)).Features()
	data := gp.Data{Features: features, Fisher: s.FromSlice(n, full, v.RawMatrix().Data),
		Targets: s.FromSlice(n, 1, x.Targets)}
	alpha := func(solver gp.Solver, data gp.Data) []float64 {
		p, err := solver.Fit(s, x.Kernel, data)
		if err != nil {
			t.Fatal(err)
		}
		return compute.ToSlice(b, p.Alpha())
	}
	exact, err := gp.ExactFisher{}.Kernel(s, u, linop.NewEmpiricalFisher(b, u), x.Damping)
	if err != nil {
		t.Fatal(err)
	}
	want := alpha(gp.Iterative{FisherKernel: exact}, data)
	last := math.Inf(1)
	for _, rank := range []int{5, 20, 50, 100, full} {
		part := data
		part.Fisher = data.Fisher.ColRange(0, rank)
		e := relativeError(alpha(gp.Direct{}, part), want)
		t.Logf("rank %d: relative difference %.2g", rank, e)
		if !(e < last) {
			t.Errorf("rank %d differs by %g, a smaller one by %g", rank, e, last)
		}
		last = e
	}
	if last > 1e-5 {
		t.Errorf("at full rank they differ by %g", last)
	}
}
