package linop_test

import (
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/estimators/linop/linoptest"
)

// The first samples' scores, Fisher kernel and Fisher matrix by a decomposition of all
// samples, against their definitions: K_f = U_n'G^-1 U_n with G = UU'/m. V's rows can be
// had from the scores in either decomposition.
func TestFirst(t *testing.T) {
	linoptest.EachBackend(t, func(t *testing.T, b compute.Backend) {
		const n, m = 70, 160
		s := compute.NewScope(b)
		defer s.Release()
		data := drawScores(rand.New(rand.NewPCG(40, 0)), m)
		u := data.build(s)
		all := data.dense()
		p, _ := all.Dims()
		part := mat.DenseCopyOf(all.Slice(0, p, 0, n))
		var g, gInverse, kernel mat.Dense
		g.Mul(all, all.T())
		g.Scale(1./m, &g)
		if err := gInverse.Inverse(&g); err != nil {
			t.Fatal(err)
		}
		kernel.Product(part.T(), &gInverse, part)

		whole, err := linop.ExactSVD(s, u, p)
		if err != nil {
			t.Fatal(err)
		}
		svd := whole.First(s, n)
		left, v := toMat(b, linop.MulOut(s, svd.P)), toMat(b, svd.V)
		singular := mat.NewDiagDense(p, svd.S)
		var product, fisher, got mat.Dense
		product.Product(left, singular, v.T())
		fisher.Product(left, singular, singular, left.T())
		fisher.Scale(1./n, &fisher)
		got.Mul(v, v.T())
		got.Scale(n, &got)
		for _, c := range []struct {
			what      string
			got, want mat.Matrix
		}{
			{"U_n", &product, part},
			{"G", &fisher, &g},
			{"K_f", &got, &kernel},
			{"the view of U", toMat(b, linop.MulOut(s, u.First(n))), part},
		} {
			var difference mat.Dense
			difference.Sub(c.got, c.want)
			if e := mat.Norm(&difference, 2) / mat.Norm(c.want, 2); !(e < 1e-8) {
				t.Errorf("%s: relative error %.2g", c.what, e)
			}
		}
		for _, c := range []struct {
			what string
			svd  *linop.SVD
			u    linop.Operator
		}{
			{"all", whole, u},
			{"the first", svd, u.First(n)},
		} {
			var difference mat.Dense
			want := toMat(b, c.svd.V)
			difference.Sub(toMat(b, c.svd.Rows(s, c.u)), want)
			if e := mat.Norm(&difference, 2) / mat.Norm(want, 2); !(e < 1e-8) {
				t.Errorf("the rows of V for the scores of %s samples: relative error %.2g", c.what, e)
			}
		}
		if whole.First(s, m) != whole {
			t.Error("of all samples it is not the decomposition itself")
		}
	})
}
