package linop

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// Trace estimates the trace of a square operator a of order p on backend b: as it is over
// the orthonormal columns Q of basis (p × k), and by probes beyond them,
//
//	tr A = tr Q'AQ + tr (I - QQ') A (I - QQ'),
//
// where w'Aw has the second for its mean, with (I - QQ') times random signs for w. The less
// of A the basis leaves, the smaller the error (as Hutch++; Meyer, Musco, Musco and Woodruff
// 2021). The zero Block stands for no basis. It takes k + probes products.
func Trace(b compute.Backend, a Operator, basis compute.Block, probes int, rng *rand.Rand) Estimate {
	s := compute.NewScope(b)
	defer s.Release()
	p := squareSize("the trace", a)
	w := s.FromSlice(p, probes, randomSigns(p*probes, rng))
	within := 0.0
	if basis.Cols > 0 {
		within = b.Dot(basis, Mul(s, a, basis, false))
		inner := s.New(basis.Cols, probes)
		b.Gemm(true, false, 1, basis, w, 0, inner)
		b.Gemm(false, false, -1, basis, inner, 1, w)
	}
	mean, deviation := stat.MeanStdDev(columnDots(b, w, Mul(s, a, w, false)), nil)
	return Estimate{within + mean, deviation / math.Sqrt(float64(probes))}
}
