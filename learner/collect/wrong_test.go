package collect_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/dbqpg/dbqpg/internal/rollout"
	"github.com/dbqpg/dbqpg/internal/rollout/rollouttest"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/simtest"
)

// Whatever wrong, late or repeated messages arrive, they are answered and the batch is right.
func TestWrongUploads(t *testing.T) {
	l := newLab(t)
	done := make(chan *collect.Batch)
	go func() { done <- l.collect(1) }()
	c := l.client("impostor")
	first := c.ask()
	honest := play(t, first)
	expect := func(what string, reply *proto.Reply, status proto.Status, reason string) {
		t.Helper()
		if reply.Status != status || !strings.Contains(reply.Reason, reason) {
			t.Errorf("%s: %v %q, want %v %q", what, reply.Status, reply.Reason, status, reason)
		}
		if reply.Position != (proto.Position{Epoch: 1, Batch: 1}) {
			t.Errorf("%s: the answer gives position %v", what, reply.Position)
		}
	}
	spoil := func(f func(*proto.Episode)) *proto.Chunk {
		e := *honest
		f(&e)
		return c.chunk(first, &e)
	}
	cut := c.chunk(first, honest)
	cut.Data = cut.Data[:len(cut.Data)/2]
	flipped := c.chunk(first, honest)
	flipped.Data[bytes.Index(flipped.Data, []byte("rewards"))+40] ^= 1
	earlier, later, far := ticket(0, 0), ticket(2, 0), ticket(1, 1<<40)
	seedless := first
	seedless.Seed++
	expect("truncated", c.request(1, cut), proto.Refused, "malformed")
	c.ask() // it has lost the ticket
	expect("corrupted", c.request(1, flipped), proto.Refused, "checksum")
	c.ask() // it has lost the ticket
	expect("another ticket's episode", c.request(1, spoil(func(e *proto.Episode) { e.Ticket.Index++ })), proto.Refused,
		"invalid")
	c.ask() // it has lost the ticket
	expect("shorter than the task", c.request(1, spoil(func(e *proto.Episode) {
		e.Terminated = false
		e.Rewards = e.Rewards[:1]
		e.Actions = e.Actions[:2]
		e.Observations = e.Observations[:3]
	})), proto.Refused, "time limit")
	c.ask() // it has lost the ticket
	expect("another task's", c.request(1, spoil(
		func(e *proto.Episode) { e.FinalObservation = []float32{1}; e.Observations = make([]float32, e.Steps()) })),
		proto.Refused, "shapes")
	expect("of an earlier iteration", c.request(1, c.chunk(earlier, play(t, earlier))), proto.Stale, "")
	expect("of a later iteration", c.request(1, c.chunk(later, play(t, later))), proto.Stale, "")
	expect("never given out", c.request(1, c.chunk(far, play(t, first))), proto.Stale, "")
	expect("of another seed", c.request(1, c.chunk(seedless, play(t, seedless))), proto.Stale, "")
	expect("an offer too large", c.request(1, &proto.Offer{Slot: c.slot, Ticket: first, Size: 1 << 20}), proto.Refused,
		"too large")
	expect("an offer of a stale episode", c.request(1, &proto.Offer{Slot: c.slot, Ticket: earlier, Size: 1 << 10}),
		proto.Stale, "")
	c.ask()
	expect("the second of two chunks", c.request(1,
		&proto.Chunk{Slot: c.slot, Ticket: first, Part: 1, Parts: 2, Data: []byte{1}}), proto.Wait, "")
	expect("noise", c.raw("dbqpg.toy.1.chunk.anyone", []byte("noise")), proto.Refused, "malformed")
	expect("nothing", c.raw("dbqpg.toy.1.ask.anyone", nil), proto.Refused, "malformed")
	expect("an unknown request", c.raw("dbqpg.toy.1.stop.anyone", nil), proto.Refused, "stop")
	expect("a hostile length", c.raw("dbqpg.toy.1.ask.anyone", []byte{0xdf, 0xff, 0xff, 0xff, 0xff}), proto.Refused,
		"malformed")
	if _, err := c.conn.Request(deadline(t), "dbqpg.toy.0.ask.anyone", nil); !errors.Is(err, bus.ErrNoResponder) {
		t.Errorf("a request to a lower epoch: %v", err)
	}
	// The right episode wins if it comes from the ticket's holder; not again.
	c.ask()
	c.slot.Number = 1
	expect("the right episode of another's ticket", c.request(1, c.chunk(first, honest)), proto.Stale, "")
	expect("an offer for another's ticket", c.request(1, &proto.Offer{Slot: c.slot, Ticket: first, Size: 1 << 10}),
		proto.Stale, "")
	c.slot.Number = 0
	reply := c.request(1, c.chunk(first, honest))
	if reply.Status != proto.OK || reply.Next == nil {
		t.Fatalf("the right episode: %+v", reply)
	}
	c.request(1, &proto.Return{Slot: c.slot, Ticket: *reply.Next})
	expect("the right episode again", c.request(1, c.chunk(first, honest)), proto.Stale, "")
	reply = c.request(1, &proto.Ask{Slot: c.slot})
	c.request(1, &proto.Return{Slot: c.slot, Ticket: *reply.Next})
	l.actor(2, simtest.New)
	b := <-done
	requireSerial(t, b, 1)
	if b.Stats.Refused != 10 || b.Stats.Rejected != 5 || b.Stats.Stale != 7 || b.Stats.Duplicate != 1 ||
		b.Stats.Wasted > 1000 {
		t.Errorf("%+v, want 10 refused", b.Stats)
	}
}

