package gaussian

import (
	"fmt"
	"math"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// GaussianScores returns the derivatives of the log probability at each sample in the mean
// and in log_std (n × a each): (x-mu)/std² and ((x-mu)/std)² - 1.
func (g *Policy) GaussianScores(s *compute.Scope, actions compute.Block) (mean, logStd compute.Block) {
	g.checkActions(actions)
	mean, logStd = s.New(actions.Rows, actions.Cols), s.New(actions.Rows, actions.Cols)
	b := g.backend
	standard := logStd // (x-mu)/std, until it is squared
	compute.Copy(b, standard, actions)
	compute.Axpy(b, -1, g.Mean(), standard)
	b.Mul(standard, g.inverseStd, standard, 0)
	b.Mul(mean, g.inverseStd, standard, 0)
	b.Mul(logStd, standard, standard, 0)
	b.Affine(logStd, 1, logStd, 0, -1)
	return mean, logStd
}

// Scores returns U = [grad log pi(a_i|s_i)], p × n, as an operator; its blocks live
// in s. One backward pass gives each layer's signals.
func (g *Policy) Scores(s *compute.Scope, actions compute.Block) *linop.Scores {
	mean, logStd := g.GaussianScores(s, actions)
	signals := g.net.Backward(s, g.activations, mean)
	layers := make([]linop.ScoreLayer, len(signals))
	for l := range layers {
		layers[l] = linop.ScoreLayer{Inputs: g.activations[l], Signals: signals[l]}
	}
	return linop.NewScores(g.backend, layers, logStd)
}

// ScoresAt returns the scores of q further samples, in the same p parameters: all that their
// products with the batch's scores need. It takes all parameters, since the inputs that the
// batch does without may matter elsewhere.
func (g *Policy) ScoresAt(s *compute.Scope, params []float64, observations, actions compute.Block) *linop.Scores {
	everything := make([]int, g.whole.Observation)
	for j := range everything {
		everything[j] = j
	}
	at := evaluate(s, only(g.whole, everything), params, observations)
	at.activations[0] = g.of(s, observations)
	return at.Scores(s, actions)
}

func (g *Policy) checkActions(actions compute.Block) {
	if actions.Rows != g.Samples() || actions.Cols != g.shape.Action {
		panic(fmt.Sprintf("gaussian: %s actions for %d observations and a policy %v", actions.Shape(), g.Samples(),
			g.shape))
	}
}

// LogProb returns log pi(a_i|s_i) of the actions (n × a), n × 1:
//
//	-1/2 sum_j ((x_j-mu_j)/std_j)² - sum_j log_std_j - a/2 log(2 pi).
func (g *Policy) LogProb(s *compute.Scope, actions compute.Block) compute.Block {
	scope := compute.NewScope(g.backend)
	defer scope.Release()
	_, squares := g.GaussianScores(scope, actions) // ((x-mu)/std)² - 1
	ones := scope.New(actions.Rows, actions.Cols)
	compute.Fill(g.backend, ones, 1)
	logProb := s.New(actions.Rows, 1)
	g.backend.RowDots(logProb, squares, ones, 0)
	constant := -0.5 * float64(g.shape.Action) * (1 + math.Log(2*math.Pi))
	for _, logStd := range g.logStd {
		constant -= logStd
	}
	g.backend.Affine(logProb, -0.5, logProb, 0, constant)
	return logProb
}

// KL returns the divergence KL(g || to) of two policies on the same observations,
// averaged over these:
//
//	sum_j log(std'_j/std_j) + (std_j² + (mu_j-mu'_j)²)/(2 std'_j²) - 1/2.
func (g *Policy) KL(to *Policy) float64 {
	compute.SameShape("KL divergence", g.Mean(), to.Mean())
	scope := compute.NewScope(g.backend)
	defer scope.Release()
	difference, sums := scope.New(g.Samples(), g.shape.Action), scope.New(1, g.shape.Action)
	compute.Copy(g.backend, difference, g.Mean())
	compute.Axpy(g.backend, -1, to.Mean(), difference)
	g.backend.Mul(difference, difference, difference, 0)
	g.backend.SumRows(sums, difference)
	kl := 0.0
	for j, squares := range compute.ToSlice(g.backend, sums) {
		ratio := g.logStd[j] - to.logStd[j]
		distance := squares / float64(g.Samples()) * math.Exp(-2*to.logStd[j])
		kl += 0.5*(math.Expm1(2*ratio)+distance) - ratio
	}
	return kl
}

// Surrogate returns the importance-sampled objective relative to the policy pi_0 that
// sampled the actions (n × a),
//
//	sum_i w_i (pi(a_i|s_i)/pi_0(a_i|s_i) - 1),
//
// whose gradient at pi_0 is U w: the estimate of a policy gradient with the sample
// weights w (n × 1; for Monte Carlo the advantages over n, for Bayesian quadrature
// c2 alpha). reference holds log pi_0(a_i|s_i), n × 1.
func (g *Policy) Surrogate(actions, weights, reference compute.Block) float64 {
	compute.SameShape("surrogate", weights, reference)
	scope := compute.NewScope(g.backend)
	defer scope.Release()
	ratio := g.LogProb(scope, actions)
	compute.Axpy(g.backend, -1, reference, ratio)
	w := compute.ToSlice(g.backend, weights)
	sum := 0.0
	for i, logRatio := range compute.ToSlice(g.backend, ratio) {
		sum += w[i] * math.Expm1(logRatio)
	}
	return sum
}
