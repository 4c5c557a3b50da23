package batched

import (
	"math"
	"math/rand/v2"
	"testing"

	"gorgonia.org/gorgonia"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/gorgoniatest"
	"github.com/dbqpg/dbqpg/internal/nn/nntest"
	"github.com/dbqpg/dbqpg/internal/policy"
)

// logDensity returns the sum over samples of log pi(a_i|s_i), each times its weight (n), and its gradient in all
// parameters, by gorgonia from the formula of the density, or of the probability.
func logDensity(shape policy.Shape, params, observations, actions, weights []float64) (value float64,
	gradient []float64) {
	n, a := len(weights), shape.Action
	each := func(factor float64) []float64 { // a sample's weight in each dimension
		w := make([]float64, n*a)
		for i := range w {
			w[i] = factor * weights[i/a]
		}
		return w
	}
	if shape.Choices != nil {
		return logProbability(shape, params, observations, actions, weights)
	}
	value, gradient = gorgoniatest.Gradient(params, func(g *gorgoniatest.Graph) *gorgonia.Node {
		mean := g.MLP(shape.Network(), g.Matrix(n, shape.Observation, observations))
		logStd := g.Rows(n, g.Parameters(1, a))
		z := gorgonia.Must(gorgonia.Sub(g.Matrix(n, a, actions), mean))
		z = gorgonia.Must(gorgonia.HadamardDiv(z, gorgonia.Must(gorgonia.Exp(logStd))))
		squares := g.WeightedSum(each(-0.5), gorgonia.Must(gorgonia.Square(z)))
		return gorgonia.Must(gorgonia.Add(squares, g.WeightedSum(each(-1), logStd)))
	})
	for _, w := range weights {
		value -= w * float64(a) / 2 * math.Log(2*math.Pi)
	}
	return value, gradient
}

// logProbability is logDensity for discrete actions: the sum of z_a - log sum_j exp(z_j) over the choices.
func logProbability(shape policy.Shape, params, observations, actions, weights []float64) (float64, []float64) {
	n, k := len(weights), len(shape.Choices)
	outputs := shape.Network().Sizes[len(shape.Hidden)+1]
	of, taken, each := make([]float64, outputs*k), make([]float64, n*outputs), make([]float64, n*k)
	from := 0
	for j, size := range shape.Choices {
		for i := range n {
			taken[i*outputs+from+int(actions[i*k+j])], each[i*k+j] = weights[i], -weights[i]
		}
		for range size {
			of[from*k+j] = 1
			from++
		}
	}
	return gorgoniatest.Gradient(params, func(g *gorgoniatest.Graph) *gorgonia.Node {
		logits := g.MLP(shape.Network(), g.Matrix(n, shape.Observation, observations))
		sums := gorgonia.Must(gorgonia.Mul(gorgonia.Must(gorgonia.Exp(logits)), g.Matrix(outputs, k, of)))
		logSums := g.WeightedSum(each, gorgonia.Must(gorgonia.Log(sums)))
		return gorgonia.Must(gorgonia.Add(g.WeightedSum(taken, logits), logSums))
	})
}

// score returns the log-probability of sample i's action, and its gradient.
func (f fixture) score(i int, action []float64) (logProb float64, score []float64) {
	o := f.shape.Observation
	return logDensity(f.shape, f.params, f.observations[i*o:(i+1)*o], action, []float64{1})
}

func TestScoresAgreeWithGorgonia(t *testing.T) {
	each(t, func(t *testing.T, f fixture) {
		a := f.shape.Action
		logProbs := compute.ToSlice(f.backend, f.policy.LogProb(f.scope, f.actionBlock))
		direction := normals(len(f.params), rand.New(rand.NewPCG(10, 0)))
		derivatives := f.scope.New(f.samples, 1) // of each sample's log-probability, along the direction
		f.policy.Scores(f.scope, f.actionBlock).MulTo(derivatives, f.scope.FromSlice(len(direction), 1, direction),
			true)
		along := compute.ToSlice(f.backend, derivatives)
		for _, i := range []int{0, 1, 511, 512, 600, f.samples - 1} {
			logProb, want := f.score(i, f.actions[i*a:(i+1)*a])
			nntest.Near(t, "log-probability", logProbs[i:i+1], []float64{logProb}, 1e-12)
			unit := make([]float64, f.samples)
			unit[i] = 1
			nntest.Near(t, "score", f.gradient(unit), want, 1e-12)
			nntest.Near(t, "derivative", along[i:i+1], []float64{dot(want, direction)}, 1e-12)
		}
	})
}

// U w is the gradient of the log-probabilities' weighted sum, here for a policy of the size that is trained.
func TestGradientEstimateAgreesWithGorgonia(t *testing.T) {
	for _, b := range nntest.Backends() {
		f := newFixture(b, policy.Shape{Observation: 11, Action: 3, Hidden: policy.DefaultHidden()}, 1100, 6)
		w := normals(f.samples, rand.New(rand.NewPCG(7, 0)))
		value, want := logDensity(f.shape, f.params, f.observations, f.actions, w)
		logProbs := f.policy.LogProb(f.scope, f.actionBlock)
		nntest.Near(t, b.Name()+": weighted sum", []float64{b.Dot(logProbs, f.scope.FromSlice(f.samples, 1, w))},
			[]float64{value}, 1e-12)
		nntest.Near(t, b.Name()+": gradient", f.gradient(w), want, 1e-12)
		f.scope.Release()
	}
}

// The Fisher matrix is the expectation over states and actions of the scores' outer products. A Gaussian's scores are
// quadratic in the action, so that the Gauss-Hermite rule of three nodes a dimension, exact to degree five, gives the
// expectation over actions without an error.
func TestFisherAgreesWithExpectedScores(t *testing.T) {
	rule := []struct{ node, weight float64 }{{-math.Sqrt(3), 1. / 6}, {0, 2. / 3}, {math.Sqrt(3), 1. / 6}}
	each(t, func(t *testing.T, f fixture) {
		f.samples, f.observations = 8, f.observations[:8*f.shape.Observation]
		f.policy = f.at(f.params)
		x := normals(len(f.params), rand.New(rand.NewPCG(9, 0)))
		want := make([]float64, len(x))
		for k := range x {
			want[k] = 0.1 * x[k]
		}
		for i := range f.samples {
			add := func(action []float64, weight float64) {
				_, score := f.score(i, action)
				along := weight / float64(f.samples) * dot(score, x)
				for k, s := range score {
					want[k] += s * along
				}
			}
			if f.shape.Choices != nil {
				f.eachAction(f.params, i, add)
				continue
			}
			mean := f.outputsAt(f.params, i)
			for _, first := range rule {
				for _, second := range rule {
					add([]float64{mean[0] + math.Exp(f.logStd()[0])*first.node,
						mean[1] + math.Exp(f.logStd()[1])*second.node}, first.weight*second.weight)
				}
			}
		}
		product := f.scope.New(len(x), 1)
		f.policy.Fisher(0.1).MulTo(product, f.scope.FromSlice(len(x), 1, x), false)
		nntest.Near(t, "product", compute.ToSlice(f.backend, product), want, 1e-12)
	})
}

func dot(x, y []float64) (sum float64) {
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum
}