// judged has the learner judge actors by environments of its own; audit is the share of tickets that it replays anyway.
func judged(audit float64, newEnv func(string) (sim.Env, error)) func(*collect.Config) {
	return func(c *collect.Config) {
		c.NewEnv, c.Exact = newEnv, true
		c.SetAudit(audit)
	}
}

// plays has the learner play tickets that actors fail.
func plays(newEnv func(string) (sim.Env, error)) func(*collect.Config) {
	return func(c *collect.Config) { c.NewEnv = newEnv }
}

// A ticket that fails for the learner itself, too, ends the batch with an error that names it and the reason.
func TestTicketThatAlwaysFails(t *testing.T) {
	diverge := func(string) (sim.Env, error) {
		return &simtest.Toy{BeforeStep: func(steps int) error {
			if steps == 3 {
				return errors.New("the state is NaN")
			}
			return nil
		}}, nil
	}
	l := newLab(t, plays(diverge))
	l.actor(2, diverge)
	_, err := l.collector.Collect(deadline(t), collect.Order{Policy: rollouttest.Policy(0), Steps: minSteps})
	if err == nil || !strings.Contains(err.Error(), "step 3: the state is NaN") ||
		!strings.Contains(err.Error(), "batch 0 ticket") {
		t.Errorf("an episode that always diverges: %v", err)
	}
}

// A reward that is not finite is refused where it arises, and ends the batch by name.
func TestRewardNotFinite(t *testing.T) {
	l := newLab(t, plays(newNaN))
	l.actor(1, newNaN)
	_, err := l.collector.Collect(deadline(t), collect.Order{Policy: rollouttest.Policy(0), Steps: minSteps})
	if err == nil || !strings.Contains(err.Error(), "rewards: not finite, or beyond 1e15: NaN at row 0") {
		t.Errorf("a NaN reward: %v", err)
	}
}

// However many names say that tickets fail, the batch is a serial sampler's: the learner plays those tickets itself.
func TestFailingNames(t *testing.T) {
	l := newLab(t, judged(0, simtest.New))
	done := make(chan *collect.Batch)
	go func() { done <- l.collect(1) }()
	for i := range 12 {
		c := l.client(fmt.Sprint("stranger ", i))
		c.slot.Number = uint64(i)
		reply := c.request(1, &proto.Ask{Slot: c.slot, Digest: toyDigest(t)})
		for i == 0 && reply.Next == nil { // until the batch begins
			reply = c.request(1, &proto.Ask{Slot: c.slot, Digest: toyDigest(t)})
		}
		if reply.Next != nil {
			c.request(1, &proto.Return{Slot: c.slot, Ticket: *reply.Next, Reason: "it fails, believe me"})
		}
	}
	l.actor(1, simtest.New)
	b := <-done
	requireSerial(t, b, 1)
	if l.collector.Status().Own == 0 {
		t.Error("the learner has played no ticket: the test shows nothing")
	}
}

