package estimators_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
)

// Each test quotes what the paper says and checks it. The paper has no Fisher variance v: its
// c2 is kappa = c2 v here, with v far from 1. Its Fisher matrix has no damping; the tests' is
// too small to matter.
const noDamping = 1e-12

// "approximates the integral in Eq. (policy_gradient_theorem) by the finite sum
// L^MC = 1/n sum_i Q(z_i) u(z_i) = 1/n U Q" (eqn:Monte-Carlo_PG).
func TestMonteCarloIsTheFiniteSum(t *testing.T) {
	x := newProblem(t, 1, 7, 12)
	want := mat.NewVecDense(x.p, nil)
	for i := range x.n {
		want.AddScaledVec(want, x.targets.AtVec(i)/float64(x.n), x.scores.ColView(i))
	}
	backends(t, func(t *testing.T, s *compute.Scope) {
		x := x.solve(t, s, x.rank())
		e, err := estimators.MonteCarlo{}.Estimate(s, &x.batch)
		if err != nil {
			t.Fatal(err)
		}
		wantNear(t, "gradient", download(x.b, e.Gradient), want, 1e-14)
	})
}

// "the PG mean and covariance can be computed analytically, L^BQ = c2 U (K +
// sigma² I)^-1 Q, C^BQ = c2 G - c2² U (K + sigma² I)^-1 U'" (eq:GP_grad), with
// "K_f = U'G^-1 U, K = c1 K_s + c2 K_f, G = UU'/n" (eqn:kernel_equations).
func TestPosteriorMomentsOfTheGradient(t *testing.T) {
	x := newProblem(t, 2, 7, 30)
	kInverse := inverse(x.fullKernel())
	var mean mat.Dense
	mean.Product(x.scores, kInverse, x.targets)
	mean.Scale(x.kappa(), &mean)
	covariance := x.sandwich(x.fisherMatrix(), -x.kappa(), kInverse)
	backends(t, func(t *testing.T, s *compute.Scope) {
		x := x.solve(t, s, x.rank())
		wantNear(t, "mean", download(x.b, x.dbqpg(t)), &mean, 1e-6)
		got := x.covariance(t, x.empirical(noDamping))
		wantNear(t, "covariance", dense(s, got), covariance, 1e-6)
	})
}

// "removing the Fisher kernel k_f (setting c2 = 0 in Eq. GP_grad) causes L^BQ = 0".
func TestNoGradientWithoutTheFisherKernel(t *testing.T) {
	x := newProblem(t, 3, 7, 12)
	x.kernel.C2 = 0
	backends(t, func(t *testing.T, s *compute.Scope) {
		x := x.solve(t, s, x.rank())
		if norm := mat.Norm(download(x.b, x.dbqpg(t)), 2); norm != 0 {
			t.Errorf("the gradient's norm is %g, want 0", norm)
		}
	})
}

// "removing the state kernel (c1 = 0) reduces the BQ-PG L^BQ to MC-PG L^MC:
// L^BQ = c2/(sigma² + c2 n) U Q", and "the posterior covariance becomes a scalar
// multiple of the prior covariance, C^BQ = sigma² c2/(sigma² + c2 n) G"
// (appendix:MCPG_degenerateofBQ).
func TestMonteCarloIsADegenerateCase(t *testing.T) {
	for name, size := range map[string][2]int{"more samples": {7, 30}, "more parameters": {30, 12}} {
		t.Run(name, func(t *testing.T) {
			x := newProblem(t, 4, size[0], size[1])
			x.kernel.C1 = 0
			spread := x.kernel.Noise + x.kappa()*float64(x.n)
			var mean, covariance mat.Dense
			mean.Mul(x.scores, x.targets)
			mean.Scale(x.kappa()/spread, &mean)
			covariance.Scale(x.kernel.Noise/spread, x.fisherMatrix())
			backends(t, func(t *testing.T, s *compute.Scope) {
				x := x.solve(t, s, x.rank())
				wantNear(t, "mean", download(x.b, x.dbqpg(t)), &mean, 1e-12)
				got := x.covariance(t, x.empirical(noDamping))
				wantNear(t, "covariance", dense(s, got), &covariance, 1e-10)
			})
		})
	}
}

