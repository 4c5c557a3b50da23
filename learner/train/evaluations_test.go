package train

import (
	"context"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/sim"
)

// Evaluations take at most 5 % as many steps as training, under every preset, on every task and with other batches,
// wherever a run of a hundred time limits or more ends. A run of a million steps has several, the last with ten
// episodes of each kind.
func TestEvaluationsTakeFewSteps(t *testing.T) {
	for _, task := range sim.Tasks() {
		for _, preset := range []config.Preset{config.Paper, config.Best} {
			for _, batch := range []int{0, 100, 2048, 70_000} {
				s, err := config.ForTask(task.Name, preset.Algorithm(), config.UAPG, preset)
				if err != nil {
					t.Fatal(err)
				}
				if batch > 0 {
					s.Batch = batch
				}
				r := Run{BatchSteps: s.Batch, TimeLimit: task.TimeLimit, Length: config.Length{Iterations: 1 << 40},
					Evaluations: Evaluations{
						Every: s.EvaluateEvery,
						Play: func(context.Context, *proto.Policy, runs.Counters, EvaluationSteps) (
							*runs.Evaluation, time.Duration, error) {
							return nil, 0, nil
						}}}
				evaluated, taken := 0, 0
				for r.counters.Steps = uint64(s.Batch); r.counters.Steps < 3_000_000; r.counters.Iteration++ {
					last := r
					last.Length = config.Length{Iterations: r.counters.Iteration}
					end, steps := last.evaluationSteps(), int(r.counters.Steps)
					if all := taken + min(end.Mean, 10*task.TimeLimit) +
						min(end.Sampled, 10*task.TimeLimit); 20*all > steps && steps >= 100*task.TimeLimit {
						t.Fatalf("%s, %s, batches of %d: %d steps of evaluations for %d of training", task.Name, preset,
							s.Batch, all, steps)
					}
					if steps >= 1_000_000 && (end.Mean < 10*task.TimeLimit || end.Sampled < 10*task.TimeLimit ||
						evaluated < 9 && s.Batch < 70_000) {
						t.Fatalf("%s, %s, batches of %d: after %d steps %d evaluations, and the last of %+v steps",
							task.Name, preset, s.Batch, steps, evaluated, end)
					}
					if between := r.evaluationSteps(); between.Mean > 0 {
						evaluated, taken = evaluated+1, taken+between.Mean
					}
					r.counters.Steps += uint64(s.Batch)
				}
			}
		}
	}
}
