package batched

import (
	"fmt"
	"math"
	"slices"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// categorical is softmax(z) of f independent choices, whose logits z are k numbers in all. What takes a pass over n × k
// numbers alone is computed on the host.
type categorical struct {
	backend  compute.Backend
	choices  []int         // f
	logProbs []float64     // n × k: of each choice
	probs    compute.Block // n × k
	roots    compute.Block // n × k: of probs
	same     compute.Block // k × k: 1 for two outputs of the same choice, else 0
}

func newCategorical(s *compute.Scope, logits compute.Block, choices []int) *categorical {
	n, k := logits.Rows, logits.Cols
	c := &categorical{backend: s.Backend(), choices: choices, logProbs: compute.ToSlice(s.Backend(), logits)}
	for row := c.logProbs; len(row) > 0; {
		for _, size := range choices {
			logSoftmax(row[:size])
			row = row[size:]
		}
	}
	probs, roots, same := make([]float64, n*k), make([]float64, n*k), make([]float64, k*k)
	for i, x := range c.logProbs {
		probs[i], roots[i] = math.Exp(x), math.Exp(x/2)
	}
	from := 0
	for _, size := range choices {
		for i := from; i < from+size; i++ {
			for j := from; j < from+size; j++ {
				same[i*k+j] = 1
			}
		}
		from += size
	}
	c.probs, c.roots, c.same = s.FromSlice(n, k, probs), s.FromSlice(n, k, roots), s.FromSlice(k, k, same)
	return c
}

// logSoftmax turns logits into log-probabilities.
func logSoftmax(x []float64) {
	largest, sum := slices.Max(x), 0.0
	for _, v := range x {
		sum += math.Exp(v - largest)
	}
	for i := range x {
		x[i] -= largest + math.Log(sum)
	}
}

// taken returns the positions of the actions' log-probabilities, n × f.
func (c *categorical) taken(actions compute.Block) []int {
	positions, from := make([]int, actions.Rows*actions.Cols), 0
	for i, x := range compute.ToSlice(c.backend, actions) {
		size := c.choices[i%len(c.choices)]
		if !(x >= 0 && x < float64(size) && x == math.Trunc(x)) {
			panic(fmt.Sprintf("batched: action %v is not an index below %d", x, size))
		}
		positions[i] = from + int(x)
		from += size
	}
	return positions
}

// scores are, in the logits, e - p with 1 in e for each action taken.
func (c *categorical) scores(s *compute.Scope, actions compute.Block) (logits, logStd compute.Block) {
	signals := make([]float64, len(c.logProbs))
	for i, x := range c.logProbs {
		signals[i] = -math.Exp(x)
	}
	for _, i := range c.taken(actions) {
		signals[i]++
	}
	return s.FromSlice(c.probs.Rows, c.probs.Cols, signals), s.New(c.probs.Rows, 0)
}

// logProb is sum_f log p_f(a_f).
func (c *categorical) logProb(s *compute.Scope, actions compute.Block) compute.Block {
	sums := make([]float64, actions.Rows)
	for i, position := range c.taken(actions) {
		sums[i/actions.Cols] += c.logProbs[position]
	}
	return s.FromSlice(len(sums), 1, sums)
}

// kl is the mean of sum p log(p/q), computed as sum p (q/p - 1 - log(q/p)), no term of which is negative.
func (c *categorical) kl(other distribution) float64 {
	to, sum := other.(*categorical), 0.0
	compute.SameShape("KL divergence", c.probs, to.probs)
	for i, x := range c.logProbs {
		d := to.logProbs[i] - x
		sum += math.Exp(x) * (math.Expm1(d) - d)
	}
	return sum / float64(c.probs.Rows)
}

// entropy is the mean of -sum p log p.
func (c *categorical) entropy() float64 {
	sum := 0.0
	for _, x := range c.logProbs {
		sum -= math.Exp(x) * x
	}
	return sum / float64(c.probs.Rows)
}

// R = diag(sqrt p) (I - 1 p'), so that R'R = diag(p) - p p' for each choice.
func (c *categorical) fisher(b compute.Backend, dst, x compute.Block, lo int) {
	c.mul(b, dst, x, lo, c.probs)
}
func (c *categorical) root(b compute.Backend, dst, x compute.Block, lo int) {
	c.mul(b, dst, x, lo, c.roots)
}

// mul sets the rows of dst to weights * (x - 1 p'x).
func (c *categorical) mul(b compute.Backend, dst, x compute.Block, lo int, weights compute.Block) {
	s := compute.NewScope(b)
	defer s.Release()
	weighted, hi := s.New(x.Rows, x.Cols), lo+x.Rows
	b.Mul(weighted, c.probs.RowRange(lo, hi), x, 0)
	b.Gemm(false, false, -1, weighted, c.same, 1, x)
	b.Mul(dst, weights.RowRange(lo, hi), x, 0)
}

func (c *categorical) first(n int) distribution {
	first := *c
	first.logProbs = c.logProbs[:n*c.probs.Cols]
	first.probs, first.roots = c.probs.RowRange(0, n), c.roots.RowRange(0, n)
	return &first
}
