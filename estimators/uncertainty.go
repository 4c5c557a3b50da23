package estimators

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// Fisher is the policy's Fisher information matrix with Damping times the identity
// added, Damping > 0.
type Fisher struct {
	// Matrix is G without damping (p × p). Nil stands for the paper's empirical
	// matrix UU'/n (eqn:kernel_equations), with U's decomposition in U's place.
	Matrix  linop.Operator
	Damping float64
}

// Uncertainty is C or N of the package comment, a symmetric p × p matrix:
//
//	G + damping I + w P S A S P'
//
// It is a [linop.Operator].
type Uncertainty struct {
	backend compute.Backend
	fisher  linop.Operator // nil where the middle has it
	damping float64
	basis   linop.Operator // P, p × k
	middle  *mat.SymDense  // w S A S, plus S²/n for the empirical Fisher matrix
}

// Covariance is the posterior covariance of the policy gradient over c2 (eq:GP_grad),
//
//	C = G - c2 U K^-1 U'
//
// for the decomposition svd of the scores and the posterior fitted with its V. The
// covariance itself is Covariance(...).Scaled(c2).
func Covariance(b compute.Backend, g Fisher, svd *linop.SVD, c2 float64, posterior gp.Posterior) (*Uncertainty, error) {
	core, err := posterior.FisherCore()
	if err != nil {
		return nil, err
	}
	return newUncertainty(b, g, svd, -c2, core), nil
}

// NaturalPrecision is the inverse of the natural gradient's covariance, times c2
// (eqn:natural_bq_covariace),
//
//	N = G + c2 U (c1 K_s + sigma² I)^-1 U'
func NaturalPrecision(b compute.Backend, g Fisher, svd *linop.SVD, c2 float64, posterior gp.Posterior) (*Uncertainty, error) {
	core, err := posterior.StateCore()
	if err != nil {
		return nil, err
	}
	return newUncertainty(b, g, svd, c2, core), nil
}

// newUncertainty is G + weight P S core S P'.
func newUncertainty(b compute.Backend, g Fisher, svd *linop.SVD, weight float64, core *mat.SymDense) *Uncertainty {
	if !(g.Damping > 0) {
		panic(fmt.Sprintf("estimators: damping %g, want a positive number", g.Damping))
	}
	k := len(svd.S)
	u := &Uncertainty{b, g.Matrix, g.Damping, svd.P, mat.NewSymDense(k, nil)}
	for i := range k {
		for j := i; j < k; j++ {
			u.middle.SetSym(i, j, weight*svd.S[i]*core.At(i, j)*svd.S[j])
		}
		if g.Matrix == nil {
			u.middle.SetSym(i, i, u.middle.At(i, i)+svd.S[i]*svd.S[i]/float64(svd.V.Rows))
		}
	}
	return u
}

// Scaled is the matrix times factor, a positive number. UAPG's and UBAC's corrections do
// not know one multiple of C from another, and so leave c2 out; for the covariance in the
// gradient's own units, its eigenpairs and its [Uncertainty.Trace] the factor is c2.
func (u *Uncertainty) Scaled(factor float64) *Uncertainty {
	if !(factor > 0) || math.IsInf(factor, 0) {
		panic(fmt.Sprintf("estimators: an uncertainty times %g, want a positive number", factor))
	}
	scaled := &Uncertainty{u.backend, nil, factor * u.damping, u.basis, mat.NewSymDense(u.middle.SymmetricDim(), nil)}
	scaled.middle.ScaleSym(factor, u.middle)
	if u.fisher != nil {
		scaled.fisher = linop.NewScale(u.backend, factor, u.fisher)
	}
	return scaled
}