func toyDigest(t *testing.T) string {
	t.Helper()
	digest, err := rollout.Digest(&simtest.Toy{})
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

// dear is the toy with another control cost; it lies only after the first steps, if a digest shall not show it.
type dear struct {
	*simtest.Toy
	honest int
}

func (e *dear) Step(action, observation []float64) (float64, bool, error) {
	reward, terminated, err := e.Toy.Step(action, observation)
	if e.honest--; e.honest < 0 {
		reward -= 1e-12 * action[0] * action[0]
	}
	return reward, terminated, err
}

// An actor of another build is refused, and both sides say so.
func TestOtherBuild(t *testing.T) {
	log := new(record)
	l := newLab(t, judged(0, simtest.New), func(c *collect.Config) { c.Log = slog.New(slog.NewTextHandler(log, nil)) })
	done := make(chan *collect.Batch)
	go func() { done <- l.collect(1) }()
	newDear := func(string) (sim.Env, error) { return &dear{&simtest.Toy{}, 0}, nil }
	err := rollout.Run(deadline(t), rollout.Config{Conn: l.connect(), Run: "toy", Slots: 1, NewEnv: newDear,
		Log: quiet})
	if err == nil || !strings.Contains(err.Error(), "computes Toy otherwise") {
		t.Errorf("an actor of another build: %v", err)
	}
	l.actor(1, simtest.New)
	requireSerial(t, <-done, 1)
	if said := log.String(); !strings.Contains(said, "computes Toy otherwise") {
		t.Errorf("the learner does not say so: %s", said)
	}
}

// An actor that lies is found out, shut out and named, and what it sent for the batch is played anew.
func TestLiar(t *testing.T) {
	for _, segments := range []bool{false, true} {
		log := new(record)
		l := newLab(t, judged(1, simtest.New), func(c *collect.Config) {
			c.Log = slog.New(slog.NewTextHandler(log, nil))
		})
		done := make(chan *collect.Batch)
		go func() {
			if !segments {
				b, err := l.collector.Collect(deadline(t),
					collect.Order{Policy: rollouttest.Policy(1), Steps: 20 * minSteps})
				if err != nil {
					t.Error(err)
				}
				done <- b
				return
			}
			b, err := l.collector.Collect(deadline(t),
				collect.Order{Policy: rollouttest.Policy(1), Streams: collect.NewStreams(400, simtest.Spec.TimeLimit),
					Steps: 400 * 30})
			if err != nil {
				t.Error(err)
			}
			done <- b
		}()
		newLiar := func(string) (sim.Env, error) { return &dear{&simtest.Toy{}, 300}, nil }
		err := rollout.Run(deadline(t), rollout.Config{Conn: l.connect(), Run: "toy", Slots: 1, NewEnv: newLiar,
			Log: quiet})
		if err == nil || !strings.Contains(err.Error(), "is shut out of this run: it sent another result") {
			t.Errorf("the liar: %v", err)
		}
		l.actor(1, simtest.New)
		b := <-done
		if b == nil || b.Stats.Audited == 0 || !strings.Contains(log.String(), "an actor is shut out") {
			t.Errorf("segments %v: %+v: %s", segments, b, log)
		}
		for _, e := range b.Episodes {
			if segments { // the segments' own tests compare their contents
				break
			}
			if want := play(t, e.Ticket); !reflect.DeepEqual(e.Rewards, want.Rewards) {
				t.Fatalf("the liar's %v is in the batch", e.Ticket)
			}
		}
	}
}

func newNaN(string) (sim.Env, error) { return &nanEnv{Toy: &simtest.Toy{}}, nil }

// nanEnv has rewards that are not numbers.
type nanEnv struct{ *simtest.Toy }

func (e *nanEnv) Step(action, observation []float64) (float64, bool, error) {
	_, terminated, err := e.Toy.Step(action, observation)
	return math.NaN(), terminated, err
}

// A run announces itself, and its tickets once there are some.
func TestAnnouncements(t *testing.T) {
	l := newLab(t)
	announced := make(chan proto.Announcement, 100)
	subscription, err := l.connect().Subscribe(proto.SubjectsOf("toy").Positions(), func(m bus.Message) {
		var a proto.Announcement
		if err := proto.Unmarshal(m.Data, &a); err != nil {
			t.Error(err)
		}
		announced <- a
	})
	if err != nil {
		t.Fatal(err)
	}
	defer subscription.Close()
	if a := <-announced; a.Run != "toy" || a.Task != "Toy" || a.Need.Tickets != 0 {
		t.Errorf("announced: %+v", a)
	}
	ctx, cancel := context.WithCancel(deadline(t))
	collected := make(chan error)
	go func() {
		_, err := l.collector.Collect(ctx, collect.Order{Policy: rollouttest.Policy(0), Steps: minSteps})
		collected <- err
	}()
	for a := range announced {
		if a.Need.Tickets > 0 {
			break
		}
	}
	if n := l.collector.Status().Useful; n != minSteps/simtest.Spec.TimeLimit {
		t.Errorf("%d episodes at once are useful", n)
	}
	cancel()
	<-collected
}

// record is a log that a test reads while it is written.
type record struct {
	mu   sync.Mutex
	text strings.Builder
}

func (r *record) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(line)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// While the only actor is shut out, the learner plays alone, and the batches are a serial sampler's.
func TestNobodyElseMayPlay(t *testing.T) {
	log := new(record)
	l := newLab(t, judged(1, simtest.New), func(c *collect.Config) { c.Log = slog.New(slog.NewTextHandler(log, nil)) })
	ended := make(chan error, 1)
	conn := l.connect()
	go func() {
		newLiar := func(string) (sim.Env, error) { return &dear{&simtest.Toy{}, 300}, nil }
		ended <- rollout.Run(deadline(t), rollout.Config{Conn: conn, Run: "toy", Slots: 1, NewEnv: newLiar, Log: quiet})
	}()
	for iteration := range uint64(3) {
		b, err := l.collector.Collect(deadline(t),
			collect.Order{Policy: rollouttest.Policy(iteration), Steps: 20 * minSteps})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range b.Episodes {
			if want := play(t, e.Ticket); iteration > 0 && !reflect.DeepEqual(e, want) {
				t.Fatalf("%v is not a serial sampler's", e.Ticket)
			}
		}
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "is shut out of this run") {
		t.Errorf("the liar: %v", err)
	}
	if said := log.String(); strings.Count(said, "no actor may play") != 1 {
		t.Error(said)
	}
}

// A batch that is replayed is a serial sampler's, and whoever sent another episode of it is shut out; of a batch without
// such an episode nothing is returned.
func TestReplay(t *testing.T) {
	for _, segments := range []bool{false, true} {
		l := newLab(t, judged(0, simtest.New))
		order := func(iteration uint64) collect.Order {
			o := collect.Order{Policy: rollouttest.Policy(iteration), Steps: minSteps}
			if segments {
				o.Streams = collect.NewStreams(numStreams, simtest.Spec.TimeLimit)
			}
			return o
		}
		collected := func(iteration uint64) *collect.Batch {
			b, err := l.collector.Collect(deadline(t), order(iteration))
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		stop := l.actor(1, simtest.New)
		honest := collected(0)
		if own, err := l.collector.Replay(deadline(t), honest); own != nil || err != nil {
			t.Errorf("segments %v: an honest batch is replayed as %v, %v", segments, own, err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		ended := make(chan error, 1)
		conn := l.connect()
		go func() {
			newLiar := func(string) (sim.Env, error) { return &dear{&simtest.Toy{}, 100}, nil }
			ended <- rollout.Run(deadline(t), rollout.Config{Conn: conn, Run: "toy", Slots: 1, NewEnv: newLiar, Log: quiet})
		}()
		untrue := collected(1)
		own, err := l.collector.Replay(deadline(t), untrue)
		if err != nil || own == nil {
			t.Fatalf("segments %v: a false batch is replayed as %v, %v", segments, own, err)
		}
		l.actor(1, simtest.New)
		again := newLab(t, judged(0, simtest.New))
		again.actor(1, simtest.New)
		want, err := again.collector.Collect(deadline(t), order(1))
		if err != nil || !reflect.DeepEqual(own.Episodes, want.Episodes) || !reflect.DeepEqual(own.Streams, want.Streams) {
			t.Errorf("segments %v: the replay is another batch than an honest actor's, %v", segments, err)
		}
		if reflect.DeepEqual(untrue.Episodes, want.Episodes) {
			t.Error("the batch was not false: the test shows nothing")
		}
		collected(2)
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "is shut out of this run") {
			t.Errorf("segments %v: the liar: %v", segments, err)
		}
	}
}
