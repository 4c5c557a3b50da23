package linop

import (
	"fmt"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// ScoreLayer holds the results of a forward and a backward pass for a linear layer y =
// w h + b: the inputs H (n × in), and the derivatives D (n × out) of each sample's
// log-probability in y. The score of a sample in w is the outer product d_i h_i', and in b
// it is d_i.
type ScoreLayer struct{ Inputs, Signals compute.Block }

func (l ScoreLayer) weights() int { return l.Signals.Cols * l.Inputs.Cols }
func (l ScoreLayer) size() int    { return l.weights() + l.Signals.Cols }

// Scores is U = [grad log pi(a_1|s_1), ..., grad log pi(a_n|s_n)], p × n, the
// matrix behind the Fisher kernel (paper, eqn:kernel_equations): G = U U'/n. It is
// never formed; its columns are outer products by layer. The flat order of the
// parameters is, layer by layer, w (out × in, row-major) and b, then log_std.
type Scores struct {
	b      compute.Backend
	layers []ScoreLayer
	logStd compute.Block // n × a
	params int
}

// NewScores returns U for the layers, in order, and the scores in log_std (n × a, where a
// may be 0). It retains the blocks.
func NewScores(b compute.Backend, layers []ScoreLayer, logStd compute.Block) *Scores {
	u := &Scores{b: b, layers: layers, logStd: logStd, params: logStd.Cols}
	for i, l := range layers {
		if l.Inputs.Rows != logStd.Rows || l.Signals.Rows != logStd.Rows {
			panic(fmt.Sprintf("linop: layer %d of scores has %s inputs and %s signals for %d samples",
				i, l.Inputs.Shape(), l.Signals.Shape(), logStd.Rows))
		}
		u.params += l.size()
	}
	return u
}

// Dims implements [Operator]: parameters, samples.
func (u *Scores) Dims() (rows, cols int) { return u.params, u.logStd.Rows }

// MulTo implements [Operator]. Each column of U x is a weighted sum of scores, and each
// column of U'x a directional derivative of each sample's log-probability. Either takes
// 2np flops per column, and no pass through the network.
func (u *Scores) MulTo(dst, x compute.Block, trans bool) {
	checkMul("Scores", u, dst, x, trans)
	if trans {
		u.derivatives(dst, x)
		return
	}
	// Most memory is for the panels' partial sums, p numbers per column each.
	const columnsAtATime = 4
	for i := 0; i < x.Cols; i += columnsAtATime {
		j := min(i+columnsAtATime, x.Cols)
		u.weightedSums(dst.ColRange(i, j), x.ColRange(i, j))
	}
}

// MulSquare sets dst to U U'x (both p × k). It reads the samples of a panel once for both
// products, which is faster than two calls of MulTo.
func (u *Scores) MulSquare(dst, x compute.Block) {
	s := compute.NewScope(u.b)
	defer s.Release()
	_, n := u.Dims()
	direction, sum := s.New(1, u.params), s.New(1, u.params)
	partials := compute.NewPartials(s, n, 1, u.params)
	for j := range x.Cols {
		compute.Copy(u.b, direction.Reshape(u.params, 1), x.Col(j))
		u.b.Panels(n, func(b compute.Backend, panel, lo, hi int) {
			s := compute.NewScope(b)
			defer s.Release()
			rows, inner := u.rows(b, lo, hi), s.New(hi-lo, 1)
			rows.derivative(inner, direction)
			rows.weightedSum(partials.At(panel).Row(0), inner)
		})
		partials.SumTo(u.b, sum)
		compute.Copy(u.b, dst.Col(j), sum.Reshape(u.params, 1))
	}
}

// weightedSums sets dst to U x.
func (u *Scores) weightedSums(dst, x compute.Block) {
	s := compute.NewScope(u.b)
	defer s.Release()
	sums := s.New(x.Cols, u.params)
	partials := compute.NewPartials(s, x.Rows, x.Cols, u.params)
	u.b.Panels(x.Rows, func(b compute.Backend, panel, lo, hi int) {
		rows := u.rows(b, lo, hi)
		for j := range x.Cols {
			rows.weightedSum(partials.At(panel).Row(j), x.View(lo, hi, j, j+1))
		}
	})
	partials.SumTo(u.b, sums)
	for j := range x.Cols {
		compute.Copy(u.b, dst.Col(j), sums.Row(j).Reshape(u.params, 1))
	}
}

// derivatives sets dst to U'x.
func (u *Scores) derivatives(dst, x compute.Block) {
	s := compute.NewScope(u.b)
	defer s.Release()
	directions := s.New(x.Cols, u.params)
	for j := range x.Cols {
		compute.Copy(u.b, directions.Row(j).Reshape(u.params, 1), x.Col(j))
	}
	u.b.Panels(dst.Rows, func(b compute.Backend, _, lo, hi int) {
		rows := u.rows(b, lo, hi)
		for j := range x.Cols {
			rows.derivative(dst.View(lo, hi, j, j+1), directions.Row(j))
		}
	})
}

// First returns U restricted to its first n samples, a view.
func (u *Scores) First(n int) *Scores { return u.rows(u.b, 0, n) }

// rows returns U restricted to the samples [lo, hi), computed by b.
func (u *Scores) rows(b compute.Backend, lo, hi int) *Scores {
	part := &Scores{b: b, logStd: u.logStd.RowRange(lo, hi), params: u.params}
	for _, l := range u.layers {
		part.layers = append(part.layers, ScoreLayer{l.Inputs.RowRange(lo, hi), l.Signals.RowRange(lo, hi)})
	}
	return part
}

// parameters divides a flat 1 × p block into a layer's weights (out × in), its bias
// (1 × out) and the rest.
func (l ScoreLayer) parameters(flat compute.Block) (w, bias, rest compute.Block) {
	w = flat.ColRange(0, l.weights()).Reshape(l.Signals.Cols, l.Inputs.Cols)
	return w, flat.ColRange(l.weights(), l.size()), flat.ColRange(l.size(), flat.Cols)
}

// weightedSum sets the 1 × p block sum to (U m)': for each layer D'diag(m)H and m'D, then
// m' times the scores in log_std. It multiplies the narrower factor by the weights.
func (u *Scores) weightedSum(sum, m compute.Block) {
	for _, l := range u.layers {
		var w, bias compute.Block
		w, bias, sum = l.parameters(sum)
		u.weightedOuter(w, l, m)
		u.b.Gemm(true, false, 1, m, l.Signals, 0, bias)
	}
	u.b.Gemm(true, false, 1, m, u.logStd, 0, sum)
}

// weightedOuter sets w to D'diag(m)H.
func (u *Scores) weightedOuter(w compute.Block, l ScoreLayer, m compute.Block) {
	s := compute.NewScope(u.b)
	defer s.Release()
	if l.Inputs.Cols < l.Signals.Cols {
		weighted := s.New(m.Rows, l.Inputs.Cols)
		u.b.Mul(weighted, m, l.Inputs, 0)
		u.b.Gemm(true, false, 1, l.Signals, weighted, 0, w)
		return
	}
	weighted := s.New(m.Rows, l.Signals.Cols)
	u.b.Mul(weighted, m, l.Signals, 0)
	u.b.Gemm(true, false, 1, weighted, l.Inputs, 0, w)
}

// derivative sets the n × 1 block dst to U'N for a direction N (1 × p): the sum
// over layers of rowsum((H N_w' + N_b) * D), which is rowsum(H * (D N_w)) + D N_b',
// and the log_std scores times N's last part.
func (u *Scores) derivative(dst, direction compute.Block) {
	s := compute.NewScope(u.b)
	defer s.Release()
	compute.Fill(u.b, dst, 0)
	for _, l := range u.layers {
		var w, bias compute.Block
		w, bias, direction = l.parameters(direction)
		if l.Inputs.Cols < l.Signals.Cols {
			product := s.New(l.Inputs.Rows, l.Inputs.Cols)
			u.b.Gemm(false, false, 1, l.Signals, w, 0, product)
			u.b.RowDots(dst, l.Inputs, product, 1)
			u.b.Gemm(false, true, 1, l.Signals, bias, 1, dst)
			continue
		}
		product := s.New(l.Signals.Rows, l.Signals.Cols)
		u.b.Gemm(false, true, 1, l.Inputs, w, 0, product)
		compute.Axpy(u.b, 1, bias, product)
		u.b.RowDots(dst, l.Signals, product, 1)
	}
	u.b.Gemm(false, true, 1, u.logStd, direction, 1, dst)
}
