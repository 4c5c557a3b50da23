package collect_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/rollout"
	"github.com/dbqpg/dbqpg/internal/rollout/rollouttest"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/simtest"
)

const (
	numStreams   = 12
	segmentSteps = 7
)

func saved(c *collect.Config) { c.SetStateSize((&simtest.Toy{}).StateSize()) }

// trajectory is what a batch of segments contains, one step after another, stream by stream.
type trajectory struct {
	Observations, Actions []float32
	Rewards               []float64
	Finals                []float32 // of the episodes that ended
	Returns               []float64
	Lengths               []int
	Terminated            []bool
}

func trajectoryOf(b *collect.Batch) (all trajectory) {
	for _, e := range b.Episodes {
		all.Observations = append(all.Observations, e.Observations...)
		all.Actions = append(all.Actions, e.Actions...)
		all.Rewards = append(all.Rewards, e.Rewards...)
		if !e.GoesOn {
			all.Finals = append(all.Finals, e.FinalObservation...)
			all.Returns = append(all.Returns, e.Return())
			all.Lengths = append(all.Lengths, e.Before.Steps+e.Steps())
			all.Terminated = append(all.Terminated, e.Terminated)
		}
	}
	return all
}

// live is the slow twin of a stream: an environment that is never saved, and that plays on and on.
type live struct {
	env         *simtest.Toy
	rng         *rand.Rand
	observation []float64
	sum         float64
	steps       int
}

func newLive(t testing.TB, index uint64) *live {
	l := &live{env: &simtest.Toy{}, rng: streams.New(seed, streams.Segments, 0, index), observation: make([]float64, 3)}
	l.reset(t)
	l.steps = int(index) * simtest.Spec.TimeLimit / numStreams
	return l
}

func (l *live) reset(t testing.TB) {
	if err := l.env.Reset(l.rng, l.observation); err != nil {
		t.Fatal(err)
	}
	l.sum, l.steps = 0, 0
}

func (l *live) play(t testing.TB, actor *policy.Actor, all *trajectory, steps int) {
	for range steps {
		seen, action := rounded(l.observation), make([]float32, 2)
		actor.Act(seen, l.rng, action)
		reward, terminated, err := l.env.Step([]float64{float64(action[0]), float64(action[1])}, l.observation)
		if err != nil {
			t.Fatal(err)
		}
		all.Observations = append(all.Observations, seen...)
		all.Actions = append(all.Actions, action...)
		all.Rewards = append(all.Rewards, reward)
		l.sum, l.steps = l.sum+reward, l.steps+1
		if terminated || l.steps == simtest.Spec.TimeLimit {
			all.Finals = append(all.Finals, rounded(l.observation)...)
			all.Returns, all.Lengths, all.Terminated = append(all.Returns, l.sum), append(all.Lengths, l.steps),
				append(all.Terminated, terminated)
			l.reset(t)
		}
	}
}

func rounded(x []float64) []float32 {
	return []float32{float32(x[0]), float32(x[1]), float32(x[2])}
}

func toyActor(t testing.TB, iteration uint64) *policy.Actor {
	t.Helper()
	p := rollouttest.Policy(iteration)
	shape := policy.Shape{Observation: simtest.Spec.ObservationDim, Action: simtest.Spec.ActionDim, Hidden: p.Hidden}
	actor, err := policy.NewActor(shape, p.Params, policy.Normalizer{Mean: p.Mean, Std: p.Std, Clip: p.Clip})
	if err != nil {
		t.Fatal(err)
	}
	return actor
}

// collectSegments collects batches first, first+1, ... from the streams, and returns them and where the streams then
// are.
func (l *lab) collectSegments(at []collect.Stream, first uint64, batches int) ([]trajectory, []collect.Stream) {
	l.t.Helper()
	var all []trajectory
	for i := range uint64(batches) {
		b, err := l.collector.Collect(deadline(l.t),
			collect.Order{Policy: rollouttest.Policy(first + i), Streams: at, Steps: len(at) * segmentSteps})
		if err != nil {
			l.t.Fatal(err)
		}
		if b.Steps != len(at)*segmentSteps || b.Stats.Wasted != 0 {
			l.t.Errorf("batch %d: %d steps, %d wasted", first+i, b.Steps, b.Stats.Wasted)
		}
		all, at = append(all, trajectoryOf(b)), b.Streams
	}
	return all, at
}

