package session

import (
	"context"
	"math"

	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/learner/checkpoint"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/learner/evaluate"
	"github.com/dbqpg/dbqpg/learner/progress"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/sim"
)

// evaluationEpisodes is the number of episodes with each action: with an evaluation every 50 iterations, an addition
// of at most 3 % to the steps of training.
const evaluationEpisodes = 10

// evaluate evaluates a checkpoint's policy in this process, which has the cores to itself: nothing else is done between
// an update and its commit. Where the episodes cannot be played, as on a machine without the environment, evaluate logs why and
// returns nil; the training can do without.
func (s *session) evaluate(ctx context.Context, p *proto.Policy, at checkpoint.Counters) (*progress.Evaluation, error) {
	episodes := evaluate.Episodes{
		NewEnv:     func() (sim.Env, error) { return s.environments.New(s.task.Name) },
		Shape:      policy.Shape{Observation: s.task.ObservationDim, Action: s.task.ActionDim, Hidden: p.Hidden},
		Params:     p.Params,
		Normalizer: policy.Normalizer{Mean: p.Mean, Std: p.Std, Clip: p.Clip},
		Seed:       evaluate.DefaultSeed,
		Count:      evaluationEpisodes,
		Workers:    device.Cores(),
	}
	mean, sampled, err := evaluate.Both(ctx, episodes)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		s.log.Warn("a policy could not be evaluated", "checkpoint", at.Iteration, "error", err)
		return nil, nil
	}
	row := evaluate.Row(at, evaluationEpisodes, evaluate.Summarize(mean), evaluate.Summarize(sampled))
	s.log.Info("evaluated", "checkpoint", at.Iteration, "mean_action_return", round(row.MeanReturn),
		"standard_error", round(row.MeanStandardError), "sampled_action_return", round(row.SampledReturn))
	return &row, nil
}

// round reduces a number to the digits that are useful in a log.
func round(x float64) float64 { return math.Round(10*x) / 10 }
