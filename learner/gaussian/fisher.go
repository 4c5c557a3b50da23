package gaussian

import (
	"fmt"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/nn/blocks"
)

// Fisher is the policy's damped Fisher information matrix over the batch (p × p),
// defined by its products:
//
//	G = (1/n) sum_i J_i' diag(1/std²) J_i + damping I   for the mean's parameters
//	G = 2 I + damping I                                 for log_std
//
// where J_i is the mean's Jacobian at observation i. The expectation over actions
// is exact: no sampled action enters. A product is one forward-mode and one reverse-mode
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
		panic(fmt.Sprintf("gaussian: a Fisher product of %d parameters with a %s block", p, x.Shape()))
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
	network := g.shape.Mean()
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
		b.Mul(moved, g.precision, moved, 0)
		compute.Scale(b, 1/float64(g.Samples()), moved)
		g.net.VJPRows(s, h, moved, blocks.Bind(network, parts.At(panel)))
	})
	parts.SumTo(b, dst.RowRange(0, p))
	b.Affine(dst.RowRange(p, dst.Rows), 2, x.RowRange(p, x.Rows), 0, 0)
	compute.Axpy(b, f.damping, x, dst)
}
