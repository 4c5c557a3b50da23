package linop

import (
	"math"
	"math/rand/v2"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// The sizes of RandomizedSVD's two sketches: so many columns a unit of rank, and at
// least the numbers beside, which cost nothing that could be noticed. See the
// package's documentation for what was measured.
const (
	rangeColumns, leastColumns = 1.5, 120  // of U'Omega
	basisColumns, leastBasis   = 1.15, 100 // kept of them
	sampleGroups, leastGroups  = 4, 400    // of the samples
)

// inputsAColumn is the number of a layer's inputs that a column of Omega has, at least.
const inputsAColumn = 64

// size returns the number of columns of a sketch.
func size(perRank float64, rank, least int) int {
	return max(int(math.Ceil(perRank*float64(rank))), least)
}

// RandomizedSVD approximates U's leading rank singular triplets by two sketches
// (see the package's documentation). The products that matter, with n samples, p
// parameters and rank delta, are
//
//	Y = U'Omega        3 n delta (min(in, 64) + out) a layer, flops
//	its basis Q = Y T  2 n delta^2
//	U S                2 n p
//	U Q                9 p delta^2
//	its SVD            1.3 p delta^2, 3 n delta^2
//
// The blocks belong to s; the result depends on U and rng's state alone. Where U
// has fewer singular values above rounding error, it returns those. The error is a
// [*RankError] or a [*NotFiniteError].
func RandomizedSVD(s *compute.Scope, u *Scores, rank int, rng *rand.Rand) (*SVD, error) {
	if err := checkRank(u, rank); err != nil {
		return nil, err
	}
	b := s.Backend()
	inner := compute.NewScope(b)
	defer inner.Release()

	p, n := u.Dims()
	y := inner.New(n, min(size(rangeColumns, rank, leastColumns), n, p))
	u.rangeSketch(y, rng)
	basis, err := rightVectors(inner, y, size(basisColumns, rank, leastBasis), smallestSquare)
	if err != nil {
		return nil, err
	}
	uq := s.New(p, basis.r.Cols)
	if err := u.sampleSketch(uq, y, basis.inverse,
		randomGroups(n, min(size(sampleGroups, rank, leastGroups), n), rng)); err != nil {
		return nil, err
	}

	// With the SVD U Q = P S R', U ~ U Q Q' = P S (Q R)', and Q = Y T.
	right, err := rightVectors(s, uq, rank, smallestSquare)
	if err != nil {
		return nil, err
	}
	svd := &SVD{
		P: NewProduct(b, NewDense(b, uq), NewDense(b, right.inverse)),
		S: right.s,
		V: s.New(n, right.r.Cols),
	}
	b.Gemm(false, false, 1, y, Mul(inner, NewDense(b, basis.inverse), right.r, false), 0, svd.V)
	return svd, nil
}

// rangeSketch sets y (n × columns) to U'Omega for random Omega whose part in each
// layer has rank one: column k is b_k a_k' in the weights and b_k c_k in the bias,
// so that
//
//	U'Omega = sum over layers (H A + 1 c) * (D B)  +  (log_std scores) E,
//
// two thin products a layer. All numbers are random signs; they did a little better than
// normal numbers, whose products have heavy tails.
//
// The first layer of a humanoid has 376 inputs and would take most of the time. So where
// a layer has several times inputsAColumn inputs, they are split into that many parts,
// the columns too, and a column's a is zero outside of its part, and the longer inside of
// it: E[Omega Omega'] is a multiple of I still, as it is for a dense sketch.
func (u *Scores) rangeSketch(y compute.Block, rng *rand.Rand) {
	s := compute.NewScope(u.b)
	defer s.Release()
	signs := func(rows int) compute.Block {
		return s.FromSlice(rows, y.Cols, randomSigns(rows*y.Cols, rng))
	}
	type factors struct {
		a, c, b compute.Block
		parts   int
	}
	var omega []factors
	for _, l := range u.layers {
		f := factors{a: signs(l.Inputs.Cols), c: signs(1), b: signs(l.Signals.Cols),
			parts: max(1, l.Inputs.Cols/inputsAColumn)}
		compute.Scale(u.b, math.Sqrt(float64(f.parts)), f.a)
		omega = append(omega, f)
	}
	e := signs(u.logStd.Cols)

	u.b.Panels(y.Rows, func(b compute.Backend, _, lo, hi int) {
		s := compute.NewScope(b)
		defer s.Release()
		rows, inputs, signals := y.RowRange(lo, hi), s.New(hi-lo, y.Cols), s.New(hi-lo, y.Cols)
		b.Gemm(false, false, 1, u.logStd.RowRange(lo, hi), e, 0, rows)
		for i, l := range u.layers {
			f, h := omega[i], l.Inputs.RowRange(lo, hi)
			for part := range f.parts {
				from, to := part*y.Cols/f.parts, (part+1)*y.Cols/f.parts
				first, last := part*h.Cols/f.parts, (part+1)*h.Cols/f.parts
				b.Gemm(false, false, 1, h.ColRange(first, last), f.a.View(first, last, from, to), 0,
					inputs.ColRange(from, to))
			}
			compute.Axpy(b, 1, f.c, inputs)
			b.Gemm(false, false, 1, l.Signals.RowRange(lo, hi), f.b, 0, signals)
			b.Mul(rows, inputs, signals, 1)
		}
	})
}
