package session

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/learner/evaluate"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/learner/train"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/sim"
)

// evaluationEpisodes is the number of episodes with each kind of action, unless that is more steps than an evaluation
// may take.
const evaluationEpisodes = 10

// evaluate evaluates a checkpoint's policy in this process, with so many steps at most. If the episodes cannot be
// played, as on a machine without the environment, it logs the error and returns nil, and training continues.
func (s *session) evaluate(ctx context.Context, p *proto.Policy, at runs.Counters, steps train.EvaluationSteps) (
	*runs.Evaluation, time.Duration, error,
) {
	var nanoseconds atomic.Int64
	episodes := evaluate.Episodes{
		NewEnv:     func() (sim.Env, error) { return s.environments.New(s.task.Name) },
		Shape:      policy.ShapeOf(s.task, p.Hidden),
		Params:     p.Params,
		Normalizer: policy.Normalizer{Mean: p.Mean, Std: p.Std, Clip: p.Clip},
		Action:     evaluate.Mean,
		Seed:       evaluate.DefaultSeed,
		Count:      evaluationEpisodes,
		MaxSteps:   steps.Mean,
		TimeLimit:  s.task.TimeLimit,
		Workers:    device.Cores(),
		Busy:       &nanoseconds,
	}
	mean, err := evaluate.Play(ctx, episodes)
	var sampled []evaluate.Episode
	if err == nil && steps.Sampled > 0 {
		episodes.Action, episodes.MaxSteps = evaluate.Sampled, steps.Sampled
		sampled, err = evaluate.Play(ctx, episodes)
	}
	busy := time.Duration(nanoseconds.Load())
	if ctx.Err() != nil {
		return nil, busy, ctx.Err()
	}
	if err != nil {
		s.Log.Warn("a policy could not be evaluated", "checkpoint", at.Iteration, "error", err)
		return nil, busy, nil
	}
	row := evaluate.Row(at, mean, sampled)
	numbers := []any{
		"checkpoint", at.Iteration,
		"mean_action_return", round(row.MeanReturn), "standard_error", round(row.MeanStandardError),
	}
	if len(sampled) > 0 {
		numbers = append(numbers, "sampled_action_return", round(row.SampledReturn))
	}
	s.Log.Info("evaluated", numbers...)
	return &row, busy, nil
}

// round reduces a number to the digits that are useful in a log.
func round(x float64) float64 { return math.Round(10*x) / 10 }
