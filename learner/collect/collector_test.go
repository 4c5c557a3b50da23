package collect_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dbqpg/dbqpg/actor/rollout"
	"github.com/dbqpg/dbqpg/actor/rollout/rollouttest"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
	"github.com/dbqpg/dbqpg/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// patience is how long a test waits for what must happen, on a machine however loaded.
	patience = 60 * time.Second
	minSteps = 600
	seed     = 17
)

var quiet = slog.New(slog.DiscardHandler)

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// lab is a server, a learner's collector and whatever actors a test adds.
type lab struct {
	t         testing.TB
	server    *bus.Server
	conn      *bus.Conn
	collector *collect.Collector
}

func newLab(t testing.TB, change ...func(*collect.Config)) *lab {
	t.Helper()
	server, err := bus.StartServer(bus.ServerConfig{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, server: server}
	t.Cleanup(func() { l.server.Close() })
	l.conn = l.connect()
	l.collector = l.newCollector(l.conn, change...)
	return l
}

func (l *lab) newCollector(conn *bus.Conn, change ...func(*collect.Config)) *collect.Collector {
	l.t.Helper()
	config := collect.Config{Run: "toy", Epoch: 1, Seed: seed, Task: rollouttest.Spec, Log: quiet}
	for _, f := range change {
		f(&config)
	}
	c, err := collect.New(deadline(l.t), conn, config)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(c.Close)
	return c
}

// connect makes a connection over the socket.
func (l *lab) connect() *bus.Conn {
	l.t.Helper()
	c, err := bus.Connect(deadline(l.t), l.server.URL(), bus.ConnConfig{Log: quiet})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(c.Close)
	return c
}

// actor runs an actor until the test ends or the returned function is called.
func (l *lab) actor(slots int, newEnv func(string) (sim.Env, error)) (stop func() error) {
	l.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	conn := l.connect()
	go func() {
		done <- rollout.Run(ctx, rollout.Config{Conn: conn, Run: "toy", Slots: slots, NewEnv: newEnv, Log: quiet})
	}()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	l.t.Cleanup(func() {
		if err := stop(); err != nil {
			l.t.Errorf("an actor: %v", err)
		}
	})
	return stop
}

func (l *lab) collect(iteration uint64) *collect.Batch {
	l.t.Helper()
	b, err := l.collector.Collect(deadline(l.t), rollouttest.Policy(iteration), minSteps)
	if err != nil {
		l.t.Fatal(err)
	}
	return b
}

// play plays one ticket alone, without network.
func play(t testing.TB, ticket proto.Ticket) *proto.Episode {
	t.Helper()
	p := rollouttest.Policy(ticket.Iteration)
	shape := policy.Shape{Observation: rollouttest.Spec.ObservationDim, Action: rollouttest.Spec.ActionDim, Hidden: p.Hidden}
	actor, err := policy.NewActor(shape, p.Params, policy.Normalizer{Mean: p.Mean, Std: p.Std, Clip: p.Clip})
	if err != nil {
		t.Fatal(err)
	}
	e, err := rollout.Play(context.Background(), &rollouttest.Toy{}, actor, ticket)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func ticket(iteration, index uint64) proto.Ticket {
	return proto.Ticket{Run: "toy", Epoch: 1, Iteration: iteration, Index: index, Seed: seed}
}

// serialBatch is the slow twin: one ticket played after the other until there are enough steps.
func serialBatch(t testing.TB, iteration uint64) []*proto.Episode {
	var episodes []*proto.Episode
	for steps := 0; steps < minSteps; {
		e := play(t, ticket(iteration, uint64(len(episodes))))
		episodes = append(episodes, e)
		steps += e.Steps()
	}
	return episodes
}

// requireSerial fails unless the batch is bit for bit what one sampler collects.
func requireSerial(t testing.TB, b *collect.Batch, iteration uint64) {
	t.Helper()
	want := serialBatch(t, iteration)
	if len(b.Episodes) != len(want) {
		t.Fatalf("iteration %d: %d episodes, one sampler collects %d", iteration, len(b.Episodes), len(want))
	}
	steps := 0
	for i, e := range b.Episodes {
		if !reflect.DeepEqual(e, want[i]) {
			t.Fatalf("iteration %d: episode %d differs from one sampler's", iteration, i)
		}
		steps += e.Steps()
	}
	if b.Steps != steps {
		t.Fatalf("iteration %d: %d steps are counted, the episodes hold %d", iteration, b.Steps, steps)
	}
}

// Any number of actors and slots collects the same batches, bit for bit.
func TestBatchDoesNotDependOnActors(t *testing.T) {
	for _, actors := range [][]int{{1}, {2}, {1, 1, 1}, {5, 3}} {
		t.Run(fmt.Sprint(actors), func(t *testing.T) {
			l := newLab(t)
			for _, slots := range actors {
				l.actor(slots, rollouttest.New)
			}
			for iteration := range uint64(5) {
				b := l.collect(iteration)
				requireSerial(t, b, iteration)
				if b.Stats.Actors < 1 || b.Stats.Actors > len(actors) || b.Stats.Elapsed <= 0 || b.Stats.Refused != 0 {
					t.Errorf("iteration %d: %+v", iteration, b.Stats)
				}
			}
		})
	}
}

// Actors in the learner's process use the same path, without a socket.
func TestActorsInProcess(t *testing.T) {
	l := newLab(t)
	conn, err := l.server.Connect(bus.ConnConfig{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- rollout.Run(ctx, rollout.Config{Conn: conn, Run: "toy", Slots: 2, NewEnv: rollouttest.New, Log: quiet})
	}()
	requireSerial(t, l.collect(0), 0)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// An actor that dies in the middle of an episode costs no more than its lease.
func TestActorDies(t *testing.T) {
	l := newLab(t, func(c *collect.Config) { c.Lease = 200 * time.Millisecond })
	playing := make(chan struct{}, 1)
	release := make(chan struct{})
	hang := func(string) (sim.Env, error) {
		return &rollouttest.Toy{BeforeStep: func(int) error {
			select {
			case playing <- struct{}{}:
			default:
			}
			<-release
			return errors.New("dead")
		}}, nil
	}
	conn := l.connect()
	died := make(chan error)
	go func() {
		died <- rollout.Run(context.Background(), rollout.Config{Conn: conn, Run: "toy", Slots: 2, NewEnv: hang, Log: quiet})
	}()
	go func() {
		<-playing
		conn.Close() // no farewell
		l.actor(1, rollouttest.New)
	}()
	requireSerial(t, l.collect(0), 0)
	close(release)
	if err := <-died; !errors.Is(err, bus.ErrClosed) {
		t.Errorf("the actor without a connection: %v", err)
	}
}

// An actor that is told to stop gives its tickets back: nobody waits for their leases, which here never end.
func TestActorLeaves(t *testing.T) {
	l := newLab(t, func(c *collect.Config) { c.Lease = time.Hour })
	ctx, cancel := context.WithCancel(context.Background())
	quits := func(string) (sim.Env, error) {
		return &rollouttest.Toy{BeforeStep: func(int) error { cancel(); return nil }}, nil
	}
	conn := l.connect()
	left := make(chan error)
	go func() {
		left <- rollout.Run(ctx, rollout.Config{Conn: conn, Run: "toy", Slots: 3, NewEnv: quits, Log: quiet})
		l.actor(1, rollouttest.New)
	}()
	go func() {
		if err := <-left; err != nil {
			t.Errorf("the actor that left: %v", err)
		}
	}()
	requireSerial(t, l.collect(0), 0)
}

// A run goes on when its server is restarted: the policy is published again, the actors come back.
func TestServerRestart(t *testing.T) {
	l := newLab(t)
	held := make(chan struct{}, 1)
	release := make(chan struct{})
	l.actor(2, func(string) (sim.Env, error) {
		return &rollouttest.Toy{BeforeStep: func(int) error {
			select {
			case held <- struct{}{}:
			default:
			}
			<-release
			return nil
		}}, nil
	})
	go func() {
		<-held
		_, port, _ := net.SplitHostPort(strings.TrimPrefix(l.server.URL(), "nats://"))
		number, _ := strconv.Atoi(port)
		l.server.Close()
		again, err := bus.StartServer(bus.ServerConfig{Port: number, Log: quiet})
		if err != nil {
			t.Error(err)
			return
		}
		l.server = again
		close(release)
		// One that knows nothing needs the policy from the store, which the restart has emptied.
		l.actor(1, rollouttest.New)
	}()
	requireSerial(t, l.collect(0), 0)
	requireSerial(t, l.collect(1), 1)
}

// client speaks the protocol by hand.
type client struct {
	t    testing.TB
	conn *bus.Conn
	slot proto.Slot
}

func (l *lab) client(name string) *client {
	return &client{l.t, l.connect(), proto.Slot{Actor: name}}
}

// request sends m to the learner of the epoch.
func (c *client) request(epoch uint64, m proto.Message) *proto.Reply {
	c.t.Helper()
	data, err := proto.Marshal(nil, m)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.raw(proto.SubjectsOf("toy").Request(epoch, m), data)
}

func (c *client) raw(subject string, data []byte) *proto.Reply {
	c.t.Helper()
	answer, err := c.conn.Request(deadline(c.t), subject, data)
	if err != nil {
		c.t.Fatal(err)
	}
	reply := new(proto.Reply)
	if err := proto.Unmarshal(answer, reply); err != nil {
		c.t.Fatal(err)
	}
	return reply
}

// ask asks until there is a ticket.
func (c *client) ask() proto.Ticket {
	c.t.Helper()
	for ctx := deadline(c.t); ; {
		if reply := c.request(1, &proto.Ask{Slot: c.slot}); reply.Next != nil {
			return *reply.Next
		}
		if ctx.Err() != nil {
			c.t.Fatal("no ticket")
		}
	}
}

// chunk is the episode in one chunk that says it is t's.
func (c *client) chunk(t proto.Ticket, e *proto.Episode) *proto.Chunk {
	c.t.Helper()
	data, err := proto.Marshal(nil, e)
	if err != nil {
		c.t.Fatal(err)
	}
	return &proto.Chunk{Slot: c.slot, Ticket: t, Parts: 1, Data: data}
}

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
		if reply.Position != (proto.Position{Epoch: 1, Iteration: 1}) {
			t.Errorf("%s: the answer gives position %v", what, reply.Position)
		}
	}
	spoil := func(f func(*proto.Episode)) *proto.Chunk {
		e := *honest
		f(&e)
		return c.chunk(first, &e)
	}
	// Each comes from a slot without the ticket, and so does not count as the ticket's failure.
	c.slot.Number = 1
	cut := c.chunk(first, honest)
	cut.Data = cut.Data[:len(cut.Data)/2]
	flipped := c.chunk(first, honest)
	flipped.Data[bytes.Index(flipped.Data, []byte("rewards"))+40] ^= 1
	earlier, later, far := ticket(0, 0), ticket(2, 0), ticket(1, 1<<40)
	seedless := first
	seedless.Seed++
	expect("truncated", c.request(1, cut), proto.Refused, "malformed")
	expect("corrupted", c.request(1, flipped), proto.Refused, "checksum")
	expect("another ticket's episode", c.request(1, spoil(func(e *proto.Episode) { e.Ticket.Index++ })), proto.Refused, "invalid")
	expect("shorter than the task", c.request(1, spoil(func(e *proto.Episode) {
		e.Terminated = false
		e.Rewards = e.Rewards[:1]
		e.Actions = e.Actions[:2]
		e.Observations = e.Observations[:3]
	})), proto.Refused, "time limit")
	expect("another task's", c.request(1, spoil(func(e *proto.Episode) { e.FinalObservation = []float32{1}; e.Observations = make([]float32, e.Steps()) })), proto.Refused, "shapes")
	expect("of an earlier iteration", c.request(1, c.chunk(earlier, play(t, earlier))), proto.Stale, "")
	expect("of a later iteration", c.request(1, c.chunk(later, play(t, later))), proto.Stale, "")
	expect("never given out", c.request(1, c.chunk(far, play(t, first))), proto.Stale, "")
	expect("of another seed", c.request(1, c.chunk(seedless, play(t, seedless))), proto.Stale, "")
	expect("an offer too large", c.request(1, &proto.Offer{Slot: c.slot, Ticket: first, Size: 1 << 20}), proto.Refused, "too large")
	expect("an offer of a stale episode", c.request(1, &proto.Offer{Slot: c.slot, Ticket: earlier, Size: 1 << 10}), proto.Stale, "")
	expect("the second of two chunks", c.request(1, &proto.Chunk{Slot: c.slot, Ticket: first, Part: 1, Parts: 2, Data: []byte{1}}), proto.Wait, "")
	expect("noise", c.raw("dbqpg.toy.1.chunk", []byte("noise")), proto.Refused, "malformed")
	expect("nothing", c.raw("dbqpg.toy.1.ask", nil), proto.Refused, "malformed")
	expect("an unknown request", c.raw("dbqpg.toy.1.stop", nil), proto.Refused, "stop")
	expect("a hostile length", c.raw("dbqpg.toy.1.ask", []byte{0xdf, 0xff, 0xff, 0xff, 0xff}), proto.Refused, "malformed")
	if _, err := c.conn.Request(deadline(t), "dbqpg.toy.0.ask", nil); !errors.Is(err, bus.ErrNoResponder) {
		t.Errorf("a request to a lower epoch: %v", err)
	}
	// The right episode, from whomever, wins; then again, late and from its holder.
	reply := c.request(1, c.chunk(first, honest))
	if reply.Status != proto.OK || reply.Next == nil {
		t.Fatalf("the right episode: %+v", reply)
	}
	c.request(1, &proto.Return{Slot: c.slot, Ticket: *reply.Next})
	c.slot.Number = 0
	expect("the right episode again", c.request(1, c.chunk(first, honest)), proto.Stale, "")
	reply = c.request(1, &proto.Ask{Slot: c.slot, Abandoned: math.MaxUint64})
	c.request(1, &proto.Return{Slot: c.slot, Ticket: *reply.Next})
	l.actor(2, rollouttest.New)
	b := <-done
	requireSerial(t, b, 1)
	if b.Stats.Refused != 10 || b.Stats.Wasted > 1000 {
		t.Errorf("%+v, want 10 refused", b.Stats)
	}
}

// A ticket whose episodes are never right ends the batch with an error that names it and the reason.
func TestTicketThatAlwaysFails(t *testing.T) {
	diverge := func(string) (sim.Env, error) {
		return &rollouttest.Toy{BeforeStep: func(steps int) error {
			if steps == 3 {
				return errors.New("the state is NaN")
			}
			return nil
		}}, nil
	}
	l := newLab(t)
	l.actor(2, diverge)
	_, err := l.collector.Collect(deadline(t), rollouttest.Policy(0), minSteps)
	if err == nil || !strings.Contains(err.Error(), "step 3: the state is NaN") || !strings.Contains(err.Error(), "iteration 0 ticket") {
		t.Errorf("an episode that always diverges: %v", err)
	}
}

// A reward that is not finite is refused where it arises, and ends the batch by name.
func TestRewardNotFinite(t *testing.T) {
	l := newLab(t)
	l.actor(1, func(string) (sim.Env, error) { return nanEnv{&rollouttest.Toy{}}, nil })
	_, err := l.collector.Collect(deadline(t), rollouttest.Policy(0), minSteps)
	if err == nil || !strings.Contains(err.Error(), "rewards: not finite: NaN at row 0") {
		t.Errorf("a NaN reward: %v", err)
	}
}

// nanEnv has rewards that are not numbers.
type nanEnv struct{ *rollouttest.Toy }

func (e nanEnv) Step(action, observation []float64) (float64, bool, error) {
	_, terminated, err := e.Toy.Step(action, observation)
	return math.NaN(), terminated, err
}

// A learner that was replaced stops, and cannot overwrite its successor's policy.
func TestReplacedLearner(t *testing.T) {
	l := newLab(t)
	old := make(chan error)
	go func() {
		_, err := l.collector.Collect(deadline(t), rollouttest.Policy(0), minSteps)
		old <- err
	}()
	l.client("watcher").ask() // the old learner is at work
	conn := l.connect()
	epoch, err := collect.NextEpoch(deadline(t), conn, "toy", 0)
	if epoch != 2 || err != nil {
		t.Fatalf("the next epoch is %d, %v; want 2", epoch, err)
	}
	successor := l.newCollector(conn, func(c *collect.Config) { c.Epoch = epoch })
	l.actor(2, rollouttest.New)
	b, err := successor.Collect(deadline(t), rollouttest.Policy(0), minSteps)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range serialBatch(t, 0) {
		e.Ticket.Epoch = 2
		if !reflect.DeepEqual(b.Episodes[i], e) {
			t.Fatalf("episode %d differs under another epoch", i)
		}
	}
	if err := <-old; !errors.Is(err, collect.ErrSuperseded) {
		t.Errorf("the old learner: %v", err)
	}
	if _, err := l.collector.Collect(deadline(t), rollouttest.Policy(9), minSteps); !errors.Is(err, collect.ErrSuperseded) {
		t.Errorf("the old learner, again: %v", err)
	}
}

// Two learners of the same epoch don't overwrite each other's policies either.
func TestSameEpochTwice(t *testing.T) {
	l := newLab(t)
	l.actor(1, rollouttest.New)
	l.collect(0)
	other := l.newCollector(l.connect())
	p := rollouttest.Policy(0)
	p.Params[0]++
	if _, err := other.Collect(deadline(t), p, minSteps); !errors.Is(err, collect.ErrSuperseded) {
		t.Errorf("another policy under the same epoch and iteration: %v", err)
	}
}

// A batch that is cancelled can be collected again, and is the same.
func TestCancel(t *testing.T) {
	l := newLab(t)
	ctx, cancel := context.WithCancel(deadline(t))
	cancelled := make(chan error)
	go func() {
		_, err := l.collector.Collect(ctx, rollouttest.Policy(0), minSteps)
		cancelled <- err
	}()
	l.client("watcher").ask()
	cancel()
	if err := <-cancelled; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if steps, want := l.collector.Progress(); steps != 0 || want != 0 {
		t.Errorf("progress after the end: %d of %d", steps, want)
	}
	l.actor(1, rollouttest.New)
	requireSerial(t, l.collect(0), 0)
}

// What cannot be published is refused before anything is sent.
func TestBadPolicies(t *testing.T) {
	l := newLab(t)
	for name, spoil := range map[string]func(*proto.Policy){
		"NaN":          func(p *proto.Policy) { p.Params[3] = math.NaN() },
		"1 parameters": func(p *proto.Policy) { p.Params = p.Params[:1] },
		"make the hidden layer": func(p *proto.Policy) {
			p.Hidden = []int{65536, 16}
			p.Params = make([]float64, 65536*(3+1+16)+16*(1+2)+2+2)
		},
		"4 means": func(p *proto.Policy) { p.Mean, p.Std = make([]float64, 4), make([]float64, 4) },
	} {
		p := rollouttest.Policy(0)
		spoil(p)
		if _, err := l.collector.Collect(deadline(t), p, minSteps); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A key that holds something else is not overwritten.
func TestForeignKey(t *testing.T) {
	l := newLab(t)
	store, err := l.conn.Store(proto.PolicyBucket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(deadline(t), "toy", []byte("not a policy"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := collect.NextEpoch(deadline(t), l.conn, "toy", 0); !errors.Is(err, proto.ErrMalformed) {
		t.Errorf("NextEpoch: %v", err)
	}
	if _, err := l.collector.Collect(deadline(t), rollouttest.Policy(0), minSteps); !errors.Is(err, proto.ErrMalformed) {
		t.Errorf("Collect: %v", err)
	}
}
