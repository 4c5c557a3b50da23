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
type Sampled struct{ *update }

// Sample evaluates the current policy on the episodes that it played, in s. The run's estimator must be Bayesian.
func (r *Run) Sample(s *compute.Scope, episodes []*proto.Episode, random Random) (*Sampled, error) {
	u := r.played(s, episodes, random)
	return &Sampled{u}, u.each(stage{"scores", u.scores}, stage{"decomposition", u.decomposition})
}

// played returns an update from episodes whose stages are run for their results: nothing is learned for the next batch.
func (r *Run) played(s *compute.Scope, episodes []*proto.Episode, random Random) *update {
	row := runs.NewRow()
	row.Iteration = r.counters.Iteration
	u := r.update(NewSamples(s, episodes, nil, r.Normalizer()), s, random, &row, nil)
	u.rest = nil
	return u
}

// with returns the update with targets, which the value function does not learn from, in s. Advantages are centred, as
// those of an update are.
func (b *Sampled) with(s *compute.Scope, targets Targets) *update {
	u, at, y := *b.update, *b.at, targets.raw(b.Learner, b.x)
	if _, ok := targets.(Advantages); ok {
		floats.AddConst(-stats.Mean(y), y)
	}
	at.Targets = s.FromSlice(len(y), 1, y)
	u.at, u.s = &at, s
	return &u
}

// MonteCarlo returns the Monte Carlo estimate.
func (b *Sampled) MonteCarlo(targets Targets) (Gradient, error) {
	s := compute.NewScope(b.Backend)
	defer s.Release()
	u := b.with(s, targets)
	estimate, err := estimators.MonteCarlo{}.Estimate(s, &u.at.Batch)
	if err != nil {
		return Gradient{}, err
	}
	all, err := u.gradients(estimate, nil)
	return all[0], err
}

// Quadrature returns the estimates of DBQPG and of UAPG, the latter with the corrections of the gradient and of the
// natural gradient, these of at most epsilon. The process has the given hyperparameters; or, if there are none, those
// that it learns from the batch as in the run's next update.
func (b *Sampled) Quadrature(targets Targets, hyper *gp.Hyper, epsilon float64) (dbqpg, uapg Gradient, err error) {
	s := compute.NewScope(b.Backend)
	defer s.Release()
	u, _, err := b.quadrature(s, targets, hyper)
	if err != nil {
		return dbqpg, uapg, err
	}
	all, err := u.gradients(u.estimate, []estimators.Correction{
		estimators.UAPG{Decompose: estimators.Projected},
		estimators.NaturalUAPG{Epsilon: epsilon, Decompose: estimators.Projected}})
	if err != nil {
		return dbqpg, uapg, err
	}
	return all[0], all[1], nil
}

// quadrature returns the update up to DBQPG's estimate, and its kernel.
func (b *Sampled) quadrature(s *compute.Scope, targets Targets, hyper *gp.Hyper) (_ *update, k gp.Kernel, err error) {
	u, l := b.with(s, targets), *b.Learner
	l.Correction, u.Learner = nil, &l
	before := state.Save(l.Critic.Visit)
	defer func() { err = errors.Join(err, state.Restore(before, l.Critic.Visit)) }()
	if hyper == nil {
		err = u.kernelStep()
		k = u.kernel()
	} else {
		u.at.Features = l.Critic.Embed(s, u.x.observations()).Features()
		k = u.kernel()
		k.Hyper = *hyper
		u.estimator, err = l.Estimator(s, u.at, k, u.random)
	}
	if err != nil {
		return nil, k, err
	}
	return u, k, u.integrate()
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
	s := compute.NewScope(b.Backend)
	defer s.Release()
	u, k, err := b.quadrature(s, targets, hyper)
	if err != nil {
		return nil, err
	}
	covariance, err := u.estimate.Covariance()
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
		variance, err := u.estimate.Variance(s, h)
		if err != nil {
			return nil, err
		}
		all[j] = Uncertain{u.at.Expand(h), variance, variance - k.FisherWeight()*u.at.Fisher.Damping}
	}
	return all, nil
}

// gradients returns an estimate's gradients as they are, and if there are corrections, of the gradient and of the
// natural gradient, corrected as well.
func (u *update) gradients(e *estimators.Estimate, corrections []estimators.Correction) ([2]Gradient, error) {
	var all [2]Gradient
	natural, err := u.objective(e).Natural(u.s)
	if err != nil {
		return all, err
	}
	all[0] = Gradient{u.at.Expand(e.Gradient), u.at.Expand(natural)}
	directions := []compute.Block{e.Gradient, natural}
	for i, c := range corrections {
		correct, err := c.Of(u.s, e)
		if err != nil {
			return all, err
		}
		correct(directions[i])
	}
	all[1] = Gradient{u.at.Expand(e.Gradient), u.at.Expand(natural)}
	return all, nil
}

// Natural returns the natural gradient that follows from a gradient g (p) under the batch's analytic Fisher matrix.
func (b *Sampled) Natural(g []float64) ([]float64, error) {
	s := compute.NewScope(b.Backend)
	defer s.Release()
	objective := b.objective(&estimators.Estimate{Gradient: b.direction(s, g)})
	objective.Fisher = Analytic(s.Backend(), b.at, b.Damping)
	natural, err := objective.Natural(s)
	if err != nil {
		return nil, err
	}
	return b.at.Expand(natural), nil
}

// Length returns d'G d of a direction d (p) under the batch's analytic Fisher matrix G: to second order, the divergence
// of the policy that a step along d leads to is half of that.
func (b *Sampled) Length(direction []float64) float64 {
	s := compute.NewScope(b.Backend)
	defer s.Release()
	d := b.direction(s, direction)
	product := s.New(d.Rows, 1)
	Analytic(s.Backend(), b.at, b.Damping).Matrix.MulTo(product, d, false)
	return s.Backend().Dot(d, product)
}

// direction returns a direction in all of the policy's parameters as one in those of the scores.
func (b *Sampled) direction(s *compute.Scope, d []float64) compute.Block {
	return b.at.policy.Direction(s, make([]float64, len(d)), d)
}

// Evaluation evaluates the current policy on the episodes that it played, with their targets and features, in s, and
// the process's kernel. The critic learns nothing. The run's estimator must be Bayesian.
func (r *Run) Evaluation(s *compute.Scope, episodes []*proto.Episode) (_ *Evaluation, _ gp.Kernel, err error) {
	u, before := r.played(s, episodes, Random{}), state.Save(r.Critic.Visit)
	err = u.each(stage{"scores", u.scores}, stage{"targets", u.targets})
	if err := errors.Join(err, state.Restore(before, r.Critic.Visit)); err != nil {
		return nil, gp.Kernel{}, err
	}
	u.at.Features = r.Critic.Embed(s, u.x.observations()).Features()
	u.Quadrature.Process.center(u)
	return u.at, u.kernel(), nil
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
	u := r.played(s, episodes, Random{})
	if err := u.scores(); err != nil {
		return g, err
	}
	at, features := u.at, r.baselineFeatures(s, u.x)
	at.Targets = s.FromSlice(u.x.Current, 1, targets.raw(r.Learner, u.x))
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
