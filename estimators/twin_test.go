package estimators_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/computetest"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// problem is a small batch as dense matrices, on the host.
type problem struct {
	p, n     int
	scores   *mat.Dense // U, p × n
	features *mat.Dense // z, n × 2
	targets  *mat.VecDense
	kernel   gp.Kernel
}

// newProblem draws scores whose singular values fall by a factor of 50. The Fisher variance is
// far from 1: 0.3 for even seeds, 3 for odd ones.
func newProblem(t *testing.T, seed uint64, p, n int) problem {
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	draw := func(rows, cols int) *mat.Dense {
		x := mat.NewDense(rows, cols, nil)
		x.Apply(func(_, _ int, _ float64) float64 { return rng.NormFloat64() }, x)
		return x
	}
	x := problem{p: p, n: n, scores: draw(p, n), features: draw(n, 2), targets: mat.NewVecDense(n, nil)}
	x.scores.Apply(func(i, _ int, v float64) float64 {
		return v * math.Pow(50, -float64(i)/float64(p))
	}, x.scores)
	for i := range n {
		x.targets.SetVec(i, math.Sin(2*x.features.At(i, 0))+x.scores.At(0, i)+0.1*rng.NormFloat64())
	}
	x.kernel = gp.Kernel{C1: 0.8, C2: 0.01, Hyper: gp.Hyper{Base: []float64{0.5}, OutputScale: 0.7,
		FisherVariance: []float64{0.3, 3}[seed%2], Noise: 0.3}}
	return x
}

// solved is the problem on a backend, decomposed to a rank and fitted.
type solved struct {
	problem
	scope     *compute.Scope
	b         compute.Backend
	u         linop.Operator
	y         compute.Block
	svd       *linop.SVD
	posterior gp.Posterior
	batch     estimators.Batch // without a Fisher matrix
}

// solve puts the problem on a backend.
func (x problem) solve(t *testing.T, s *compute.Scope, rank int) solved {
	t.Helper()
	u := linop.NewDense(s.Backend(), s.FromSlice(x.p, x.n, x.scores.RawMatrix().Data))
	out := solved{problem: x, scope: s, b: s.Backend(), u: u, y: s.FromSlice(x.n, 1, x.targets.RawVector().Data)}
	p, values, v := x.decompose(rank)
	out.svd = &linop.SVD{P: linop.NewDense(s.Backend(), upload(s, p)), S: values, V: upload(s, v)}
	out.batch = estimators.Batch{Scores: u, SVD: out.svd, Features: upload(s, x.features), Targets: out.y}
	var err error
	if out.posterior, err = out.quadrature().Condition(s, &out.batch); err != nil {
		t.Fatal(err)
	}
	return out
}

// quadrature returns the problem's estimator, without a correction.
func (x problem) quadrature() *estimators.Quadrature {
	return &estimators.Quadrature{Kernel: x.kernel, Solver: gp.Direct{}}
}

