package gp

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp/cholesky"
	"github.com/dbqpg/dbqpg/estimators/gp/statekernel"
)

// gram holds the products over n that the closed form needs: those with the r columns of
// B = [Z, fisher^1/2 V].
type gram struct {
	matrix     compute.Block // B'B, r × r, on and above its diagonal
	fisher     compute.Block // B'V, r × k
	targets    compute.Block // B'y, r × 1
	fisherGram *mat.SymDense // V'V
}

// FisherGram returns V'V, k × k. Fits that differ only in the features can share it.
func FisherGram(b compute.Backend, v compute.Block) *mat.SymDense {
	s := compute.NewScope(b)
	defer s.Release()
	dst := s.New(v.Cols, v.Cols)
	b.Gram(dst, v)
	return mat.NewSymDense(v.Cols, compute.ToSlice(b, dst))
}

// newGram allocates the products in s. V'V is given.
func newGram(s *compute.Scope, z statekernel.Factor, d Data, fisher float64, fisherGram *mat.SymDense) gram {
	b, q, k := s.Backend(), z.Cols(), d.Fisher.Cols
	r := q + k
	g := gram{matrix: s.New(r, r), fisher: s.New(r, k), targets: s.New(r, 1), fisherGram: fisherGram}
	z.Gram(g.matrix.View(0, q, 0, q))
	z.MulTransTo(g.fisher.RowRange(0, q), d.Fisher)
	z.MulTransTo(g.targets.RowRange(0, q), d.Targets)

	root, own := math.Sqrt(fisher), g.fisher.RowRange(q, r)
	b.Upload(own, mat.DenseCopyOf(g.fisherGram).RawMatrix().Data)
	compute.Scale(b, root, own)
	b.Affine(g.matrix.ColRange(q, r), root, g.fisher, 0, 0)
	b.Gemm(true, false, root, d.Fisher, d.Targets, 0, g.targets.RowRange(q, r))
	return g
}

// subtractFrom replaces g's products with B by those over the samples in all that are not in
// g.
func (g gram) subtractFrom(b compute.Backend, all gram) {
	for _, pair := range [][2]compute.Block{{g.matrix, all.matrix}, {g.fisher, all.fisher}, {g.targets, all.targets}} {
		compute.Scale(b, -1, pair[0])
		compute.Axpy(b, 1, pair[1], pair[0])
	}
}

// core returns V'(noise I + A A')^-1 V = (V'V - V'A (noise I + A'A)^-1 A'V)/noise, where
// factor is the Cholesky factor of noise I + A'A, and product is A'V.
func (g gram) core(b compute.Backend, factor cholesky.Factor, product compute.Block, noise float64) *mat.SymDense {
	s := compute.NewScope(b)
	defer s.Release()
	white := s.New(product.Rows, product.Cols)
	compute.Copy(b, white, product)
	factor.Whiten(white)
	core := FisherGram(b, white)
	core.ScaleSym(-1, core)
	core.AddSym(core, g.fisherGram)
	core.ScaleSym(1/noise, core)
	return core
}
