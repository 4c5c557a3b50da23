package train

import (
	"errors"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/estimators/linop"
	"github.com/dbqpg/dbqpg/internal/stats"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/learner/state"
	"github.com/dbqpg/dbqpg/proto"
)

// Gradient is an estimate of the policy gradient, and the natural gradient that follows from it, p numbers each.
type Gradient struct{ Plain, Natural []float64 }

// Sampled is a batch of episodes of the run's current policy, from which its gradient is estimated in several ways. The
// run remains as it is.
type Sampled struct {
	run     *Run
	scope   *compute.Scope
	samples Samples
	at      *Evaluation
	random  Random
}

// Sample evaluates the current policy on the episodes that it played, in s. The run's estimator must be Bayesian.
func (r *Run) Sample(s *compute.Scope, episodes []*proto.Episode, random Random) (*Sampled, error) {
	x := NewSamples(s, episodes, nil, r.Normalizer())
	at := r.Evaluate(s, r.Params, x.fisher.observations, x.fisher.actions, x.size())
	return &Sampled{r, s, x, at, random}, r.Decompose(s, at, random)
}

// with returns the evaluation with targets, which the value function does not learn from. Advantages are centred, as
// those of an update are.
func (b *Sampled) with(s *compute.Scope, targets Targets) *Evaluation {
	at, y := *b.at, targets.raw(b.run.Learner, b.samples)
	if _, ok := targets.(Advantages); ok {
		floats.AddConst(-stats.Mean(y), y)
	}
	at.Targets = s.FromSlice(len(y), 1, y)
	return &at
}

// MonteCarlo returns the Monte Carlo estimate.
func (b *Sampled) MonteCarlo(targets Targets) (Gradient, error) {
	s := compute.NewScope(b.run.Backend)
	defer s.Release()
	at := b.with(s, targets)
	estimate, err := estimators.MonteCarlo{}.Estimate(s, &at.Batch)
	if err != nil {
		return Gradient{}, err
	}
	all, err := b.gradients(s, at, estimate, nil)
	return all[0], err
}

// Quadrature returns the estimates of DBQPG and of UAPG, the latter with the corrections of the gradient and of the
// natural gradient, these of at most epsilon. The process has the given hyperparameters; or, if there are none, those
// that it learns from the batch as in the run's next update.
func (b *Sampled) Quadrature(targets Targets, hyper *gp.Hyper, epsilon float64) (dbqpg, uapg Gradient, err error) {
	s := compute.NewScope(b.run.Backend)
	defer s.Release()
	at, estimate, _, err := b.quadrature(s, targets, hyper)
	if err != nil {
		return dbqpg, uapg, err
	}
	all, err := b.gradients(s, at, estimate, []estimators.Correction{
		estimators.UAPG{Decompose: estimators.Projected},
		estimators.NaturalUAPG{Epsilon: epsilon, Decompose: estimators.Projected}})
	if err != nil {
		return dbqpg, uapg, err
	}
	return all[0], all[1], nil
}

// quadrature returns DBQPG's estimate, with its evaluation and kernel.
func (b *Sampled) quadrature(s *compute.Scope, targets Targets, hyper *gp.Hyper) (
	_ *Evaluation, _ *estimators.Estimate, k gp.Kernel, err error,
) {
	l, at := *b.run.Learner, b.with(s, targets)
	l.Correction = nil
	quadrature := *l.Quadrature
	quadrature.Converge = quadrature.Converge && hyper == nil
	l.Quadrature = &quadrature
	before := state.Save(l.Critic.Visit)
	defer func() { err = errors.Join(err, state.Restore(before, l.Critic.Visit)) }()
	var estimator estimators.Estimator
	if hyper == nil {
		row := runs.NewRow()
		row.Iteration = b.run.counters.Iteration
		estimator, _, err = l.learnKernel(s, at, b.samples, b.random, &row) // phi's steps are for the next batch
		k = l.kernel(at)
	} else {
		at.Features = l.Critic.Embed(s, b.samples.observations).Features()
		k = l.kernel(at)
		k.Hyper = *hyper
		estimator, err = l.Estimator(s, at, k, b.random)
	}
	if err != nil {
		return nil, nil, k, err
	}
	estimate, err := estimator.Estimate(s, &at.Batch)
	return at, estimate, k, err
}

// Uncertain is a direction h in the policy's p parameters, of length 1, and the variance h'Ch of the gradient along
// it under the posterior, with and without the Fisher matrix's damping.
type Uncertain struct {
	Direction          []float64
	Variance, Undamped float64
}

// Uncertainty returns the eigenvectors of the covariance C of DBQPG's gradient in the span of the scores'
// decomposition, the most uncertain first. The process's hyperparameters are as for [Sampled.Quadrature].
func (b *Sampled) Uncertainty(targets Targets, hyper *gp.Hyper) ([]Uncertain, error) {
	s := compute.NewScope(b.run.Backend)
	defer s.Release()
	at, estimate, k, err := b.quadrature(s, targets, hyper)
	if err != nil {
		return nil, err
	}
	covariance, err := estimate.Covariance()
	if err != nil {
		return nil, err
	}
	pairs, err := estimators.Projected(s, covariance)
	if err != nil {
		return nil, err
	}
	all := make([]Uncertain, len(pairs.Values))
	for j := range all {
		unit := make([]float64, len(all))
		unit[j] = 1
		h := linop.Mul(s, pairs.Vectors, s.FromSlice(len(unit), 1, unit), false)
		variance, err := estimate.Variance(s, h)
		if err != nil {
			return nil, err
		}
		all[j] = Uncertain{at.Expand(h), variance, variance - k.FisherWeight()*at.Fisher.Damping}
	}
	return all, nil
}

