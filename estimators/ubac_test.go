package estimators_test

import (
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
	covariance := x.sandwich(plusDiagonal(x.fisherMatrix(), damping), -x.kappa(), kInverse)
	values, _ := leading(covariance, 1)
	var mean, want mat.Dense
	mean.Product(x.scores, kInverse, x.targets)
	mean.Scale(x.kappa(), &mean)
	want.Mul(covariance, &mean)
	want.Scale(-1/values[0], &want)
	want.Add(&want, &mean)
	backends(t, func(t *testing.T, s *compute.Scope) {
		x := x.solve(t, s, x.rank())
		g := x.dbqpg(t)
		x.correction(t, estimators.UBAC{}, x.empirical(damping))(g)
		wantNear(t, "corrected gradient", download(x.b, g), &want, 1e-5)
	})
}

// Where the rank is below that of U, the largest eigenvalue is still C's own, for the
// empirical Fisher matrix has no more directions than the decomposition: nothing is left
// of the most uncertain one, and nothing is reversed.
func TestUBACStopsInTheMostUncertainDirection(t *testing.T) {
	x := newProblem(t, 31, 30, 40)
	backends(t, func(t *testing.T, s *compute.Scope) {
		x := x.solve(t, s, 6)
		fisher := x.empirical(0.1)
		values, vectors := leading(dense(s, x.covariance(t, fisher)), x.p)
		correction := x.columns(x.correction(t, estimators.UBAC{}, fisher))
		for j, nu := range values {
			var got mat.VecDense
			got.MulVec(correction, vectors.ColView(j))
			got.AddScaledVec(&got, -(1 - nu/values[0]), vectors.ColView(j))
			if error := mat.Norm(&got, 2); error > 1e-12 {
				t.Errorf("direction %d of variance %g: off by %g from 1 - nu/nu_0 times itself", j, nu, error)
			}
		}
	})
}

// With any other Fisher matrix nu_0 is estimated, from below but closely; no gradient gets
// longer.
func TestUBACWithAnotherFisherMatrix(t *testing.T) {
	x := newProblem(t, 32, 30, 40)
	t.Log("seed 33")
	rng := rand.New(rand.NewPCG(33, 0))
	backends(t, func(t *testing.T, s *compute.Scope) {
		x := x.solve(t, s, 6)
		fisher := x.given(x.fisherMatrix(), 0.1)
		random := mat.NewDense(x.p, 1, nil)
		random.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, random)
		g := upload(s, random)
		x.correction(t, estimators.UBAC{Rand: rng}, fisher)(g)
		covariance := dense(s, x.covariance(t, fisher))
		values, _ := leading(covariance, 1)
		var want mat.Dense
		want.Mul(covariance, random)
		want.Scale(-1/values[0], &want)
		want.Add(&want, random)
		wantNear(t, "corrected", download(x.b, g), &want, 1e-6)
		if before, after := mat.Norm(random, 2), mat.Norm(download(x.b, g), 2); !(after < before) {
			t.Errorf("a gradient of norm %g becomes one of norm %g", before, after)
		}
	})
}