// "For natural gradient L^NBQ = G^-1 L^BQ, the gradient uncertainty can be computed as
// follows: C^NBQ = G^-1 C^BQ G^-1 = c2 (G + c2 U (c1 K_s + sigma² I)^-1 U')^-1"
// (eqn:natural_bq_covariace).
func TestPrecisionOfTheNaturalGradient(t *testing.T) {
	x := newProblem(t, 5, 7, 30)
	backends(t, func(t *testing.T, s *compute.Scope) {
		x := x.solve(t, s, x.rank())
		fisher := x.empirical(noDamping)
		covariance := x.covariance(t, fisher)
		precision := x.precision(t, fisher)
		var natural mat.Dense
		gInverse := inverse(x.fisherMatrix())
		natural.Product(gInverse, dense(s, covariance), gInverse)
		wantNear(t, "C^NBQ", &natural, inverse(dense(s, precision)), 1e-7)
	})
}

// "K_f = U'G^-1 U = n R R'" where U = P Lambda R' (appendix:Fisher_mvm): so
// the process's alpha is that of the Fisher kernel's definition.
func TestFisherKernelBySingularVectors(t *testing.T) {
	x := newProblem(t, 6, 7, 30)
	var alpha mat.Dense
	alpha.Mul(inverse(x.fullKernel()), x.targets)
	backends(t, func(t *testing.T, s *compute.Scope) {
		x := x.solve(t, s, x.rank())
		wantNear(t, "alpha", download(x.b, x.posterior.Alpha()), &alpha, 1e-5)
	})
}

// "UAPG offers PG estimates with a uniform uncertainty, i.e. their gradient covariance
// is the identity matrix": with all p eigenpairs the correction A is the paper's
// C^-1/2, up to the factor that the step size absorbs: A C A' = nu_min I.
func TestUniformUncertainty(t *testing.T) {
	x := newProblem(t, 7, 7, 30)
	backends(t, func(t *testing.T, s *compute.Scope) {
		x := x.solve(t, s, x.rank())
		covariance := x.covariance(t, x.empirical(noDamping))
		pairs := x.pairs(t, estimators.Projected, covariance)
		a := x.columns(x.correction(t, estimators.UAPG{Decompose: estimators.Projected}, x.empirical(noDamping)))
		var got mat.Dense
		got.Product(a, dense(s, covariance), a.T())
		wantNear(t, "A C A'", &got, plusDiagonal(mat.NewDense(x.p, x.p, nil), pairs.Values[x.p-1]), 1e-9)
	})
}

// The same of the natural gradient (eqn:UAPG_npg): A N^-1 A' = I/nu_min where epsilon
// does not bind; and "we replace sqrt(nu_i/nu_delta) with min(sqrt(nu_i/nu_delta), eps)
// to avoid taking large steps along these directions".
func TestUniformUncertaintyOfTheNaturalGradient(t *testing.T) {
	x := newProblem(t, 8, 7, 30)
	backends(t, func(t *testing.T, s *compute.Scope) {
		x := x.solve(t, s, x.rank())
		precision := x.precision(t, x.empirical(noDamping))
		pairs := x.pairs(t, estimators.Projected, precision)
		a := x.columns(x.correction(t, estimators.NaturalUAPG{Epsilon: math.Inf(1), Decompose: estimators.Projected},
			x.empirical(noDamping)))
		var got mat.Dense
		got.Product(a, inverse(dense(s, precision)), a.T())
		wantNear(t, "A N^-1 A'", &got, plusDiagonal(mat.NewDense(x.p, x.p, nil), 1/pairs.Values[x.p-1]), 1e-9)

		const epsilon = 3
		steps, _ := leading(x.columns(x.correction(t,
			estimators.NaturalUAPG{Epsilon: epsilon, Decompose: estimators.Projected}, x.empirical(noDamping))), x.p)
		for j, step := range steps {
			want := min(math.Sqrt(pairs.Values[j]/pairs.Values[x.p-1]), epsilon)
			if math.Abs(step-want) > 1e-9 {
				t.Errorf("the step along direction %d is %g times as long, want %g", j, step, want)
			}
		}
	})
}

// "For c2 << 1 ... the most uncertain gradient directions for vanilla PG approximately
// correspond to the most confident directions for NPG".
func TestVanillaAndNaturalAgreeForSmallC2(t *testing.T) {
	x := newProblem(t, 9, 7, 30)
	x.kernel.C2 = 1e-7
	backends(t, func(t *testing.T, s *compute.Scope) {
		x := x.solve(t, s, 4)
		fisher := x.empirical(0.1)
		covariance := x.covariance(t, fisher)
		precision := x.precision(t, fisher)
		wantNear(t, "C", dense(s, covariance), dense(s, precision), 1e-4)
	})
}

