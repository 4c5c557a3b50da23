package train

import (
	"fmt"
	"math"
	"slices"

	"github.com/dbqpg/dbqpg/estimators"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/proto"
)

// Reuse joins the last batches to each new one (docs/reuse.md). By quadrature their samples are nodes of the process, with
// a noise of their own for each age; for Monte Carlo they have importance ratios. The value function learns from them too
// (docs/critic.md).
type Reuse struct {
	Batches int     // K, the newest included, that a gradient is estimated from
	Value   int     // the newest included, that the value function learns from
	Clip    float64 // bound on importance ratios

	kept  []keptBatch // the newest first, one fewer than Batches or Value or, at first, still fewer
	noise []float64   // learned noise variance of each age, K; 0: not learned yet
	fresh []float64   // log probabilities of the newest batch's actions, for Monte Carlo
}

// keptBatch is an earlier policy's batch.
type keptBatch struct {
	episodes []*proto.Episode
	logProbs []float64 // log probability of each action under the policy that took it, if Monte Carlo joins them; else nil
}

// noiseSteps is how many steps of expectation maximisation an update takes from the noise that the last one learned.
const noiseSteps = 5

// newReuse returns nil unless there are batches to join.
func newReuse(batches, value int, clip float64) *Reuse {
	if max(batches, value) < 2 {
		return nil
	}
	return &Reuse{Batches: batches, Value: value, Clip: clip, noise: make([]float64, batches)}
}

// samples returns the newest batch's and behind them those of the kept ones that are joined to it, the newest first, in s. The
// episodes further are for the Fisher matrix alone.
func (u *Reuse) samples(s *compute.Scope, episodes, further []*proto.Episode, n policy.Normalizer) Samples {
	x := u.joined(s, u.Batches, episodes, further, n)
	if u.Value > 1 {
		lessons := u.joined(s, u.Value, episodes, nil, n)
		x.lessons = &lessons
	}
	return x
}

// joined returns the samples of so many batches, as far as there are.
func (u *Reuse) joined(s *compute.Scope, batches int, episodes, further []*proto.Episode, n policy.Normalizer) Samples {
	all, ages := slices.Clone(episodes), []age{{len(episodes), steps(episodes)}}
	var logProbs []float64
	for _, b := range u.kept[:min(len(u.kept), batches-1)] {
		all = append(all, b.episodes...)
		ages = append(ages, age{len(b.episodes), steps(b.episodes)})
		logProbs = append(logProbs, b.logProbs...)
	}
	x := NewSamples(s, all, further, n)
	if len(ages) > 1 {
		x.ages, x.logProbs = ages, logProbs
	}
	return x
}

// depth returns the number of batches that are kept.
func (u *Reuse) depth() int { return max(u.Batches, u.Value) - 1 }

// keep makes a batch the newest of those kept, once the policy has learned from it.
func (u *Reuse) keep(episodes []*proto.Episode) {
	u.kept = slices.Insert(u.kept, 0, keptBatch{episodes, u.fresh})
	u.kept = u.kept[:min(len(u.kept), u.depth())]
}

// age is the samples of one policy.
type age struct{ episodes, steps int }

// part returns the samples of an age. Those of age 0 are the current policy's.
func (x Samples) part(number int) Samples {
	var episode, step int
	for _, a := range x.ages[:number] {
		episode, step = episode+a.episodes, step+a.steps
	}
	a := x.ages[number]
	o := x.observations.Cols
	part := Samples{
		observations: x.observations.RowRange(step, step+a.steps),
		actions:      x.actions.RowRange(step, step+a.steps),
		final:        x.final[episode*o : (episode+a.episodes)*o],
		terminated:   x.terminated[episode : episode+a.episodes],
		goesOn:       x.goesOn[episode : episode+a.episodes],
	}
	part.fisher.observations, part.fisher.actions = part.observations, part.actions
	part.trajectories.Rewards = x.trajectories.Rewards[step : step+a.steps]
	part.trajectories.Lengths = x.trajectories.Lengths[episode : episode+a.episodes]
	return part
}

// current returns the current policy's samples.
func (x Samples) current() Samples {
	if x.ages == nil {
		return x
	}
	part := x.part(0)
	part.lessons = x.lessons
	return part
}

// ages returns the parts of a batch, with the noise learned so far relative to the newest batch's.
func (u *Reuse) ages(x Samples) (ages []gp.Age) {
	for i, a := range x.ages {
		ages = append(ages, gp.Age{Samples: a.steps, Noise: u.ratio(i)})
	}
	return ages
}

// ratio returns the noise of an age relative to that of the newest batch, which is the least: an age that no batch had
// before is like the one before it.
func (u *Reuse) ratio(number int) float64 {
	for number > 0 && u.noise[number] == 0 {
		number--
	}
	if number == 0 {
		return 1
	}
	return max(1, u.noise[number]/u.noise[0])
}

// learnNoise learns the noise of each age from a process that is conditioned on the batch.
func (u *Reuse) learnNoise(posterior gp.Posterior, at *Evaluation, kernel gp.Kernel) error {
	learner, ok := posterior.(gp.NoiseLearner)
	if !ok {
		panic(fmt.Sprintf("train: %T learns no noise for each age", posterior))
	}
	least := kernel.Noise
	if u.noise[0] > 0 {
		least = u.noise[0]
	}
	start := make([]float64, len(at.Ages))
	for i := range start {
		start[i] = least * u.ratio(i)
	}
	noise, err := learner.LearnNoise(start, noiseSteps)
	if err != nil {
		return err
	}
	copy(u.noise, noise)
	for i := range at.Ages {
		at.Ages[i].Noise = u.ratio(i)
	}
	return nil
}

// monteCarlo returns the estimator that gives older samples importance ratios, at most u.Clip (Ionides 2008), and takes down the log
// probabilities of the newest.
func (u *Reuse) monteCarlo(s *compute.Scope, at *Evaluation, x Samples) estimators.MonteCarlo {
	logProbs := compute.ToSlice(s.Backend(), at.policy.LogProb(s, x.actions))
	current := x.current().size()
	u.fresh = logProbs[:current:current]
	if x.ages == nil {
		return estimators.MonteCarlo{}
	}
	ratios := make([]float64, len(logProbs))
	for i := range ratios {
		ratios[i] = 1
		if i >= current {
			ratios[i] = min(math.Exp(logProbs[i]-x.logProbs[i-current]), u.Clip)
		}
	}
	return estimators.MonteCarlo{Ratios: s.FromSlice(len(ratios), 1, ratios)}
}
