package estimators

import (
	"fmt"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// Uncertainty is the gradient's covariance or the natural gradient's precision, up to the
// factor kappa, a symmetric p × p matrix:
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
	floor   float64        // of the eigenvalues, where rounding is not all that is below it; or 0
}

// Eigenpairs are the leading eigenpairs (nu_j, h_j) of an [Uncertainty], all nu_j > 0.
type Eigenpairs struct {
	Values  []float64
	Vectors linop.Operator // p × their number, orthonormal columns
}

// Covariance returns the posterior covariance of the gradient over kappa (eq:GP_grad),
//
//	C / kappa = G - kappa U K^-1 U'
//
// with the damped G, and U's decomposition in U's place. With the empirical G it is
// positive definite, whatever the kernel: K is at least kappa n V V' + sigma² I, so that
// kappa V'K^-1 V is at most I/n. The analytic G may be smaller than UU'/n along some
// directions; there the eigenvalues count as the damping.
//
// Times kappa it is the covariance in the gradient's own units.
func (e *Estimate) Covariance() (*Uncertainty, error) {
	core, err := e.Posterior.FisherCore()
	if err != nil {
		return nil, err
	}
	u := e.newUncertainty(-e.kappa, core)
	if u.fisher != nil {
		u.floor = u.damping
	}
	return u, nil
}

// Variance returns the variance d'Cd of the gradient along d (p × 1) under the posterior.
func (e *Estimate) Variance(s *compute.Scope, d compute.Block) (float64, error) {
	c, err := e.Covariance()
	if err != nil {
		return 0, err
	}
	return max(0, e.kappa*s.Backend().Dot(d, linop.Mul(s, c, d, false))), nil
}

// Precision returns the inverse of the natural gradient's covariance, times kappa
// (eqn:natural_bq_covariace),
//
//	kappa N = G + kappa U (c1 K_s + sigma² I)^-1 U'
//
// with the damped G, and U's decomposition in U's place. It is positive definite.
func (e *Estimate) Precision() (*Uncertainty, error) {
	core, err := e.Posterior.StateCore()
	if err != nil {
		return nil, err
	}
	return e.newUncertainty(e.kappa, core), nil
}

// newUncertainty returns G + damping I + weight P S core S P'.
func (e *Estimate) newUncertainty(weight float64, core *mat.SymDense) *Uncertainty {
	svd, g := e.batch.SVD, e.batch.Fisher
	k := len(svd.S)
	u := &Uncertainty{backend: e.backend, fisher: g.Matrix, damping: g.Damping, basis: svd.P,
		middle: mat.NewSymDense(k, nil)}
	for i := range k {
		for j := i; j < k; j++ {
			u.middle.SetSym(i, j, weight*svd.S[i]*core.At(i, j)*svd.S[j])
		}
	}
	if g.empirical {
		u.fisher = nil
		for i, sigma := range svd.S {
			u.middle.SetSym(i, i, u.middle.At(i, i)+sigma*sigma/float64(svd.V.Rows))
		}
	}
	return u
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
// this takes no product over the samples. It is a [Decomposition].
func Projected(s *compute.Scope, u *Uncertainty) (*Eigenpairs, error) {
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

// Randomized returns the [Decomposition] that finds the rank leading eigenpairs by a
// randomised method, from products with the whole matrix ([linop.RandomizedEigen], which
// has the meaning of depth): 1 is the paper's, more comes closer to the exact pairs.
func Randomized(rank, depth int, rng *rand.Rand) Decomposition {
	return func(s *compute.Scope, u *Uncertainty) (*Eigenpairs, error) {
		pairs, err := linop.RandomizedEigen(s, u, rank, depth, rng)
		if err != nil {
			return nil, fmt.Errorf("estimators: the gradient's uncertainty: %w", err)
		}
		return u.bounded(pairs.Values, linop.NewDense(u.backend, pairs.Vectors)), nil
	}
}

// largest returns the matrix's largest eigenvalue: exact, in closed form, with the empirical
// Fisher matrix, all of which but the damping lies in the span of P; otherwise by a block
// Krylov method, from below.
func (u *Uncertainty) largest(s *compute.Scope, rng *rand.Rand) (float64, error) {
	decompose := Decomposition(Projected)
	if u.fisher != nil {
		const depth = 5 // 1e-8 of the value from the exact one, on the golden batches
		decompose = Randomized(1, depth, rng)
	}
	pairs, err := decompose(s, u)
	if err != nil {
		return 0, err
	}
	return pairs.Values[0], nil
}

// compress adds P'GP to small, both k × k and row-major.
func (u *Uncertainty) compress(small []float64) []float64 {
	s := compute.NewScope(u.backend)
	defer s.Release()
	k := u.middle.SymmetricDim()
	basis := linop.MulOut(s, u.basis)
	sum := s.FromSlice(k, k, small)
	if g, ok := u.fisher.(interface{ Compress(dst, x compute.Block) }); ok {
		compressed := s.New(k, k)
		g.Compress(compressed, basis)
		compute.Axpy(u.backend, 1, compressed, sum)
	} else {
		u.backend.Gemm(true, false, 1, basis, linop.Mul(s, u.fisher, basis, false), 1, sum)
	}
	return compute.ToSlice(u.backend, sum)
}

// bounded raises eigenvalues to the floor, at least.
func (u *Uncertainty) bounded(values []float64, vectors linop.Operator) *Eigenpairs {
	for j, value := range values {
		values[j] = max(value, u.floor)
	}
	return &Eigenpairs{values, vectors}
}

// elements returns the elements of a symmetric matrix in row-major order.
func elements(m *mat.SymDense) []float64 { return mat.DenseCopyOf(m).RawMatrix().Data }