// liveBatches is what the batches should be.
func liveBatches(t testing.TB, batches int) []trajectory {
	all := make([]trajectory, batches)
	var twins []*live
	for index := range uint64(numStreams) {
		twins = append(twins, newLive(t, index))
	}
	for i := range all {
		actor := toyActor(t, uint64(i))
		for _, twin := range twins {
			twin.play(t, actor, &all[i], segmentSteps)
		}
	}
	return all
}

// Streams cut into segments, each played by whoever asks, are the streams played without a cut, under policies that
// change with every batch, for any number of actors.
func TestSegmentsDoNotDependOnActors(t *testing.T) {
	const batches = 12
	want := liveBatches(t, batches)
	ended, over := 0, 0
	for _, b := range want {
		for i, length := range b.Lengths {
			ended++
			if length > segmentSteps && !b.Terminated[i] {
				over++
			}
		}
	}
	if ended == 0 || over == 0 {
		t.Fatalf("%d episodes ended, %d of several segments by their time limit: the test wants both", ended, over)
	}
	for _, actors := range [][]int{{1}, {2}, {5, 3, 1}, slices.Repeat([]int{1}, 64)} {
		l := newLab(t, saved)
		for _, slots := range actors {
			l.actor(slots, simtest.New)
		}
		if got, _ := l.collectSegments(collect.NewStreams(numStreams, simtest.Spec.TimeLimit), 0,
			batches); !reflect.DeepEqual(got, want) {
			t.Errorf("actors with %v slots collect something else", actors)
		}
	}
}

// A batch has exactly as many steps as it is to have: if these cannot be divided evenly, the first streams have one
// more. All actors but a few at the end are useful nevertheless.
func TestSegmentsOfUnevenLengths(t *testing.T) {
	totals := []int{84, 89, 31, 95, 12, 84}
	var want []trajectory
	var twins []*live
	for index := range uint64(numStreams) {
		twins = append(twins, newLive(t, index))
	}
	for i, total := range totals {
		var all trajectory
		for left := len(twins); left > 0; left-- {
			steps := 0
			for steps*left < total { // the slow way to divide, and round up
				steps++
			}
			twins[len(twins)-left].play(t, toyActor(t, uint64(i)), &all, steps)
			total -= steps
		}
		want = append(want, all)
	}
	for _, actors := range []int{1, 64} {
		l := newLab(t, saved)
		for range actors {
			l.actor(1, simtest.New)
		}
		at := collect.NewStreams(numStreams, simtest.Spec.TimeLimit)
		for i, total := range totals {
			b, err := l.collector.Collect(deadline(t),
				collect.Order{Policy: rollouttest.Policy(uint64(i)), Streams: at, Steps: total})
			if err != nil {
				t.Fatal(err)
			}
			if b.Steps != total || b.Stats.Wasted != 0 || !reflect.DeepEqual(trajectoryOf(b), want[i]) {
				t.Errorf("%d actors, batch %d: %d steps, want %d; %d wasted", actors, i, b.Steps, total, b.Stats.Wasted)
			}
			if least := numStreams * 3 / 5; b.Stats.Useful < least || b.Stats.Useful > numStreams {
				t.Errorf("%d actors are useful for %d steps of %d streams", b.Stats.Useful, total, numStreams)
			}
			at = b.Streams
		}
	}
}

// A learner that goes on from the streams of another collects what that would have collected.
func TestSegmentsGoOnElsewhere(t *testing.T) {
	const batches = 6
	want := liveBatches(t, batches)
	for stop := range batches {
		l := newLab(t, saved)
		l.actor(2, simtest.New)
		got, at := l.collectSegments(collect.NewStreams(numStreams, simtest.Spec.TimeLimit), 0, stop)
		l.collector = l.newCollector(l.conn, saved, func(c *collect.Config) { c.Epoch = 2 })
		rest, _ := l.collectSegments(at, uint64(stop), batches-stop)
		if got = append(got, rest...); !reflect.DeepEqual(got, want) {
			t.Errorf("stopped after %d batches: the result is another", stop)
		}
	}
}

// A segment whose actor dies is played again.
func TestActorDiesInSegment(t *testing.T) {
	const batches = 4
	l := newLab(t, saved, func(c *collect.Config) { c.Lease = 200 * time.Millisecond })
	release := l.dying(func(steps int) bool { return steps >= 3 })
	got, _ := l.collectSegments(collect.NewStreams(numStreams, simtest.Spec.TimeLimit), 0, batches)
	if !reflect.DeepEqual(got, liveBatches(t, batches)) {
		t.Error("the batches differ from undisturbed ones")
	}
	_ = release()
}

