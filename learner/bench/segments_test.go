package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/sim"
)

// Steps a second of one actor in batches of segments, as a share of those of whole episodes, in turns; and the size of
// a ticket's state. The tasks' episodes always take 1,000 steps, so that the cost of a ticket is shared by as many.
func BenchmarkSegments(b *testing.B) {
	const steps = 2048
	for _, name := range []string{"Swimmer-v5", "HalfCheetah-v5", "HumanoidStandup-v5"} {
		for _, segment := range []int{32, 128} {
			b.Run(fmt.Sprintf("%s/%d", name, segment), func(b *testing.B) {
				task, err := sim.Lookup(name)
				if err != nil {
					b.Fatal(err)
				}
				err = withSampler(b.Context(), task, 1, func(ctx context.Context, s *sampler) error {
					at := collect.NewStreams(steps/segment, task.TimeLimit)
					var whole, cut time.Duration
					var wholeSteps, cutSteps int
					for b.Loop() {
						batch, err := s.collect(ctx, steps)
						if err != nil {
							return err
						}
						whole, wholeSteps = whole+batch.Stats.Elapsed, wholeSteps+batch.Steps
						batch, err = s.collector.Collect(ctx,
							collect.Order{Policy: s.policy(), Streams: at, Steps: len(at) * segment})
						if err != nil {
							return err
						}
						s.iteration++
						at = batch.Streams
						cut, cutSteps = cut+batch.Stats.Elapsed, cutSteps+batch.Steps
					}
					each := whole.Seconds() / float64(wholeSteps) // a step in whole episodes
					b.ReportMetric(each*float64(cutSteps)/cut.Seconds(), "share")
					b.ReportMetric(float64(cutSteps)/cut.Seconds(), "steps/s")
					data, err := proto.Marshal(nil,
						&proto.Reply{Next: &proto.Ticket{Run: "r"}, Start: &proto.Start{Steps: 1, State: at[0].State}})
					b.ReportMetric(float64(len(data)), "B/ticket")
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}
