package collect_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/internal/rollout/rollouttest"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/proto/bus"
	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/simtest"
)

// sleeper is a task without work: a step takes as long as it is told, an episode about 100 steps and at most 1,000.
type sleeper struct {
	simtest.Toy
	step          time.Duration
	begun         time.Time
	steps, length int
}

var sleeperSpec = sim.Spec{Name: "Sleeper", ObservationDim: 3, ActionDim: 2, FrameSkip: 1, TimeLimit: 1000}

func (s *sleeper) Spec() sim.Spec { return sleeperSpec }

func sleeperLength(rng *rand.Rand) int { return 1 + min(999, int(100*rng.ExpFloat64())) }

func (s *sleeper) Reset(rng *rand.Rand, observation []float64) error {
	s.begun, s.steps, s.length = time.Now(), 0, sleeperLength(rng)
	return s.Toy.Reset(rng, observation)
}

// Step sleeps at every tenth step, and at the last, until as much time has passed as the steps take: hundreds of actors
// wake up seldom enough not to keep each other waiting.
func (s *sleeper) Step(action, observation []float64) (float64, bool, error) {
	s.steps++
	if s.steps%10 == 0 || s.steps == s.length {
		time.Sleep(time.Until(s.begun.Add(time.Duration(s.steps) * s.step)))
	}
	reward, _, err := s.Toy.Step(action, observation)
	return reward, s.steps == s.length, err
}

// listSchedule returns the bound of the prefix rule, in steps: each slot takes the next ticket as soon as it is free,
// until the prefix holds enough.
func listSchedule(slots, minSteps int, iteration uint64) (steps int) {
	free := make([]int, slots)
	for held, index := 0, uint64(0); held < minSteps; index++ {
		length := sleeperLength(streams.New(seed, streams.Episode, iteration, index))
		first := 0
		for slot := range free {
			if free[slot] < free[first] {
				first = slot
			}
		}
		free[first] += length
		steps = max(steps, free[first])
		held += length
	}
	return steps
}

// How long a batch of 15,000 slow steps takes with so many actors, each with a connection of its own, and how many
// times as long as the prefix rule itself would make them wait.
func BenchmarkSlowActors(b *testing.B) {
	const batch = 15_000
	for _, c := range []struct {
		actors int
		step   time.Duration
	}{
		{1, time.Millisecond}, {4, time.Millisecond}, {16, time.Millisecond}, {64, time.Millisecond},
		{256, time.Millisecond},
		{256, 4 * time.Millisecond},
	} {
		actors, step := c.actors, c.step
		b.Run(fmt.Sprintf("actors=%d/step=%v", actors, step), func(b *testing.B) {
			l := newLab(b, func(c *collect.Config) { c.Task = sleeperSpec })
			for range actors {
				l.actor(1, func(string) (sim.Env, error) { return &sleeper{step: step}, nil })
			}
			collected := func(iteration uint64, minSteps int) *collect.Batch {
				ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
				defer cancel()
				batch, err := l.collector.Collect(ctx,
					collect.Order{Policy: rollouttest.Policy(iteration), Steps: minSteps})
				if err != nil {
					b.Fatal(err)
				}
				return batch
			}
			collected(0, 2000) // after which the lengths are known
			var took, least time.Duration
			wasted, useful, iteration := 0, 0, uint64(1)
			for b.Loop() {
				stats := collected(iteration, batch).Stats
				took += stats.Elapsed
				least += time.Duration(listSchedule(actors, batch, iteration)) * step
				wasted += stats.Wasted
				useful += stats.Useful
				iteration++
			}
			b.ReportMetric(took.Seconds()/float64(b.N), "s/batch")
			b.ReportMetric(took.Seconds()/least.Seconds(), "of-bound")
			b.ReportMetric(float64(wasted)/float64(b.N), "wasted/batch")
			b.ReportMetric(float64(useful)/float64(b.N), "useful")
		})
	}
}

// slow is a toy that can be saved and whose steps take as long as they are told.
type slow struct {
	simtest.Toy
	step  time.Duration
	begun time.Time
	steps int
}

func (s *slow) Step(action, observation []float64) (float64, bool, error) {
	if s.steps++; s.steps%8 == 1 {
		s.begun = time.Now()
	}
	if s.steps%8 == 0 {
		time.Sleep(time.Until(s.begun.Add(8 * s.step)))
	}
	return s.Toy.Step(action, observation)
}

