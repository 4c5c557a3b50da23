package linop_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/estimators/linop/linoptest"
)

const kroneckerDamping = 0.1

// kronecker writes the approximation's inverse out and inverts it: in the flat order of a layer's parameters, w by
// rows and then b, the element between (i, h) and (j, k) is D_ij H_hk.
func (d *scoreData) kronecker(t *testing.T, damping float64) *mat.Dense {
	t.Helper()
	p, _ := d.dense().Dims()
	m, at := mat.NewDense(p, p, nil), 0
	for l := range d.in {
		in, out := d.in[l], d.out[l]
		dd, hh := mat.NewDense(out, out, nil), mat.NewDense(in+1, in+1, nil)
		for i := range d.n {
			signal := d.signals[l][i*out : (i+1)*out]
			inputs := append(append([]float64(nil), d.inputs[l][i*in:(i+1)*in]...), 1)
			dd.RankOne(dd, 1/float64(d.n), mat.NewVecDense(out, signal), mat.NewVecDense(out, signal))
			hh.RankOne(hh, 1/float64(d.n), mat.NewVecDense(in+1, inputs), mat.NewVecDense(in+1, inputs))
		}
		ratio := math.Sqrt(mat.Trace(hh) / float64(in+1) / (mat.Trace(dd) / float64(out)))
		dd.Add(dd, scaledIdentity(out, math.Sqrt(damping)/ratio))
		hh.Add(hh, scaledIdentity(in+1, math.Sqrt(damping)*ratio))
		flat := func(i, h int) int {
			if h == in {
				return at + out*in + i
			}
			return at + i*in + h
		}
		for i := range out {
			for j := range out {
				for h := range in + 1 {
					for k := range in + 1 {
						m.Set(flat(i, h), flat(j, k), dd.At(i, j)*hh.At(h, k))
					}
				}
			}
		}
		at += out * (in + 1)
	}
	for ; at < p; at++ {
		m.Set(at, at, 2+damping)
	}
	var inverse mat.Dense
	if err := inverse.Inverse(m); err != nil {
		t.Fatal(err)
	}
	return &inverse
}

func TestKronecker(t *testing.T) {
	linoptest.Test(t, linoptest.Case{
		Build: func(s *compute.Scope, rng *rand.Rand, n int) linop.Operator {
			k, err := drawScores(rng, n).build(s).Kronecker(s, kroneckerDamping)
			if err != nil {
				t.Fatal(err)
			}
			return k
		},
		Dense: func(rng *rand.Rand, n int) *mat.Dense { return drawScores(rng, n).kronecker(t, kroneckerDamping) },
	})
}

// Where signals and inputs are independent, as they are drawn here, it is close to the inverse of the Fisher matrix:
// conjugate gradients take few iterations, whatever the inputs' scales.
func TestKroneckerPreconditions(t *testing.T) {
	linoptest.EachBackend(t, func(t *testing.T, b compute.Backend) {
		s := compute.NewScope(b)
		defer s.Release()
		rng := rand.New(rand.NewPCG(12, 0))
		data := drawScores(rng, 2000)
		for l := range data.in {
			for i := range data.inputs[l] {
				data.inputs[l][i] *= float64(1 + i%data.in[l])
			}
		}
		u := data.build(s)
		p, _ := u.Dims()
		near, err := u.Kronecker(s, kroneckerDamping)
		if err != nil {
			t.Fatal(err)
		}
		metric := linop.NewSum(b, linop.NewEmpiricalFisher(b, u), linop.NewScaledIdentity(b, p, kroneckerDamping))
		y, x := s.FromSlice(p, 1, linoptest.Normal(rng, p)), s.New(p, 1)
		plain, err := linop.CG{MaxIterations: 500}.Solve(b, metric, x, y)
		if err != nil {
			t.Fatal(err)
		}
		with, err := linop.CG{Preconditioner: near}.Solve(b, metric, x, y)
		if err != nil || 2*with.Iterations > plain.Iterations {
			t.Errorf("%d iterations with the preconditioner, %d without (%v)", with.Iterations, plain.Iterations, err)
		}
	})
}

// A layer that passes no signal back, and scores that are not numbers.
func TestKroneckerOfDegenerateScores(t *testing.T) {
	linoptest.EachBackend(t, func(t *testing.T, b compute.Backend) {
		s := compute.NewScope(b)
		defer s.Release()
		data := drawScores(rand.New(rand.NewPCG(13, 0)), 30)
		clear(data.signals[0])
		if _, err := data.build(s).Kronecker(s, kroneckerDamping); err != nil {
			t.Errorf("no signals in a layer: %v", err)
		}
		data.inputs[1][7] = math.NaN()
		var notFinite *linop.NotFiniteError
		if _, err := data.build(s).Kronecker(s, kroneckerDamping); !errors.As(err, &notFinite) {
			t.Errorf("a NaN among the inputs: %v, want a NotFiniteError", err)
		}
	})
}
