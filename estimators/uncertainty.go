package estimators

import (
	"fmt"
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
	basis   compute.Block // P, p × k
	middle  *mat.SymDense // w S A S, plus S²/n for the empirical Fisher matrix
}

// Covariance is the posterior covariance of the policy gradient over c2 (eq:GP_grad),
//
//	C = G - c2 U K^-1 U'
//
// for the decomposition svd of the scores and the posterior fitted with its V.
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

// Dims implements [linop.Operator].
func (u *Uncertainty) Dims() (rows, cols int) { return u.basis.Rows, u.basis.Rows }

// MulTo implements [linop.Operator]; the matrix is symmetric.
func (u *Uncertainty) MulTo(dst, x compute.Block, _ bool) {
	b, k := u.backend, u.basis.Cols
	s := compute.NewScope(b)
	defer s.Release()
	if u.fisher != nil {
		u.fisher.MulTo(dst, x, false)
		b.Axpy(u.damping, x, dst)
	} else {
		b.Affine(dst, u.damping, x, 0)
	}
	inner, outer := s.New(k, x.Cols), s.New(k, x.Cols)
	b.Gemm(true, false, 1, u.basis, x, 0, inner)
	b.Gemm(false, false, 1, s.FromSlice(k, k, elements(u.middle)), inner, 0, outer)
	b.Gemm(false, false, 1, u.basis, outer, 1, dst)
}

// Projected returns all k eigenpairs of the matrix restricted to the span of P, the
// closed form: those of P'GP + damping I + w S A S. With the empirical Fisher matrix
// this takes no product over the samples. The vectors live in s.
//
// No eigenvalue of C or N is below the damping, unless the learned Fisher variance
// and the noise claim more certainty than G allows (v + sigma²/(c2 n) < 1); such
// eigenvalues are raised to it.
func (u *Uncertainty) Projected(s *compute.Scope) (*Eigenpairs, error) {
	k := u.basis.Cols
	small := mat.NewSymDense(k, nil)
	small.CopySym(u.middle)
	if u.fisher != nil {
		small.AddSym(small, compress(u.backend, u.fisher, u.basis))
	}
	for i := range k {
		small.SetSym(i, i, small.At(i, i)+u.damping)
	}
	return u.ritz(s, u.basis, small, k)
}

// Oversampling is the number of columns that the randomised decomposition takes
// beyond those asked for (the authors' code).
const Oversampling = 2

// Randomized returns the rank leading eigenpairs by a randomised decomposition
// (Halko, Martinsson and Tropp 2011) of the whole matrix A: the products of A and
// rank + Oversampling random vectors R span a subspace, in which the Rayleigh-Ritz
// eigenpairs are taken. Depth 1 is the paper's method; more spans [A R, A² R, ...]
// (Musco and Musco 2015), which converges to the exact pairs. It takes 2 depth
// (rank + Oversampling) products with G. The vectors live in s.
func (u *Uncertainty) Randomized(s *compute.Scope, rank, depth int, rng *rand.Rand) (*Eigenpairs, error) {
	p, width := u.basis.Rows, rank+Oversampling
	if rank < 1 || depth < 1 || width*depth > p {
		panic(fmt.Sprintf("estimators: %d eigenpairs at depth %d of a matrix of order %d", rank, depth, p))
	}
	scope := compute.NewScope(u.backend)
	defer scope.Release()
	random := make([]float64, p*width)
	for i := range random {
		random[i] = rng.NormFloat64()
	}
	basis, err := krylov(scope, u, scope.FromSlice(p, width, random), depth)
	if err != nil {
		return nil, err
	}
	return u.ritz(s, basis, compress(u.backend, u, basis), rank)
}

// ritz returns the leading eigenpairs of the whole matrix, rank of them or as many as
// Q has columns, given its restriction small = Q'AQ to the span of Q.
func (u *Uncertainty) ritz(s *compute.Scope, q compute.Block, small *mat.SymDense, rank int) (*Eigenpairs, error) {
	values, vectors, err := eigenpairs(small)
	if err != nil {
		return nil, err
	}
	rank = min(rank, len(values))
	for j := range rank {
		values[j] = max(values[j], u.damping)
	}
	scope := compute.NewScope(u.backend)
	defer scope.Release()
	leading := elements(vectors.Slice(0, q.Cols, 0, rank))
	pairs := &Eigenpairs{Values: values[:rank], Vectors: s.New(q.Rows, rank)}
	u.backend.Gemm(false, false, 1, q, scope.FromSlice(q.Cols, rank, leading), 0, pairs.Vectors)
	return pairs, nil
}

// compress is Q'AQ for a symmetric operator.
func compress(b compute.Backend, a linop.Operator, q compute.Block) *mat.SymDense {
	s := compute.NewScope(b)
	defer s.Release()
	k := q.Cols
	dst := s.New(k, k)
	b.Gemm(true, false, 1, q, linop.Mul(s, a, q, false), 0, dst)
	full := mat.NewDense(k, k, compute.ToSlice(b, dst))
	small := mat.NewSymDense(k, nil)
	for i := range k {
		for j := i; j < k; j++ {
			small.SetSym(i, j, (full.At(i, j)+full.At(j, i))/2)
		}
	}
	return small
}

// elements are those of a symmetric matrix in row-major order.
func elements(m mat.Matrix) []float64 { return mat.DenseCopyOf(m).RawMatrix().Data }
