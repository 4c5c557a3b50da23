package batched

import (
	"fmt"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/nn/blocks"
)

// Fisher is the policy's damped Fisher information matrix over the batch (p × p),
// defined by its products:
//
//	G = (1/n) sum_i J_i' F_i J_i + damping I   for the network's parameters
//	G = 2 I + damping I                        for log_std
//
// where J_i is the Jacobian of the network's outputs at observation i, and F_i the distribution's
// Fisher matrix in these: diag(1/std²) of a Gaussian, diag(p) - p p' of each choice. The expectation
// over actions is exact: no sampled action enters. A product is one forward-mode and one reverse-mode
// pass of the network, panel by panel.
type Fisher struct {
	policy  *Policy
	damping float64
}

// Fisher returns the Fisher matrix of the batch with damping times the identity
// added.
func (g *Policy) Fisher(damping float64) *Fisher { return &Fisher{g, damping} }

// Dims returns p and p.
func (f *Fisher) Dims() (rows, cols int) {
	return f.policy.shape.NumParams(), f.policy.shape.NumParams()
}

// MulTo sets dst to G x, for p × k blocks that do not overlap; G is symmetric.
func (f *Fisher) MulTo(dst, x compute.Block, _ bool) {
	compute.SameShape("Fisher product", dst, x)
	if p, _ := f.Dims(); x.Rows != p {
		panic(fmt.Sprintf("batched: a Fisher product of %d parameters with a %s block", p, x.Shape()))
	}
	b := f.policy.backend
	scope := compute.NewScope(b)
	defer scope.Release()
	in, out := scope.New(x.Rows, 1), scope.New(x.Rows, 1)
	for j := range x.Cols {
		compute.Copy(b, in, x.Col(j))
		f.mulVector(out, in)
		compute.Copy(b, dst.Col(j), out)
	}
}

// mulVector is MulTo for contiguous p × 1 blocks.
func (f *Fisher) mulVector(dst, x compute.Block) {
	g := f.policy
	b := g.backend
	network := g.shape.Network()
	p := network.NumParams()
	scope := compute.NewScope(b)
	defer scope.Release()
	direction := blocks.Bind(network, x.RowRange(0, p))
	parts := compute.NewPartials(scope, g.Samples(), p, 1)
	b.Panels(g.Samples(), func(b compute.Backend, panel, lo, hi int) {
		s := compute.NewScope(b)
		defer s.Release()
		h := g.activations.Rows(lo, hi)
		moved := g.net.JVPRows(s, h, direction)
		g.distribution.fisher(b, moved, moved, lo)
		compute.Scale(b, 1/float64(g.Samples()), moved)
		g.net.VJPRows(s, h, moved, blocks.Bind(network, parts.At(panel)))
	})
	parts.SumTo(b, dst.RowRange(0, p))
	b.Affine(dst.RowRange(p, dst.Rows), 2, x.RowRange(p, x.Rows), 0, 0)
	compute.Axpy(b, f.damping, x, dst)
}

// Compress sets dst to x'Gx (k × k) for the columns of x (p × k). It is the sum over
// samples of the products of their tangents R_i J_i x, where F_i = R_i'R_i, so that it takes
// forward-mode passes alone: half the work of a product with G.
func (f *Fisher) Compress(dst, x compute.Block) {
	g := f.policy
	b, k, n, outputs := g.backend, x.Cols, g.Samples(), g.Outputs().Cols
	network := g.shape.Network()
	p := network.NumParams()
	scope := compute.NewScope(b)
	defer scope.Release()
	directions := scope.New(k, x.Rows) // x', whose rows are contiguous
	for j := range k {
		compute.Copy(b, directions.Row(j).Reshape(x.Rows, 1), x.Col(j))
	}
	parts := compute.NewPartials(scope, n, k, k)
	b.Panels(n, func(b compute.Backend, panel, lo, hi int) {
		s := compute.NewScope(b)
		defer s.Release()
		h := g.activations.Rows(lo, hi)
		tangents := s.New(k, (hi-lo)*outputs)
		for j := range k {
			pass := compute.NewScope(b)
			moved := g.net.JVPRows(pass, h, blocks.Bind(network, directions.Row(j).ColRange(0, p).Reshape(p, 1)))
			g.distribution.root(b, tangents.Row(j).Reshape(hi-lo, outputs), moved, lo)
			pass.Release()
		}
		b.Gemm(false, true, 1/float64(n), tangents, tangents, 0, parts.At(panel))
	})
	parts.SumTo(b, dst)
	logStd := x.RowRange(p, x.Rows)
	b.Gemm(true, false, 2, logStd, logStd, 1, dst)
	b.Gemm(true, false, f.damping, x, x, 1, dst)
}