// gradients returns an estimate's gradients as they are, and if there are corrections, of the gradient and of the
// natural gradient, corrected as well.
func (b *Sampled) gradients(s *compute.Scope, at *Evaluation, e *estimators.Estimate,
	corrections []estimators.Correction) ([2]Gradient, error) {
	var all [2]Gradient
	natural, err := b.run.objective(at, b.samples, e).Natural(s)
	if err != nil {
		return all, err
	}
	all[0] = Gradient{at.Expand(e.Gradient), at.Expand(natural)}
	directions := []compute.Block{e.Gradient, natural}
	for i, c := range corrections {
		correct, err := c.Of(s, e)
		if err != nil {
			return all, err
		}
		correct(directions[i])
	}
	all[1] = Gradient{at.Expand(e.Gradient), at.Expand(natural)}
	return all, nil
}

// Natural returns the natural gradient that follows from a gradient g (p) under the batch's analytic Fisher matrix.
func (b *Sampled) Natural(g []float64) ([]float64, error) {
	s := compute.NewScope(b.run.Backend)
	defer s.Release()
	objective := b.run.objective(b.at, b.samples, &estimators.Estimate{Gradient: b.direction(s, g)})
	objective.Fisher = Analytic(s.Backend(), b.at, b.run.Damping)
	natural, err := objective.Natural(s)
	if err != nil {
		return nil, err
	}
	return b.at.Expand(natural), nil
}

// Length returns d'G d of a direction d (p) under the batch's analytic Fisher matrix G: to second order, the divergence
// of the policy that a step along d leads to is half of that.
func (b *Sampled) Length(direction []float64) float64 {
	s := compute.NewScope(b.run.Backend)
	defer s.Release()
	d := b.direction(s, direction)
	product := s.New(d.Rows, 1)
	Analytic(s.Backend(), b.at, b.run.Damping).Matrix.MulTo(product, d, false)
	return s.Backend().Dot(d, product)
}

// direction returns a direction in all of the policy's parameters as one in those of the scores.
func (b *Sampled) direction(s *compute.Scope, d []float64) compute.Block {
	return b.at.policy.Direction(s, make([]float64, len(d)), d)
}

// Evaluation evaluates the current policy on the episodes that it played, with their targets and features, in s, and
// the process's kernel. The critic learns nothing. The run's estimator must be Bayesian.
func (r *Run) Evaluation(s *compute.Scope, episodes []*proto.Episode) (_ *Evaluation, _ gp.Kernel, err error) {
	x, row, before := NewSamples(s, episodes, nil, r.Normalizer()), runs.NewRow(), state.Save(r.Critic.Visit)
	at, err := r.judged(s, x, &row)
	if err := errors.Join(err, state.Restore(before, r.Critic.Visit)); err != nil {
		return nil, gp.Kernel{}, err
	}
	at.Features = r.Critic.Embed(s, x.observations).Features()
	r.center(at)
	return at, r.kernel(at), nil
}

// judged returns the evaluation of the policy on the samples, with their targets. The value function learns nothing
// from them.
func (l *Learner) judged(s *compute.Scope, x Samples, row *runs.Row) (*Evaluation, error) {
	targets, _, err := l.Targets.of(l, x, row)
	if err != nil {
		return nil, err
	}
	at := l.Evaluate(s, l.Params, x.fisher.observations, x.fisher.actions, x.size())
	at.Targets = s.FromSlice(x.size(), 1, targets)
	return at, nil
}

// ControlledGradient is a Monte Carlo gradient from n samples with a baseline as control variate.
type ControlledGradient struct {
	Gradient []float64 // with the baseline subtracted from the targets, p; has the same expectation as Plain
	Plain    []float64 // with the unchanged targets, p
	Baseline []float64 // the weights of the baseline fitted on these samples, for others
}

// MonteCarloGradient estimates the gradient of the current policy from the episodes that it played, with the current
// critic. baseline contains the weights of a baseline fitted to other episodes of the same policy, or a mean of such;
// nil means none.
func (r *Run) MonteCarloGradient(episodes []*proto.Episode, targets Targets, baseline []float64) (g ControlledGradient,
	err error) {
	s := compute.NewScope(r.Backend)
	defer s.Release()
	x := NewSamples(s, episodes, nil, r.Normalizer())
	at, features := r.Evaluate(s, r.Params, x.fisher.observations, x.fisher.actions, x.size()), r.baselineFeatures(s, x)
	at.Targets = s.FromSlice(x.size(), 1, targets.raw(r.Learner, x))
	if g.Baseline, err = fitBaseline(s, features, at.Targets); err != nil {
		return g, err
	}
	plain, err := estimators.MonteCarlo{}.Estimate(s, &at.Batch)
	if err != nil {
		return g, err
	}
	g.Plain = at.Expand(plain.Gradient)
	if baseline != nil {
		weights := s.FromSlice(len(baseline), 1, baseline)
		r.Backend.Gemm(false, false, -1, features, weights, 1, at.Targets)
	}
	controlled, err := estimators.MonteCarlo{}.Estimate(s, &at.Batch)
	if err != nil {
		return g, err
	}
	g.Gradient = at.Expand(controlled.Gradient)
	return g, nil
}