// A stream whose state no actor can go on from starts anew, the same for any number of actors; one that cannot even
// start ends the batch.
func TestStreamStartsAnew(t *testing.T) {
	diverging := func(string) (sim.Env, error) { return diverges{new(simtest.Toy)}, nil }
	var want []trajectory
	for _, actors := range []int{1, 3} {
		l := newLab(t, saved, plays(diverging))
		for range actors {
			l.actor(1, diverging)
		}
		got, _ := l.collectSegments(collect.NewStreams(numStreams, simtest.Spec.TimeLimit), 0, 4)
		if reflect.DeepEqual(got, liveBatches(t, 4)) {
			t.Fatal("no state was beyond going on from: the test shows nothing")
		}
		if want == nil {
			want = got
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d actors collect something else than one", actors)
		}
	}
	broken := func(string) (sim.Env, error) {
		return &simtest.Toy{BeforeStep: func(int) error { return errors.New("broken") }}, nil
	}
	l := newLab(t, saved, plays(broken))
	l.actor(1, broken)
	_, err := l.collector.Collect(deadline(t),
		collect.Order{Policy: rollouttest.Policy(0), Streams: make([]collect.Stream, 2), Steps: 10})
	if err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("streams that cannot start: %v", err)
	}
}

// diverges is a toy that cannot go on from some states.
type diverges struct{ *simtest.Toy }

func (d diverges) LoadState(state []float64) error {
	if state[0] > 0.8 {
		return errors.New("diverged")
	}
	return d.Toy.LoadState(state)
}