// "only the posterior moments of V vanish upon removing the state kernel (set c1 = 0),
// while removing the Fisher kernel causes the posterior moments of A to vanish (set
// c2 = 0)" (appendix:state_value_advantage).
func TestKernelsSplitTheActionValue(t *testing.T) {
	for name, c := range map[string]struct {
		remove     func(k *gp.Kernel)
		gone, left gp.Part
	}{
		"state kernel":  {func(k *gp.Kernel) { k.C1 = 0 }, gp.Value, gp.Advantage},
		"Fisher kernel": {func(k *gp.Kernel) { k.C2 = 0 }, gp.Advantage, gp.Value},
	} {
		t.Run(name, func(t *testing.T) {
			x := newProblem(t, 10, 7, 30)
			c.remove(&x.kernel)
			backends(t, func(t *testing.T, s *compute.Scope) {
				x := x.solve(t, s, x.rank())
				mean, variance := s.New(x.n, 1), s.New(x.n, 1)
				at := gp.Points{Features: upload(s, x.features), Fisher: x.svd.V}
				size := func(part gp.Part) float64 {
					if err := x.posterior.(gp.Predictor).Predict(part, at, mean, variance); err != nil {
						t.Fatal(err)
					}
					return mat.Norm(download(x.b, mean), 2) * mat.Norm(download(x.b, variance), 2)
				}
				if gone, left := size(c.gone), size(c.left); gone != 0 || left == 0 {
					t.Errorf("without it the moments' norms are %g and %g, want only the first 0", gone, left)
				}
			})
		})
	}
}

// "The principal components denote the top delta directions of uncertainty": the
// closed form gives the eigenpairs of the matrix restricted to the span of P, for the
// empirical Fisher matrix and for any other.
func TestProjectedAgainstDense(t *testing.T) {
	x := newProblem(t, 11, 30, 40)
	const rank, damping = 6, 0.1
	p, _, _ := x.decompose(rank)
	other := mat.NewDense(x.p, x.p, nil) // a Fisher matrix from different samples
	y := newProblem(t, 12, 30, 40)
	other.Mul(y.scores, y.scores.T())
	other.Scale(1/float64(y.n), other)
	backends(t, func(t *testing.T, s *compute.Scope) {
		x := x.solve(t, s, rank)
		for name, fisher := range map[string]estimators.Fisher{
			"empirical": x.empirical(damping),
			"given":     x.given(other, damping),
		} {
			uncertainty := x.precision(t, fisher)
			pairs := x.pairs(t, estimators.Projected, uncertainty)
			whole := dense(s, uncertainty)
			var small, vectors mat.Dense
			small.Product(p.T(), whole, p)
			values, inSpan := leading(&small, rank)
			vectors.Mul(p, inSpan)
			compareEigenpairs(t, name, x.b, pairs, values, &vectors, 1e-9)
		}
	})
}

// "The rank-delta decomposition of C^BQ can be computed in linear-time using the
// randomized SVD algorithm": one product gives an approximation from below, three find
// the exact pairs.
func TestRandomizedConverges(t *testing.T) {
	x := newProblem(t, 13, 30, 40)
	const rank = 6
	backends(t, func(t *testing.T, s *compute.Scope) {
		x := x.solve(t, s, rank)
		fisher := x.given(x.fisherMatrix(), 0.1)
		uncertainty := x.covariance(t, fisher)
		values, vectors := leading(dense(s, uncertainty), rank)
		once := x.pairs(t, estimators.Randomized(rank, 1, rand.New(rand.NewPCG(1, 0))), uncertainty)
		for j, value := range once.Values {
			if value > values[j]*(1+1e-12) || value < values[j]*0.5 {
				t.Errorf("eigenvalue %d by one product is %g, exactly %g", j, value, values[j])
			}
		}
		exact := x.pairs(t, estimators.Randomized(rank, 3, rand.New(rand.NewPCG(1, 0))), uncertainty)
		compareEigenpairs(t, "three products", x.b, exact, values, vectors, 1e-3)
	})
}
