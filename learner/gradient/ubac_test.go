package gradient

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/npz"
	"github.com/dbqpg/dbqpg/learner/batched"
)

// UBAC from the golden files' exact gradient and exact largest eigenvalue of C, and from
// C g with the exact kernel, solved densely.
func TestGoldenUBAC(t *testing.T) {
	for _, name := range []string{"hopper_gae", "swimmer_returns"} {
		t.Run(name, func(t *testing.T) {
			arrays := golden(t, name)
			batch, err := Parse(arrays)
			if err != nil {
				t.Fatal(err)
			}
			g := flatGradient(arrays, batch, "dbqpg")
			product := exactCovarianceProduct(t, batch, arrays["expect_feature_scaled"].Floats, g)
			nu0 := arrays["expect_cov_spectrum"].Floats[0]
			answers := answer(t, cpu.New(2), arrays, Options{Fisher: config.Analytic})
			squares, errors := 0.0, 0.0
			for i, got := range flatGradient(answers, batch, "ubac") {
				want := g[i] - product[i]/nu0
				squares, errors = squares+want*want, errors+(got-want)*(got-want)
			}
			relative := math.Sqrt(errors / squares)
			t.Logf("relative difference %.1e", relative)
			if !(relative <= 1e-4) {
				t.Errorf("relative difference %.2g from the exact one, want at most 1e-4", relative)
			}
		})
	}
}

// flatGradient joins NAME_policy_w1, ..., NAME_policy_log_std.
func flatGradient(arrays npz.Arrays, batch *Batch, name string) (flat []float64) {
	for _, part := range []string{"w1", "b1", "w2", "b2", "w3", "b3", "log_std"} {
		flat = append(flat, arrays["expect_"+name+"_policy_"+part].Floats...)
	}
	if len(flat) != len(batch.Policy) {
		panic("a gradient of another length than the policy")
	}
	return flat
}

// exactCovarianceProduct returns C g = G g - c2 U K^-1 U'g for the analytic Fisher matrix G, the
// radial basis function without a grid, and the leading part P S V' of U.
func exactCovarianceProduct(t *testing.T, x *Batch, scaled, g []float64) []float64 {
	b := cpu.New(2)
	s := compute.NewScope(b)
	defer s.Release()
	n, p := x.Samples(), len(g)
	at := batched.New(s, x.Shape, x.Policy, s.FromSlice(n, x.Shape.Observation, x.Observations))
	svd, err := linop.ExactSVD(s, at.Scores(s, s.FromSlice(n, x.Shape.Action, x.Actions)), x.Rank)
	if err != nil {
		t.Fatal(err)
	}
	v := mat.NewDense(n, len(svd.S), compute.ToSlice(b, svd.V))
	singular := mat.NewDiagDense(len(svd.S), svd.S)
	right := mat.NewVecDense(len(svd.S), compute.ToSlice(b, linop.Mul(s, svd.P, s.FromSlice(p, 1, g), true)))
	var scores, weights, left mat.VecDense // U'g, then K^-1 U'g, then S V'K^-1 U'g
	right.MulVec(singular, right)
	scores.MulVec(v, right)
	var factor mat.Cholesky
	if !factor.Factorize(exactKernel(x, scaled, v)) {
		t.Fatal("the exact kernel is not positive definite")
	}
	if err := factor.SolveVecTo(&weights, &scores); err != nil {
		t.Fatal(err)
	}
	left.MulVec(v.T(), &weights)
	left.MulVec(singular, &left)

	product := linop.Mul(s, at.Fisher(x.Damping), s.FromSlice(p, 1, g), false)
	compute.Axpy(b, -x.Kernel.FisherWeight(), linop.Mul(s, svd.P, s.FromSlice(len(svd.S), 1, left.RawVector().Data),
		false), product)
	return compute.ToSlice(b, product)
}

// exactKernel returns c1 K_s + c2 n v V V' + noise I.
func exactKernel(x *Batch, scaled []float64, v *mat.Dense) *mat.SymDense {
	n := x.Samples()
	d := len(scaled) / n
	var fisher mat.Dense
	fisher.Mul(v, v.T())
	k := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			sum := 0.0
			for c := range d {
				r := (scaled[i*d+c] - scaled[j*d+c]) / x.Kernel.Hyper.Base[0]
				sum += math.Exp(-r * r / 2)
			}
			value := x.Kernel.C1 * x.Kernel.OutputScale * sum
			k.SetSym(i, j, value+x.Kernel.C2*float64(n)*x.Kernel.FisherVariance*fisher.At(i, j))
		}
		k.SetSym(i, i, k.At(i, i)+x.Kernel.Noise)
	}
	return k
}
