package batched

import (
	"math"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// gaussian is N(mean, diag(std²)) of a actions.
type gaussian struct {
	backend    compute.Backend
	mean       compute.Block // n × a
	logStd     []float64     // a
	inverseStd compute.Block // 1 × a: 1/std
	precision  compute.Block // 1 × a: 1/std²
}

func newGaussian(s *compute.Scope, mean compute.Block, logStd []float64) *gaussian {
	inverseStd, precision := make([]float64, len(logStd)), make([]float64, len(logStd))
	for i, logStd := range logStd {
		inverseStd[i], precision[i] = math.Exp(-logStd), math.Exp(-2*logStd)
	}
	return &gaussian{s.Backend(), mean, logStd, s.FromSlice(1, len(logStd), inverseStd),
		s.FromSlice(1, len(logStd), precision)}
}

// scores are (x-mu)/std² in the mean and ((x-mu)/std)² - 1 in log_std.
func (g *gaussian) scores(s *compute.Scope, actions compute.Block) (mean, logStd compute.Block) {
	mean, logStd = s.New(actions.Rows, actions.Cols), s.New(actions.Rows, actions.Cols)
	b := g.backend
	standard := logStd // (x-mu)/std, until it is squared
	compute.Copy(b, standard, actions)
	compute.Axpy(b, -1, g.mean, standard)
	b.Mul(standard, g.inverseStd, standard, 0)
	b.Mul(mean, g.inverseStd, standard, 0)
	b.Mul(logStd, standard, standard, 0)
	b.Affine(logStd, 1, logStd, 0, -1)
	return mean, logStd
}

// logProb is -1/2 sum_j ((x_j-mu_j)/std_j)² - sum_j log_std_j - a/2 log(2 pi).
func (g *gaussian) logProb(s *compute.Scope, actions compute.Block) compute.Block {
	scope := compute.NewScope(g.backend)
	defer scope.Release()
	_, squares := g.scores(scope, actions) // ((x-mu)/std)² - 1
	ones := scope.New(actions.Rows, actions.Cols)
	compute.Fill(g.backend, ones, 1)
	logProb := s.New(actions.Rows, 1)
	g.backend.RowDots(logProb, squares, ones, 0)
	constant := -0.5 * float64(actions.Cols) * (1 + math.Log(2*math.Pi))
	for _, logStd := range g.logStd {
		constant -= logStd
	}
	g.backend.Affine(logProb, -0.5, logProb, 0, constant)
	return logProb
}

// kl is the mean of sum_j log(std'_j/std_j) + (std_j² + (mu_j-mu'_j)²)/(2 std'_j²) - 1/2.
func (g *gaussian) kl(other distribution) float64 {
	to := other.(*gaussian)
	compute.SameShape("KL divergence", g.mean, to.mean)
	scope := compute.NewScope(g.backend)
	defer scope.Release()
	difference, sums := scope.New(g.mean.Rows, g.mean.Cols), scope.New(1, g.mean.Cols)
	compute.Copy(g.backend, difference, g.mean)
	compute.Axpy(g.backend, -1, to.mean, difference)
	g.backend.Mul(difference, difference, difference, 0)
	g.backend.SumRows(sums, difference)
	kl := 0.0
	for j, squares := range compute.ToSlice(g.backend, sums) {
		ratio := g.logStd[j] - to.logStd[j]
		distance := squares / float64(g.mean.Rows) * math.Exp(-2*to.logStd[j])
		kl += 0.5*(math.Expm1(2*ratio)+distance) - ratio
	}
	return kl
}

// entropy is sum_j (log_std_j + log(2 pi e)/2), in every state.
func (g *gaussian) entropy() float64 {
	entropy := 0.0
	for _, logStd := range g.logStd {
		entropy += logStd + 0.5*math.Log(2*math.Pi*math.E)
	}
	return entropy
}

// R = diag(1/std).
func (g *gaussian) fisher(b compute.Backend, dst, x compute.Block, _ int) {
	b.Mul(dst, g.precision, x, 0)
}
func (g *gaussian) root(b compute.Backend, dst, x compute.Block, _ int) {
	b.Mul(dst, g.inverseStd, x, 0)
}

func (g *gaussian) first(n int) distribution {
	first := *g
	first.mean = g.mean.RowRange(0, n)
	return &first
}