// Trace is the sum of all p eigenvalues: for the covariance, by c2, the expected squared
// length of the gradient's error. It is exact with the empirical Fisher matrix. Otherwise
// so many probes estimate what G has outside the span of P ([linop.Trace]); probes and rng
// matter to this case alone. The damping has its part in it, p times its value.
func (u *Uncertainty) Trace(probes int, rng *rand.Rand) linop.Estimate {
	p, _ := u.Dims()
	var g linop.Estimate
	if u.fisher != nil {
		s := compute.NewScope(u.backend)
		defer s.Release()
		g = linop.Trace(u.backend, u.fisher, linop.MulOut(s, u.basis), probes, rng)
	}
	g.Value += float64(p)*u.damping + mat.Trace(u.middle)
	return g
}

// Dims implements [linop.Operator].
func (u *Uncertainty) Dims() (rows, cols int) {
	p, _ := u.basis.Dims()
	return p, p
}

// MulTo implements [linop.Operator]; the matrix is symmetric.
func (u *Uncertainty) MulTo(dst, x compute.Block, _ bool) {
	b, k := u.backend, u.middle.SymmetricDim()
	s := compute.NewScope(b)
	defer s.Release()
	if u.fisher != nil {
		u.fisher.MulTo(dst, x, false)
		compute.Axpy(b, u.damping, x, dst)
	} else {
		b.Affine(dst, u.damping, x, 0, 0)
	}
	inner := linop.Mul(s, u.basis, x, true)
	outer := s.New(k, x.Cols)
	b.Gemm(false, false, 1, s.FromSlice(k, k, elements(u.middle)), inner, 0, outer)
	compute.Axpy(b, 1, linop.Mul(s, u.basis, outer, false), dst)
}

// Projected returns all k eigenpairs of the matrix restricted to the span of P, the
// closed form: those of P'GP + damping I + w S A S. With the empirical Fisher matrix
// this takes no product over the samples. The vectors live in s.
//
// No eigenvalue of C or N is below the damping, unless the learned Fisher variance
// and the noise claim more certainty than G allows (v + sigma²/(c2 n) < 1); such
// eigenvalues are raised to it.
func (u *Uncertainty) Projected(s *compute.Scope) (*Eigenpairs, error) {
	b, k := u.backend, u.middle.SymmetricDim()
	small := elements(u.middle)
	for i := range k {
		small[i*k+i] += u.damping
	}
	if u.fisher != nil {
		small = u.compress(small)
	}
	values, vectors, err := linop.Ritz(s, k, small)
	if err != nil {
		return nil, fmt.Errorf("estimators: the gradient's uncertainty: %w", err)
	}
	return u.bounded(values, linop.NewProduct(b, u.basis, linop.NewDense(b, vectors))), nil
}

// Randomized returns the rank leading eigenpairs by a randomised decomposition from
// products with the whole matrix ([linop.RandomizedEigen], which has the meaning of
// depth): 1 is the paper's method, more comes closer to the exact pairs. The vectors
// live in s.
func (u *Uncertainty) Randomized(s *compute.Scope, rank, depth int, rng *rand.Rand) (*Eigenpairs, error) {
	pairs, err := linop.RandomizedEigen(s, u, rank, depth, rng)
	if err != nil {
		return nil, fmt.Errorf("estimators: the gradient's uncertainty: %w", err)
	}
	return u.bounded(pairs.Values, linop.NewDense(u.backend, pairs.Vectors)), nil
}

// compress adds P'GP to small, both k × k and row-major.
func (u *Uncertainty) compress(small []float64) []float64 {
	s := compute.NewScope(u.backend)
	defer s.Release()
	k := u.middle.SymmetricDim()
	basis := linop.MulOut(s, u.basis)
	sum := s.FromSlice(k, k, small)
	u.backend.Gemm(true, false, 1, basis, linop.Mul(s, u.fisher, basis, false), 1, sum)
	return compute.ToSlice(u.backend, sum)
}

// bounded raises eigenvalues to the damping, at least.
func (u *Uncertainty) bounded(values []float64, vectors linop.Operator) *Eigenpairs {
	for j, value := range values {
		values[j] = max(value, u.damping)
	}
	return &Eigenpairs{values, vectors}
}

// elements are those of a symmetric matrix in row-major order.
func elements(m *mat.SymDense) []float64 { return mat.DenseCopyOf(m).RawMatrix().Data }
