package statekernel

import "github.com/dbqpg/dbqpg/estimators/compute"

// Factor is an n × q matrix Z with ZZ' = c1 K_s at the points of a batch, represented by
// the products that the closed form needs.
type Factor interface {
	// Cols returns q.
	Cols() int
	// Gram sets dst, q × q, to Z'Z on and above its diagonal.
	Gram(dst compute.Block)
	// MulTransTo sets dst, q × k, to Z'x.
	MulTransTo(dst, x compute.Block)
	// AddTo adds scale Z c to dst, n × 1; c is q × 1.
	AddTo(dst compute.Block, scale float64, c compute.Block)
	// Rows allocates in s the rows of Z at some scaled features, m × d, of a whole factor.
	Rows(s *compute.Scope, scaled compute.Block) compute.Block
	// RowRange returns the factor of the batch's samples [lo, hi), over the same blocks.
	RowRange(lo, hi int) Factor
	// Whole returns a factor of the same kernel for the same samples that also has rows at
	// all other points: the factor itself unless it leaves out columns.
	Whole() Factor
	// Gradient propagates a gradient in Z: it returns the gradient in the base kernel's
	// hyperparameters, and sets dst (n × d) to the gradient in the batch's scaled features,
	// unless dst is the zero value.
	Gradient(dst compute.Block, in Gradient) (base []float64)
}

// Gradient is the gradient in Z, G = x c' - Z M - V N, of a function of ZZ'.
type Gradient struct {
	X compute.Block // n × 1
	C compute.Block // q × 1
	M compute.Block // q × q, symmetric
	V compute.Block // n × k
	N compute.Block // k × q

	Noise float64 // Z'G = cc' - I + noise M
}

// rows sets g to the rows [lo, hi) of G for a formed Z, computed by b.
func (in Gradient) rows(b compute.Backend, g, z compute.Block, lo, hi int) {
	b.Gemm(false, true, 1, in.X.RowRange(lo, hi), in.C, 0, g)
	b.Gemm(false, false, -1, z.RowRange(lo, hi), in.M, 1, g)
	b.Gemm(false, false, -1, in.V.RowRange(lo, hi), in.N, 1, g)
}

// addSquare adds to dst the diagonal block of Z'G that belongs to the columns [from, to).
func (in Gradient) addSquare(b compute.Backend, dst compute.Block, from, to int) {
	c := in.C.RowRange(from, to)
	b.Gemm(false, true, 1, c, c, 1, dst)
	compute.Axpy(b, in.Noise, in.M.View(from, to, from, to), dst)
	b.Affine(dst.Diagonal(), 1, dst.Diagonal(), 0, -1)
}
