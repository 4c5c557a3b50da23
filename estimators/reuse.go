package estimators

import (
	"errors"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// reusedWeights returns the weights of a batch whose older samples are earlier policies'. In the span of the Fisher
// kernel, that of V's columns, the process knows the integral whoever sampled; what alpha has beyond it is a Monte Carlo
// mean, which only samples of the current policy make, the first n_0. With the projections Q on V's columns and Q_0 on those
// of its first n_0 rows V_0, which keeps that mean out of the span,
//
//	w = kappa Q alpha,  and in the first n_0 rows  w_0 = (kappa Q alpha)_0 + kappa rho (I - Q_0) alpha_0
//
// Without older samples it is the weights of [CompletedIntegral], or with rho = 1 of [PlainIntegral].
func reusedWeights(s *compute.Scope, batch *Batch, k gp.Kernel, alpha compute.Block, rho float64) (compute.Block, error) {
	b, v, kappa, newest := s.Backend(), batch.SVD.V, k.FisherWeight(), batch.Ages[0].Samples
	inner := compute.NewScope(b)
	defer inner.Release()
	current := alpha.RowRange(0, newest)
	within, err := project(inner, v.RowRange(0, newest), current)
	if err != nil {
		return compute.Block{}, err
	}
	beyond := inner.New(newest, 1)
	compute.Copy(b, beyond, current)
	compute.Axpy(b, -1, within, beyond)
	w, err := project(s, v, alpha)
	if err != nil {
		return compute.Block{}, err
	}
	compute.Scale(b, kappa, w)
	compute.Axpy(b, kappa*rho, beyond, w.RowRange(0, newest))
	return w, nil
}

// project allocates in s the projection of x (n × 1) on v's columns (n × k), v (v'v)^-1 v'x.
func project(s *compute.Scope, v, x compute.Block) (compute.Block, error) {
	b, k := s.Backend(), v.Cols
	inner := compute.NewScope(b)
	defer inner.Release()
	product := inner.New(k, 1)
	b.Gemm(true, false, 1, v, x, 0, product)
	gram := gp.FisherGram(b, v)
	const ridge = 1e-12 // where there are fewer samples than columns
	tiny := ridge * mat.Trace(gram)
	for i := range k {
		gram.SetSym(i, i, gram.At(i, i)+tiny)
	}
	var factor mat.Cholesky
	if !factor.Factorize(gram) {
		return compute.Block{}, &linop.NotFiniteError{What: "the Gram matrix of the Fisher kernel's factor"}
	}
	solution := mat.NewVecDense(k, compute.ToSlice(b, product))
	var condition mat.Condition
	if err := factor.SolveVecTo(solution, solution); err != nil && !errors.As(err, &condition) {
		return compute.Block{}, err
	}
	b.Upload(product, solution.RawVector().Data)
	return linop.Mul(s, linop.NewDense(b, v), product, false), nil
}

// SpanIntegral is the integral of a process none of whose nodes the current policy sampled: w = kappa Q alpha.
type SpanIntegral struct{}

// Weights implements [Integral].
func (SpanIntegral) Weights(s *compute.Scope, batch *Batch, k gp.Kernel, alpha compute.Block) (compute.Block, error) {
	w, err := project(s, batch.SVD.V, alpha)
	if err == nil {
		compute.Scale(s.Backend(), k.FisherWeight(), w)
	}
	return w, err
}