func signalOnce(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// All streams are useful at the start of a batch: as many actors have something to do.
func TestUsefulSegments(t *testing.T) {
	l := newLab(t, saved)
	l.actor(2, simtest.New)
	at := make([]collect.Stream, 64)
	for iteration := range uint64(3) {
		b, err := l.collector.Collect(deadline(t),
			collect.Order{Policy: rollouttest.Policy(iteration), Streams: at, Steps: 2048})
		if err != nil {
			t.Fatal(err)
		}
		if b.Stats.Useful != 64 || b.Steps != 2048 {
			t.Errorf("%d actors are useful for %d steps, want 64 for 2048", b.Stats.Useful, b.Steps)
		}
		at = b.Streams
	}
}

// Whatever wrong segments arrive, they are refused with a reason, and the batch is right.
func TestWrongSegments(t *testing.T) {
	l := newLab(t, saved)
	stop := l.actor(1, simtest.New)
	got, at := l.collectSegments(collect.NewStreams(numStreams, simtest.Spec.TimeLimit), 0, 1)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	done := make(chan []trajectory)
	go func() {
		rest, _ := l.collectSegments(at, 1, 1)
		done <- rest
	}()
	c := l.client("impostor")
	var reply *proto.Reply
	for reply = c.request(1, &proto.Ask{Slot: c.slot}); reply.Next == nil; reply = c.request(1,
		&proto.Ask{Slot: c.slot}) {
	}
	first, start := *reply.Next, reply.Start
	if start == nil || start.Steps != segmentSteps || !reflect.DeepEqual(start.State, at[first.Index].State) {
		t.Fatalf("the ticket %v starts at %+v, want %+v", first, start, at[first.Index].State)
	}
	segment := func() *proto.Segment {
		g, err := rollout.NewPlayer(&simtest.Toy{}).PlaySegment(toyActor(t, 1), first, start,
			func() bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	chunk := func(m proto.Message) *proto.Chunk {
		data, err := proto.Marshal(nil, m)
		if err != nil {
			t.Fatal(err)
		}
		return &proto.Chunk{Slot: c.slot, Ticket: first, Parts: 1, Data: data}
	}
	for what, spoil := range map[string]func(g *proto.Segment){
		"a state of Swimmer-v5":                  func(g *proto.Segment) { g.State.Task = "Swimmer-v5" },
		"for Toy with 3 and 5":                   func(g *proto.Segment) { g.State.Physics = g.State.Physics[1:] },
		"a segment of 6 steps, asked for were 7": func(g *proto.Segment) { shorten(g) },
		"the segment of":                         func(g *proto.Segment) { g.Ticket.Index++ },
		"with another observation than its":      func(g *proto.Segment) { g.Observations[0]++ },
		"a state after":                          func(g *proto.Segment) { g.State.Step += 2 },
		"with a time limit of 50": func(g *proto.Segment) {
			if at := slices.Index(g.Ends, proto.GoesOn); at >= 0 {
				g.Ends[at], g.Finals = proto.TimeLimit, append(g.Finals, 1, 2, 3)
			}
		},
		"2 observations and 2 actions a step": func(g *proto.Segment) {
			g.State.Observation, g.Finals = g.State.Observation[1:], g.Finals[:len(g.Finals)/3*2]
			g.Observations = g.Observations[:segmentSteps*2]
		},
	} {
		g := segment()
		spoil(g)
		c.ask() // it has lost the ticket
		if reply := c.request(1, chunk(g)); reply.Status != proto.Refused || !strings.Contains(reply.Reason, what) {
			t.Errorf("%s: %v %q", what, reply.Status, reply.Reason)
		}
	}
	c.ask()
	if reply := c.request(1, chunk(play(t, first))); reply.Status != proto.Refused {
		t.Errorf("an episode in place of a segment: %+v", reply)
	}
	corrupted := chunk(segment())
	corrupted.Data[len(corrupted.Data)-1] ^= 1
	c.ask()
	if reply := c.request(1, corrupted); reply.Status != proto.Refused || !strings.Contains(reply.Reason, "checksum") {
		t.Errorf("a corrupted state: %+v", reply)
	}
	l.actor(1, simtest.New)
	if got = append(got, <-done...); !reflect.DeepEqual(got, liveBatches(t, 2)) {
		t.Error("the batch is wrong")
	}
}

// shorten removes a segment's last step.
func shorten(g *proto.Segment) {
	n := g.Steps() - 1
	if g.Ends[n] != proto.GoesOn {
		g.Finals = g.Finals[:len(g.Finals)-3]
	}
	g.Observations, g.Actions, g.Rewards, g.Ends = g.Observations[:3*n], g.Actions[:2*n], g.Rewards[:n], g.Ends[:n]
}

// Streams that no actor could go on from, as of a damaged checkpoint, are an error at once.
func TestWrongStreams(t *testing.T) {
	l := newLab(t, saved)
	l.actor(1, simtest.New)
	_, at := l.collectSegments(make([]collect.Stream, 2), 0, 1)
	for want, spoil := range map[string]func(s *proto.State){
		"a state of Hopper-v5": func(s *proto.State) { s.Task = "Hopper-v5" },
		"6 numbers":            func(s *proto.State) { s.Physics = append(slices.Clone(s.Physics), 0) },
		"not finite":           func(s *proto.State) { s.Physics = []float64{1, 2, 3, 4, math.Inf(1)} },
		"after 50 steps":       func(s *proto.State) { s.Step = 50 },
		"random":               func(s *proto.State) { s.Random = make([]byte, 48) },
		"4 observations":       func(s *proto.State) { s.Observation = make([]float32, 4) },
	} {
		damaged := *at[1].State
		spoil(&damaged)
		before := at[1].Before
		if want == "after 50 steps" {
			before.Steps = 50
		}
		streams := []collect.Stream{at[0], {State: &damaged, Before: before}}
		_, err := l.collector.Collect(deadline(t),
			collect.Order{Policy: rollouttest.Policy(1), Streams: streams, Steps: len(streams) * segmentSteps})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "stream 1") {
			t.Errorf("%s: %v", want, err)
		}
	}
	at[1].Before.Steps++
	if _, err := l.collector.Collect(deadline(t),
		collect.Order{Policy: rollouttest.Policy(1), Streams: at, Steps: len(at) * segmentSteps}); !errors.Is(err,
		proto.ErrInvalid) {
		t.Errorf("a stream and its state that disagree: %v", err)
	}
	at[1].Before.Steps--
	if _, err := l.collector.Collect(deadline(t),
		collect.Order{Policy: rollouttest.Policy(1), Streams: at, Steps: len(at) * (proto.MaxSegment + 1)}); !errors.Is(
		err, proto.ErrInvalid) {
		t.Errorf("segments that are too long: %v", err)
	}
}

// A task whose environment cannot be saved is not played in segments, by learners and actors alike.
func TestSegmentsOfWhatCannotBeSaved(t *testing.T) {
	l := newLab(t)
	const want = "cannot be played in segments"
	if _, err := l.collector.Collect(deadline(t),
		collect.Order{Policy: rollouttest.Policy(0), Streams: make([]collect.Stream, 2), Steps: 10}); err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("a learner: %v", err)
	}
	player := rollout.NewPlayer(new(wide))
	if _, err := player.PlaySegment(nil, proto.Ticket{}, &proto.Start{Steps: 1},
		func() bool { return false }); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("an actor: %v", err)
	}
}
