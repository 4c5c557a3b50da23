package blocks

import (
	"fmt"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/nn"
)

// Net is a network over flat parameters on a backend: the parameters themselves,
// a direction in parameter space, or a gradient. It is a view.
type Net struct {
	mlp     nn.MLP
	weights []compute.Block // out × in
	biases  []compute.Block // 1 × out
}

// Bind views the contiguous NumParams × 1 block params as the network's weights
// and biases.
func Bind(m nn.MLP, params compute.Block) Net {
	if params.Rows != m.NumParams() || params.Cols != 1 || !params.Contiguous() || params.Stride != 1 {
		panic(fmt.Sprintf("blocks: a %s block (stride %d) as the %d parameters of %v", params.Shape(), params.Stride,
			m.NumParams(), m.Sizes))
	}
	net := Net{mlp: m}
	for _, l := range m.Layers() {
		net.weights = append(net.weights, params.RowRange(l.Weights, l.Bias).Reshape(l.Out, l.In))
		net.biases = append(net.biases, params.RowRange(l.Bias, l.End()).Reshape(1, l.Out))
	}
	return net
}

// Activations are the layers' values H_0 (the inputs), ..., H_L (the outputs), each
// with one row per sample.
type Activations []compute.Block

// Output returns H_L.
func (h Activations) Output() compute.Block { return h[len(h)-1] }

// Rows returns a view of samples [i, j).
func (h Activations) Rows(i, j int) Activations {
	rows := make(Activations, len(h))
	for l := range h {
		rows[l] = h[l].RowRange(i, j)
	}
	return rows
}

// newActivations allocates H_1, ..., H_L for the inputs x (n × in), which become
// H_0.
func newActivations(m nn.MLP, s *compute.Scope, x compute.Block) Activations {
	h := Activations{x}
	for _, out := range m.Sizes[1:] {
		h = append(h, s.New(x.Rows, out))
	}
	return h
}

// Forward evaluates the network at x (n × in), panel by panel, and keeps every
// layer.
func (n Net) Forward(s *compute.Scope, x compute.Block) Activations {
	h := newActivations(n.mlp, s, x)
	s.Backend().Panels(x.Rows, func(b compute.Backend, _, lo, hi int) { n.forwardRows(b, h.Rows(lo, hi)) })
	return h
}

// forwardRows sets H_1, ..., H_L from H_0.
func (n Net) forwardRows(b compute.Backend, h Activations) {
	for l, w := range n.weights {
		b.Gemm(false, true, 1, h[l], w, 0, h[l+1])
		if n.hasTanh(l) {
			b.Tanh(h[l+1], n.biases[l])
		} else {
			compute.Axpy(b, 1, n.biases[l], h[l+1])
		}
	}
}

// hasTanh reports whether layer l (from 0) ends in a tanh.
func (n Net) hasTanh(l int) bool { return l < len(n.weights)-1 || n.mlp.TanhOutput }

// Backward returns the signals D_1, ..., D_L of the output signal S (n × out),
// panel by panel.
func (n Net) Backward(s *compute.Scope, h Activations, signal compute.Block) []compute.Block {
	compute.SameShape("backward", h.Output(), signal)
	d := []compute.Block(newActivations(n.mlp, s, signal))[1:]
	s.Backend().Panels(signal.Rows, func(b compute.Backend, _, lo, hi int) {
		rows := make([]compute.Block, len(d))
		for l := range d {
			rows[l] = d[l].RowRange(lo, hi)
		}
		compute.Copy(b, rows[len(d)-1], signal.RowRange(lo, hi))
		n.backwardRows(b, h.Rows(lo, hi), rows)
	})
	return d
}

// backwardRows sets D_1, ..., D_L from S, which is in D_L's place.
func (n Net) backwardRows(b compute.Backend, h Activations, d []compute.Block) {
	for l := len(d) - 1; l >= 0; l-- {
		if l < len(d)-1 {
			b.Gemm(false, false, 1, d[l+1], n.weights[l+1], 0, d[l])
		}
		if n.hasTanh(l) {
			b.TanhGrad(d[l], h[l+1])
		}
	}
}

// JVPRows returns the outputs' derivative T_L (rows × out) along a direction.
func (n Net) JVPRows(s *compute.Scope, h Activations, direction Net) compute.Block {
	b := s.Backend()
	var t compute.Block
	for l, w := range n.weights {
		next := s.New(h[l].Rows, w.Rows)
		b.Gemm(false, true, 1, h[l], direction.weights[l], 0, next)
		if l > 0 {
			b.Gemm(false, true, 1, t, w, 1, next)
		}
		compute.Axpy(b, 1, direction.biases[l], next)
		if n.hasTanh(l) {
			b.TanhGrad(next, h[l+1])
		}
		t = next
	}
	return t
}

// VJPRows sets gradient to the derivatives of sum(S * H_L) in the parameters. It
// overwrites the signal S (rows × out).
func (n Net) VJPRows(s *compute.Scope, h Activations, signal compute.Block, gradient Net) {
	d := make([]compute.Block, len(n.weights))
	for l := range d {
		d[l] = signal
		if l < len(d)-1 {
			d[l] = s.New(signal.Rows, n.weights[l].Rows)
		}
	}
	b := s.Backend()
	n.backwardRows(b, h, d)
	for l := range d {
		b.Gemm(true, false, 1, d[l], h[l], 0, gradient.weights[l])
		b.SumRows(gradient.biases[l], d[l])
	}
}

// VJP sets dst (NumParams × 1) to the derivatives of sum(S * H_L) in the
// parameters, panel by panel. It overwrites the signal S (n × out).
func (n Net) VJP(b compute.Backend, h Activations, signal, dst compute.Block) {
	compute.SameShape("vjp", h.Output(), signal)
	scope := compute.NewScope(b)
	defer scope.Release()
	parts := compute.NewPartials(scope, signal.Rows, dst.Rows, 1)
	b.Panels(signal.Rows, func(b compute.Backend, panel, lo, hi int) {
		s := compute.NewScope(b)
		defer s.Release()
		n.VJPRows(s, h.Rows(lo, hi), signal.RowRange(lo, hi), Bind(n.mlp, parts.At(panel)))
	})
	parts.SumTo(b, dst)
}
