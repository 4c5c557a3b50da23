package critic

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/gorgoniatest"
	"github.com/dbqpg/dbqpg/internal/nn/nntest"
)

// The value loss and its gradient, and what continues a gradient in the features through the network, against
// gorgonia's.
func TestGradientsAgreeWithGorgonia(t *testing.T) {
	const n, o = 1100, 3
	rng := rand.New(rand.NewPCG(13, 0))
	params, x, returns, weights := Value(o).Init(rng), random(rng, n*o), random(rng, n), random(rng, 10*n)
	loss, ofLoss := gorgoniatest.Gradient(params, func(g *gorgoniatest.Graph) *gorgonia.Node {
		values := g.MLP(Value(o), g.Matrix(n, o, x))
		errors := gorgonia.Must(gorgonia.Sub(values, g.Matrix(n, 1, returns)))
		return g.WeightedSum(slices.Repeat([]float64{1. / n}, n), gorgonia.Must(gorgonia.Square(errors)))
	})
	weighted, ofFeatures := gorgoniatest.Gradient(params[:Features(o).NumParams()],
		func(g *gorgoniatest.Graph) *gorgonia.Node {
			return g.WeightedSum(weights, g.MLP(Features(o), g.Matrix(n, o, x)))
		})
	each(t, func(t *testing.T, b compute.Backend) {
		s := compute.NewScope(b)
		defer s.Release()
		e := Evaluate(s, params, s.FromSlice(n, o, x))
		gotLoss, gotOfLoss := e.lossGradient(returns)
		nntest.Near(t, "loss", []float64{gotLoss}, []float64{loss}, 1e-12)
		nntest.Near(t, "gradient of the loss", gotOfLoss, ofLoss, 1e-12)
		signal := s.FromSlice(n, 10, weights)
		nntest.Near(t, "weighted features", []float64{b.Dot(e.Features(), signal)}, []float64{weighted}, 1e-12)
		nntest.Near(t, "gradient of the weighted features", e.FeatureGradient(signal), ofFeatures, 1e-12)
	})
}