// How many steps a second 1 to 64 actors play in batches of 2,000 slow steps, of 8 segments as in the preset best or of
// 64, and how many times as long a batch takes as the steps that an actor has to play one after another.
func BenchmarkSlowSegments(b *testing.B) {
	const step = 4 * time.Millisecond
	for _, c := range []struct{ streams, steps int }{{8, 250}, {64, 32}} {
		for actors := 1; actors <= 64; actors *= 2 {
			b.Run(fmt.Sprintf("segments=%dx%d/actors=%d", c.streams, c.steps, actors), func(b *testing.B) {
				l := newLab(b, saved)
				for range actors {
					l.actor(1, func(string) (sim.Env, error) { return &slow{step: step}, nil })
				}
				at, iteration, took := collect.NewStreams(c.streams, simtest.Spec.TimeLimit), uint64(0), time.Duration(0)
				for b.Loop() {
					batch, err := l.collector.Collect(b.Context(), collect.Order{
						Policy: rollouttest.Policy(iteration), Streams: at, Steps: c.streams * c.steps})
					if err != nil {
						b.Fatal(err)
					}
					at, took = batch.Streams, took+batch.Stats.Elapsed
					iteration++
				}
				steps := float64(c.streams * c.steps * b.N)
				b.ReportMetric(steps/took.Seconds(), "steps/s")
				b.ReportMetric(took.Seconds()/(steps/float64(min(actors, c.streams))*step.Seconds()), "of-bound")
			})
		}
	}
}

// A thousand actors with a connection each: for one run, which has use for a sixth of them, and for a hundred, each of
// which has a batch in five seconds. Server, learners and actors are three processes on the same processors; what each
// of them uses is reported.
func BenchmarkThousandActors(b *testing.B) {
	const actors = 1000
	for _, c := range []struct {
		runs, batch int
		step        time.Duration
	}{{1, 15_000, 4 * time.Millisecond}, {100, 3_000, 16 * time.Millisecond}} {
		runs, batch, step := c.runs, c.batch, c.step
		b.Run(fmt.Sprintf("runs=%d", runs), func(b *testing.B) {
			h := helper{Role: "server", Connections: actors, Step: step}
			p := &plant{t: b, server: h.start(b)}
			h.Role, h.URL = "actors", p.server.ready
			ctx, stop := context.WithCancel(context.Background())
			done := make(chan time.Duration)
			var learning sync.WaitGroup
			for i := range runs {
				learning.Go(func() { learn(b, ctx, &h, fmt.Sprint("toy-", i), batch, done) })
			}
			began := time.Now()
			p.senders = h.start(b)
			came := time.Since(began)
			conn, err := h.connect(ctx, "")
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			asks := new(atomic.Int64)
			announcements := new(atomic.Int64)
			for subject, count := range map[string]*atomic.Int64{
				"dbqpg.*.1.ask.*": asks, "dbqpg.*.position": announcements,
			} {
				if _, err := conn.Subscribe(subject, func(bus.Message) { count.Add(1) }); err != nil {
					b.Fatal(err)
				}
			}
			for range 2*runs + 1 { // until most are at their second or third
				<-done
			}
			used, took := p.usage(), time.Duration(0)
			asks.Store(0)
			announcements.Store(0)
			for b.Loop() {
				took += <-done
			}
			all, asked, announced := used(), asks.Load(), announcements.Load()
			stop()
			go func() { learning.Wait(); close(done) }()
			for range done { // those that were finished meanwhile
			}
			b.ReportMetric(came.Seconds(), "s-to-come") // until the last of them is connected
			batches := float64(b.N)
			b.ReportMetric(took.Seconds()/batches, "s/batch")
			b.ReportMetric(float64(asked)/batches, "asks/batch")
			b.ReportMetric(float64(announced)/b.Elapsed().Seconds(), "announcements/s")
			for name, time := range all {
				b.ReportMetric(time.Seconds()/b.Elapsed().Seconds(), name+"-processors")
			}
		})
	}
}

// learn collects one batch of a run after the other and sends how long each took.
func learn(b *testing.B, ctx context.Context, h *helper, run string, batch int, done chan<- time.Duration) {
	conn, err := h.connect(ctx, "")
	if err != nil {
		b.Error(err)
		return
	}
	defer conn.Close()
	c, err := collect.New(ctx, conn, collect.Config{Run: run, Epoch: 1, Seed: seed, Task: sleeperSpec, Log: quiet})
	if err != nil {
		b.Error(err)
		return
	}
	defer c.Close()
	steps := batch / 10 // after which the lengths are known
	for iteration := uint64(0); ; iteration++ {
		collected, err := c.Collect(ctx, collect.Order{Policy: rollouttest.Policy(iteration), Steps: steps})
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			b.Error(err)
			return
		}
		done <- collected.Stats.Elapsed
		steps = batch
	}
}
