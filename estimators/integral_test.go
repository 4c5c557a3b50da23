package estimators_test

import (
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
)

// gradient returns the gradient of Bayesian quadrature with an integral.
func (x solved) gradient(t *testing.T, integral estimators.Integral) *mat.Dense {
	t.Helper()
	q := x.quadrature()
	q.Integral = integral
	x.batch.Fisher = x.empirical(noDamping)
	e, err := q.Estimate(x.scope, &x.batch)
	if err != nil {
		t.Fatal(err)
	}
	return download(x.b, e.Gradient)
}

// exactGradient returns kappa U (A + kappa n Q)^-1 y with the projection Q on U's row space and
// A = c1 K_s + noise I: the Fisher kernel of its definition, without truncation or damping.
func (x problem) exactGradient() *mat.Dense {
	_, _, v := x.decompose(x.rank())
	var k, g mat.Dense
	k.Mul(v, v.T())
	k.Scale(x.kappa()*float64(x.n), &k)
	k.Add(&k, x.stateKernel())
	g.Product(x.scores, inverse(x.noisy(&k)), x.targets)
	g.Scale(x.kappa(), &g)
	return &g
}

// Without the state kernel the completed integral of a truncated kernel is that of the whole
// kernel, for any rank and any noise; the plain one is far away where the noise is small.
func TestCompletionIsExactWithoutTheStateKernel(t *testing.T) {
	for _, seed := range []uint64{40, 41} {
		for _, noise := range []float64{1, 1e-2, 1e-4} {
			x := newProblem(t, seed, 7, 30)
			x.kernel.C1, x.kernel.Noise = 0, noise
			want := x.exactGradient()
			backends(t, func(t *testing.T, s *compute.Scope) {
				for _, rank := range []int{2, 5, x.rank()} {
					x := x.solve(t, s, rank)
					wantNear(t, "completed", x.gradient(t, estimators.CompletedIntegral{}), want, 1e-9)
				}
				if noise == 1e-4 {
					if c := cosine(x.solve(t, s, 2).gradient(t, estimators.PlainIntegral{}), want); c > 0.9 {
						t.Errorf("the plain integral has cosine %g to the exact one, so this test shows nothing", c)
					}
				}
			})
		}
	}
}

// The completed gradient is Monte Carlo's of the targets less the posterior mean of their state part, for any rank.
// With the kernel of full rank its covariance is that of Monte Carlo, given this baseline, and what the baseline's own
// adds.
func TestQuadratureIsMonteCarloWithABaseline(t *testing.T) {
	for name, size := range map[string][2]int{"more samples": {7, 30}, "more parameters": {30, 12}} {
		t.Run(name, func(t *testing.T) {
			x := newProblem(t, 44, size[0], size[1])
			state, factor := x.stateKernel(), x.kappa()/(x.kernel.Noise+x.kappa()*float64(x.n))
			for _, rank := range []int{2, 5, x.rank()} {
				_, _, v := x.decompose(rank)
				var k, baseline, want mat.Dense
				k.Mul(v, v.T())
				k.Scale(x.kappa()*float64(x.n), &k)
				k.Add(&k, state)
				gain := inverse(x.noisy(&k))
				baseline.Product(state, gain, x.targets)
				baseline.Sub(x.targets, &baseline)
				want.Mul(x.scores, &baseline)
				want.Scale(factor, &want)
				backends(t, func(t *testing.T, s *compute.Scope) {
					x := x.solve(t, s, rank)
					wantNear(t, "gradient", x.gradient(t, estimators.CompletedIntegral{}), &want, 1e-6)
					if rank != x.rank() {
						return
					}
					var explained, g mat.Dense
					explained.Product(state, gain, state)
					explained.Sub(state, &explained)
					g.Scale(factor*x.kernel.Noise, x.fisherMatrix())
					covariance := x.sandwich(&g, factor*factor, &explained)
					covariance.Scale(1/x.kappa(), covariance)
					wantNear(t, "covariance / kappa", dense(s, x.covariance(t, x.empirical(noDamping))), covariance,
						1e-6)
				})
			}
		})
	}
}

// With the state kernel it is close, and the closer the more directions the rank keeps.
func TestCompletionBesideTheStateKernel(t *testing.T) {
	for _, noise := range []float64{0.3, 1e-2, 1e-4} {
		x := newProblem(t, 42, 7, 200)
		x.kernel.Noise = noise
		want := x.exactGradient()
		backends(t, func(t *testing.T, s *compute.Scope) {
			for _, rank := range []int{3, x.rank()} {
				if c := cosine(x.solve(t, s, rank).gradient(t, estimators.CompletedIntegral{}), want); c < 0.99 {
					t.Errorf("noise %g, rank %d: cosine %g to the exact gradient, want 0.99", noise, rank, c)
				}
			}
		})
	}
}

// The damped kernel's own integral is kappa E[u k_f] alpha = kappa G (G + damping I)^-1 U alpha.
func TestDampedIntegralAgainstDense(t *testing.T) {
	x := newProblem(t, 43, 7, 30)
	const damping = 0.05
	var damped, fisher, want mat.Dense
	damped.CloneFrom(inverse(plusDiagonal(x.fisherMatrix(), damping)))
	fisher.Product(x.scores.T(), &damped, x.scores)
	fisher.Scale(x.kappa(), &fisher)
	fisher.Add(&fisher, x.stateKernel())
	want.Product(x.fisherMatrix(), &damped, x.scores, inverse(x.noisy(&fisher)), x.targets)
	want.Scale(x.kappa(), &want)
	backends(t, func(t *testing.T, s *compute.Scope) {
		x := x.solve(t, s, x.rank())
		x.batch.Fisher = x.empirical(damping)
		kernel, err := gp.ExactFisher{}.Kernel(s, x.u, x.batch.Fisher.Matrix, damping)
		if err != nil {
			t.Fatal(err)
		}
		q := &estimators.Quadrature{Kernel: x.kernel, Solver: gp.Iterative{FisherKernel: kernel},
			Integral: estimators.DampedIntegral{Kernel: kernel}}
		e, err := q.Estimate(s, &x.batch)
		if err != nil {
			t.Fatal(err)
		}
		wantNear(t, "gradient", download(x.b, e.Gradient), &want, 1e-5)
	})
}

func cosine(a, b *mat.Dense) float64 {
	return mat.Dot(a.ColView(0), b.ColView(0)) / mat.Norm(a, 2) / mat.Norm(b, 2)
}