// estimate returns the problem's quadrature with a Fisher matrix.
func (x solved) estimate(t *testing.T, g estimators.Fisher) *estimators.Estimate {
	t.Helper()
	x.batch.Fisher = g
	e, err := x.quadrature().Estimate(x.scope, &x.batch)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// empirical returns UU'/n in the form of the estimators, given any matrix.
func (x solved) empirical(damping float64) estimators.Fisher {
	return estimators.EmpiricalFisher(x.b, x.u, damping)
}

func (x solved) given(g *mat.Dense, damping float64) estimators.Fisher {
	return estimators.NewFisher(linopDense(x.scope, g), damping)
}

// covariance returns C / kappa with a Fisher matrix, precision kappa N.
func (x solved) covariance(t *testing.T, g estimators.Fisher) *estimators.Uncertainty {
	t.Helper()
	u, err := x.estimate(t, g).Covariance()
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func (x solved) precision(t *testing.T, g estimators.Fisher) *estimators.Uncertainty {
	t.Helper()
	u, err := x.estimate(t, g).Precision()
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// correction returns the effect of a correction of the estimate on a direction.
func (x solved) correction(t *testing.T, c estimators.Correction, g estimators.Fisher) func(compute.Block) {
	t.Helper()
	correct, err := c.Of(x.scope, x.estimate(t, g))
	if err != nil {
		t.Fatal(err)
	}
	return correct
}

// pairs returns the eigenpairs that a decomposition finds.
func (x solved) pairs(t *testing.T, d estimators.Decomposition, u *estimators.Uncertainty) *estimators.Eigenpairs {
	t.Helper()
	pairs, err := d(x.scope, u)
	if err != nil {
		t.Fatal(err)
	}
	return pairs
}

// decompose returns U = P S V' truncated to a rank.
func (x problem) decompose(rank int) (p *mat.Dense, s []float64, v *mat.Dense) {
	var svd mat.SVD
	if !svd.Factorize(x.scores, mat.SVDThin) {
		panic("no singular value decomposition")
	}
	var left, right mat.Dense
	svd.UTo(&left)
	svd.VTo(&right)
	return mat.DenseCopyOf(left.Slice(0, x.p, 0, rank)), svd.Values(nil)[:rank],
		mat.DenseCopyOf(right.Slice(0, x.n, 0, rank))
}

// rank returns that of U.
func (x problem) rank() int { return min(x.p, x.n) }

// stateKernel returns c1 K_s with the exact radial basis function.
func (x problem) stateKernel() *mat.Dense {
	low, high := mat.Min(x.features), mat.Max(x.features)
	k := mat.NewDense(x.n, x.n, nil)
	k.Apply(func(i, j int, _ float64) (sum float64) {
		for c := range 2 {
			r := (x.features.At(i, c) - x.features.At(j, c)) / (high - low) * 1.9
			sum += math.Exp(-r * r / 2 / x.kernel.Hyper.Base[0] / x.kernel.Hyper.Base[0])
		}
		return sum * x.kernel.C1 * x.kernel.OutputScale
	}, k)
	return k
}

// noisy returns k + noise I.
func (x problem) noisy(k *mat.Dense) *mat.Dense { return plusDiagonal(k, x.kernel.Noise) }

// fisherMatrix returns G = UU'/n.
func (x problem) fisherMatrix() *mat.Dense {
	var g mat.Dense
	g.Mul(x.scores, x.scores.T())
	g.Scale(1/float64(x.n), &g)
	return &g
}

// kappa returns the weight of the Fisher kernel, c2 v.
func (x problem) kappa() float64 { return x.kernel.C2 * x.kernel.FisherVariance }

// fullKernel returns K = c1 K_s + kappa U'G^-1 U + noise I, for p <= n.
func (x problem) fullKernel() *mat.Dense {
	var fisher mat.Dense
	fisher.Product(x.scores.T(), inverse(x.fisherMatrix()), x.scores)
	fisher.Scale(x.kappa(), &fisher)
	fisher.Add(&fisher, x.stateKernel())
	return x.noisy(&fisher)
}

// sandwich returns g + weight U a U'.
func (x problem) sandwich(g *mat.Dense, weight float64, a *mat.Dense) *mat.Dense {
	var m mat.Dense
	m.Product(x.scores, a, x.scores.T())
	m.Scale(weight, &m)
	m.Add(&m, g)
	return &m
}

func inverse(a *mat.Dense) *mat.Dense {
	var inv mat.Dense
	_ = inv.Inverse(a) // a bad condition number is part of the comparison
	return &inv
}

func plusDiagonal(a *mat.Dense, x float64) *mat.Dense {
	sum := mat.DenseCopyOf(a)
	n, _ := a.Dims()
	for i := range n {
		sum.Set(i, i, sum.At(i, i)+x)
	}
	return sum
}

// leading returns the eigenpairs of a symmetric matrix, largest first.
func leading(a *mat.Dense, count int) (values []float64, vectors *mat.Dense) {
	n, _ := a.Dims()
	symmetric := mat.NewSymDense(n, nil)
	for i := range n {
		for j := i; j < n; j++ {
			symmetric.SetSym(i, j, (a.At(i, j)+a.At(j, i))/2)
		}
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(symmetric, true) {
		panic("no eigenvalues")
	}
	var all mat.Dense
	eigen.VectorsTo(&all)
	vectors = mat.NewDense(n, count, nil)
	for j := range count {
		values = append(values, eigen.Values(nil)[n-1-j])
		vectors.SetCol(j, mat.Col(nil, n-1-j, &all))
	}
	return values, vectors
}

// dense multiplies out an operator.
func dense(s *compute.Scope, a linop.Operator) *mat.Dense {
	_, n := a.Dims()
	return download(s.Backend(), linop.Mul(s, a, upload(s, plusDiagonal(mat.NewDense(n, n, nil), 1)), false))
}

func upload(s *compute.Scope, a *mat.Dense) compute.Block {
	rows, cols := a.Dims()
	return s.FromSlice(rows, cols, mat.DenseCopyOf(a).RawMatrix().Data)
}

func download(b compute.Backend, x compute.Block) *mat.Dense {
	return mat.NewDense(x.Rows, x.Cols, compute.ToSlice(b, x))
}

// backends calls the test on each backend behind an opaque wall, which says when
// something reaches around it or does not release what it allocated.
func backends(t *testing.T, test func(t *testing.T, s *compute.Scope)) {
	for _, b := range []compute.Backend{computetest.Naive(), cpu.New(2)} {
		t.Run(b.Name(), func(t *testing.T) {
			opaque := computetest.Opaque(b)
			s := compute.NewScope(opaque)
			test(t, s)
			s.Release()
			if live := opaque.Live(); live != 0 {
				t.Errorf("%d buffers were not released", live)
			}
		})
	}
}

// wantNear fails unless got and want agree to the tolerance, relative to want's norm.
func wantNear(t *testing.T, what string, got, want mat.Matrix, tolerance float64) {
	t.Helper()
	var difference mat.Dense
	difference.Sub(got, want)
	if e := mat.Norm(&difference, 2) / mat.Norm(want, 2); !(e <= tolerance) {
		t.Errorf("%s: relative error %.2g, want at most %.2g", what, e, tolerance)
	}
}

// dbqpg returns the estimate as a p × 1 block.
func (x solved) dbqpg(t *testing.T) compute.Block {
	t.Helper()
	return x.estimate(t, x.empirical(noDamping)).Gradient
}
