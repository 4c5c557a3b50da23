package batched

import (
	"slices"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/internal/nn/nntest"
	"github.com/dbqpg/dbqpg/internal/npz"
	"github.com/dbqpg/dbqpg/internal/policy"
)

// The answers for a categorical policy are NumPy's, by testdata/categorical.py.
func TestGoldenCategorical(t *testing.T) {
	arrays, err := npz.ReadFile("testdata/categorical.npz")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range nntest.Backends() {
		t.Run(b.Name(), func(t *testing.T) {
			s := compute.NewScope(b)
			defer s.Release()
			block := func(name string) compute.Block {
				shape := append(slices.Clone(arrays[name].Shape), 1)
				return s.FromSlice(shape[0], shape[1], arrays[name].Floats)
			}
			check := func(name string, got ...float64) {
				t.Helper()
				nntest.Near(t, name, got, arrays["expect_"+name].Floats, 1e-12)
			}
			shape := policy.Shape{Observation: 4, Action: 2, Hidden: []int{6, 5}, Choices: []int{3, 4}}
			params, actions, weights := arrays["params"].Floats, block("actions"), block("weights")
			g := New(s, shape, params, block("observations"))
			u := g.Scores(s, actions)
			logProb := g.LogProb(s, actions)
			check("log_prob", compute.ToSlice(b, logProb)...)
			check("gradient", compute.ToSlice(b, linop.Mul(s, u, weights, false))...)
			x := block("directions")
			empirical := s.New(x.Rows, x.Cols)
			u.MulSquare(empirical, x)
			compute.Scale(b, 1/float64(g.Samples()), empirical)
			check("empirical", compute.ToSlice(b, empirical)...)
			fisher, compressed := g.Fisher(arrays["damping"].Floats[0]), s.New(x.Cols, x.Cols)
			check("fisher", compute.ToSlice(b, linop.Mul(s, fisher, x, false))...)
			fisher.Compress(compressed, x)
			check("compressed", compute.ToSlice(b, compressed)...)
			nntest.Near(t, "natural", compute.ToSlice(b, linop.Mul(s, fisher, block("expect_natural"), false)),
				arrays["expect_gradient"].Floats, 1e-12)
			other := g.At(s, arrays["other"].Floats)
			check("kl", g.KL(other))
			check("entropy", g.Entropy())
			check("surrogate", other.Surrogate(actions, weights, logProb))
		})
	}
}
