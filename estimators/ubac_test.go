package estimators_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
)

// "an extension of BAC that uses the gradient covariance C^BQ for adjusting the learning
// rate of policy parameters: L^UBAC = (I - C^BQ/nu_0) L^BQ, where nu_0 is the largest
// singular value of C^BQ" (sec:appendix_BACvsDBQPG), against C multiplied out.
func TestUBACAgainstDense(t *testing.T) {
	x := newProblem(t, 30, 7, 30)
	const damping = 0.01
	kInverse := inverse(x.fullKernel())
	covariance := x.sandwich(plusDiagonal(x.fisherMatrix(), damping), -x.kernel.C2, kInverse)
	values, _ := leading(covariance, 1)
	var mean, want mat.Dense
	mean.Product(x.scores, kInverse, x.targets)
	mean.Scale(x.kernel.C2, &mean)
	want.Mul(covariance, &mean)
	want.Scale(-1/values[0], &want)
	want.Add(&want, &mean)
	backends(t, func(t *testing.T, s *compute.Scope) {
		x := x.solve(t, s, x.rank())
		c, nu0 := x.covariance(t, estimators.Fisher{Damping: damping})
		g := x.dbqpg()
		estimators.UBAC(x.b, g, c, nu0)
		wantNear(t, "corrected gradient", download(x.b, g), &want, 1e-5)
	})
}

// covariance is C and its largest eigenvalue.
func (x solved) covariance(t *testing.T, g estimators.Fisher) (*estimators.Uncertainty, float64) {
	t.Helper()
	c, err := estimators.Covariance(x.b, g, x.svd, x.kernel.C2, x.posterior)
	if err != nil {
		t.Fatal(err)
	}
	pairs, err := c.Projected(x.scope)
	if err != nil {
		t.Fatal(err)
	}
	return c, pairs.Values[0]
}

// Where the rank is below that of U, the largest eigenvalue is still C's own, for the
// empirical Fisher matrix has no more directions than the decomposition: nothing is left
// of the most uncertain one, and nothing is reversed.
func TestUBACStopsInTheMostUncertainDirection(t *testing.T) {
	x := newProblem(t, 31, 30, 40)
	backends(t, func(t *testing.T, s *compute.Scope) {
		x := x.solve(t, s, 6)
		c, nu0 := x.covariance(t, estimators.Fisher{Damping: 0.1})
		values, vectors := leading(dense(s, c), x.p)
		if math.Abs(nu0/values[0]-1) > 1e-12 {
			t.Errorf("nu_0 is %g, C's largest eigenvalue %g", nu0, values[0])
		}
		correction := x.columns(func(e compute.Block) { estimators.UBAC(x.b, e, c, nu0) })
		for j, nu := range values {
			var got mat.VecDense
			got.MulVec(correction, vectors.ColView(j))
			got.AddScaledVec(&got, -(1 - nu/nu0), vectors.ColView(j))
			if error := mat.Norm(&got, 2); error > 1e-12 {
				t.Errorf("direction %d of variance %g: off by %g from 1 - nu/nu_0 times itself", j, nu, error)
			}
		}
	})
}

// scaled is a multiple of a matrix.
type scaled struct {
	*estimators.Uncertainty
	b      compute.Backend
	factor float64
}

func (a scaled) MulTo(dst, x compute.Block, trans bool) {
	a.Uncertainty.MulTo(dst, x, trans)
	compute.Scale(a.b, a.factor, dst)
}

// Covariance leaves out the factor c2, and may: UBAC does not know one multiple of C from
// another. It is linear in the gradient, which it never lengthens.
func TestUBACKnowsTheCovarianceUpToAFactor(t *testing.T) {
	x := newProblem(t, 32, 30, 40)
	rng := rand.New(rand.NewPCG(33, 0))
	backends(t, func(t *testing.T, s *compute.Scope) {
		x := x.solve(t, s, 6)
		c, nu0 := x.covariance(t, estimators.Fisher{Matrix: linopDense(s, x.fisherMatrix()), Damping: 0.1})
		random := mat.NewDense(x.p, 1, nil)
		random.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, random)
		g, h := upload(s, random), upload(s, random)
		estimators.UBAC(x.b, g, c, nu0)
		estimators.UBAC(x.b, h, scaled{c, x.b, 5e-5}, 5e-5*nu0)
		wantNear(t, "with c2", download(x.b, h), download(x.b, g), 1e-14)
		if before, after := mat.Norm(random, 2), mat.Norm(download(x.b, g), 2); !(after < before) {
			t.Errorf("a gradient of norm %g becomes one of norm %g", before, after)
		}
	})
}
