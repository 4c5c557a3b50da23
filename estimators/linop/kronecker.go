package linop

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// Kronecker approximates (UU'/n + damping I)^-1, p × p, for the scores U of n samples, by
// one Kronecker product for each layer (K-FAC: Martens and Grosse 2015, sections 3 and
// 6.3). A layer's score is the outer product of its signal d and its inputs h, with a 1
// for the bias. If the two were independent, and layers too, UU'/n would be E[dd'] ⊗
// E[hh'], whose inverse is known from those of the two small factors. The damping is split
// between them, and log_std's block of a Gaussian policy is 2 I.
//
// A product costs 2 out in (out + in) flops a layer and reads no sample, so that it
// suits conjugate gradients with the Fisher matrix where p is large.
type Kronecker struct {
	b      compute.Backend
	params int
	layers []kroneckerLayer
	logStd float64
}

// kroneckerLayer has the inverses of a layer's damped factors.
type kroneckerLayer struct{ signals, inputs compute.Block } // out × out, (in+1) × (in+1)

// Kronecker computes the factors and their inverses, in s. It panics unless damping is
// positive. The error is a [*NotFiniteError].
func (u *Scores) Kronecker(s *compute.Scope, damping float64) (*Kronecker, error) {
	if !(damping > 0) {
		panic("linop: Kronecker factors need a positive damping")
	}
	k := &Kronecker{b: u.b, params: u.params, logStd: 1 / (2 + damping)}
	for _, l := range u.layers {
		signals, inputs := u.moments(l.Signals, false), u.moments(l.Inputs, true)
		// Each factor takes its share of the damping, in proportion to its mean eigenvalue.
		ratio := 1.0
		if d, h := meanEigenvalue(signals), meanEigenvalue(inputs); d > 0 && h > 0 {
			ratio = math.Sqrt(h / d)
		}
		d, err := dampedInverse(s, signals, math.Sqrt(damping)/ratio)
		if err != nil {
			return nil, err
		}
		h, err := dampedInverse(s, inputs, math.Sqrt(damping)*ratio)
		if err != nil {
			return nil, err
		}
		k.layers = append(k.layers, kroneckerLayer{d, h})
	}
	return k, nil
}

// moments returns E[xx'] of the rows x of a block, each extended by a 1 on demand.
func (u *Scores) moments(x compute.Block, extended bool) *mat.SymDense {
	s := compute.NewScope(u.b)
	defer s.Release()
	products, sums := s.New(x.Cols, x.Cols), s.New(1, x.Cols)
	u.b.Gram(products, x)
	m := mat.NewSymDense(x.Cols, compute.ToSlice(u.b, products))
	if extended {
		u.b.SumRows(sums, x)
		m = m.GrowSym(1).(*mat.SymDense)
		for j, sum := range compute.ToSlice(u.b, sums) {
			m.SetSym(j, x.Cols, sum)
		}
		m.SetSym(x.Cols, x.Cols, float64(x.Rows))
	}
	m.ScaleSym(1/float64(x.Rows), m)
	return m
}

func meanEigenvalue(m *mat.SymDense) float64 { return mat.Trace(m) / float64(m.SymmetricDim()) }

// dampedInverse returns the inverse of m + damping I as a block in s.
func dampedInverse(s *compute.Scope, m *mat.SymDense, damping float64) (compute.Block, error) {
	k := m.SymmetricDim()
	for i := range k {
		m.SetSym(i, i, m.At(i, i)+damping)
	}
	var factor mat.Cholesky
	var inverse mat.SymDense
	// A matrix of moments with damping has a factor unless the samples are not finite, or
	// so large that the damping is lost beside them.
	if !factor.Factorize(m) || factor.InverseTo(&inverse) != nil {
		return compute.Block{}, &NotFiniteError{"the Kronecker factors of scores"}
	}
	return s.FromSlice(k, k, mat.DenseCopyOf(&inverse).RawMatrix().Data), nil
}

// Dims implements [Operator].
func (k *Kronecker) Dims() (rows, cols int) { return k.params, k.params }

// MulTo implements [Operator]; the matrix is symmetric and positive definite.
func (k *Kronecker) MulTo(dst, x compute.Block, trans bool) {
	checkMul("Kronecker", k, dst, x, trans)
	s := compute.NewScope(k.b)
	defer s.Release()
	in, out := s.New(1, k.params), s.New(1, k.params)
	for j := range x.Cols {
		compute.Copy(k.b, in.Reshape(k.params, 1), x.Col(j))
		k.column(out, in)
		compute.Copy(k.b, dst.Col(j), out.Reshape(k.params, 1))
	}
}

// column is MulTo of one flat vector, 1 × p.
func (k *Kronecker) column(dst, x compute.Block) {
	for _, l := range k.layers {
		out, in := l.signals.Rows, l.inputs.Rows-1
		s := compute.NewScope(k.b)
		extended, product := s.New(out, in+1), s.New(out, in+1) // [w b]
		weights, bias := extended.ColRange(0, in), extended.Col(in)
		compute.Copy(k.b, weights, x.ColRange(0, out*in).Reshape(out, in))
		compute.Copy(k.b, bias, x.ColRange(out*in, out*in+out).Reshape(out, 1))
		k.b.Gemm(false, false, 1, l.signals, extended, 0, product)
		k.b.Gemm(false, false, 1, product, l.inputs, 0, extended)
		compute.Copy(k.b, dst.ColRange(0, out*in).Reshape(out, in), weights)
		compute.Copy(k.b, dst.ColRange(out*in, out*in+out).Reshape(out, 1), bias)
		s.Release()
		x, dst = x.ColRange(out*in+out, x.Cols), dst.ColRange(out*in+out, dst.Cols)
	}
	k.b.Affine(dst, k.logStd, x, 0, 0)
}
