package batched

import (
	"fmt"
	"math"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/linop"
)

// distribution is the distribution of the actions at a batch's n states, given the network's k outputs in each.
type distribution interface {
	// scores returns the derivatives of the log-probability of each sample's action in the outputs (n × k), and in
	// log_std (n × a, or n × 0 without one).
	scores(s *compute.Scope, actions compute.Block) (outputs, logStd compute.Block)
	// logProb returns the log-probability of each sample's action, n × 1.
	logProb(s *compute.Scope, actions compute.Block) compute.Block
	// kl returns the divergence to another distribution of the same kind in the same states, averaged over these.
	kl(to distribution) float64
	// entropy returns the entropy, averaged over the states.
	entropy() float64
	// fisher sets each row of dst to the product of the distribution's Fisher matrix in the outputs, R'R, with that row
	// of x; the rows are those of the states from lo on. It overwrites x, which dst may be.
	fisher(b compute.Backend, dst, x compute.Block, lo int)
	// root is fisher with R.
	root(b compute.Backend, dst, x compute.Block, lo int)
	// first returns the distribution in the first n states.
	first(n int) distribution
}

// Scores returns U = [grad log pi(a_i|s_i)], p × n, as an operator; its blocks live
// in s. One backward pass gives each layer's signals.
func (g *Policy) Scores(s *compute.Scope, actions compute.Block) *linop.Scores {
	g.checkActions(actions)
	outputs, logStd := g.distribution.scores(s, actions)
	signals := g.net.Backward(s, g.activations, outputs)
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
		panic(fmt.Sprintf("batched: %s actions for %d observations and a policy %v", actions.Shape(), g.Samples(),
			g.shape))
	}
}

// LogProb returns log pi(a_i|s_i) of the actions (n × a), n × 1: of densities for a Gaussian policy.
func (g *Policy) LogProb(s *compute.Scope, actions compute.Block) compute.Block {
	g.checkActions(actions)
	return g.distribution.logProb(s, actions)
}

// KL returns the divergence KL(g || to) of two policies on the same observations, averaged over these.
func (g *Policy) KL(to *Policy) float64 { return g.distribution.kl(to.distribution) }

// Entropy returns the policy's entropy, averaged over the observations: differential for a Gaussian policy.
func (g *Policy) Entropy() float64 { return g.distribution.entropy() }

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
