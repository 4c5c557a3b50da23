package rollout_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dbqpg/dbqpg/internal/natsserver"
	"github.com/dbqpg/dbqpg/internal/rollout"
	"github.com/dbqpg/dbqpg/internal/rollout/rollouttest"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/simtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func startServer(t testing.TB) *natsserver.Server {
	t.Helper()
	s, err := natsserver.Start(natsserver.Config{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func connect(t testing.TB, s *natsserver.Server) *bus.Conn {
	t.Helper()
	c, err := s.Connect(bus.ConnConfig{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func newCollector(t testing.TB, s *natsserver.Server, change ...func(*collect.Config)) *collect.Collector {
	t.Helper()
	config := collect.Config{Run: "toy", Epoch: 1, Seed: 3, Task: simtest.Spec, Log: quiet}
	for _, f := range change {
		f(&config)
	}
	c, err := collect.New(deadline(t), connect(t, s), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// run starts an actor that ends with the test, or with stop.
func run(t testing.TB, config rollout.Config) (result <-chan error, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done, ended := make(chan error, 1), make(chan struct{})
	config.Run, config.Log = "toy", quiet
	if config.Slots == 0 {
		config.Slots = 1
	}
	go func() {
		defer close(ended)
		done <- rollout.Run(ctx, config)
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return done, stop
}

func TestBadConfig(t *testing.T) {
	conn := connect(t, startServer(t))
	for says, config := range map[string]rollout.Config{
		"0 slots":   {Conn: conn, Run: "toy", NewEnv: simtest.New},
		`holds "."`: {Conn: conn, Run: "a.b", Slots: 1, NewEnv: simtest.New},
	} {
		if err := rollout.Run(deadline(t), config); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want an error that says %q", err, says)
		}
	}
}

// An actor that comes first waits for its learner, and stops when told.
func TestActorBeforeLearner(t *testing.T) {
	server := startServer(t)
	run(t, rollout.Config{Conn: connect(t, server), NewEnv: simtest.New})
	ctx, cancel := context.WithCancel(deadline(t))
	cancel()
	if err := rollout.Run(ctx, rollout.Config{Conn: connect(t, server), Run: "toy", Slots: 1, NewEnv: simtest.New,
		Log: quiet}); err != nil {
		t.Errorf("stopped before there was a learner: %v", err)
	}
	if _, err := newCollector(t, server).Collect(deadline(t),
		collect.Order{Policy: rollouttest.Policy(0), Steps: 100}); err != nil {
		t.Error(err)
	}
}

// An environment that cannot be made ends the actor, whose ticket is free at once.
func TestNoEnvironment(t *testing.T) {
	server := startServer(t)
	collector := newCollector(t, server, func(c *collect.Config) { c.Lease = time.Hour })
	missing := errors.New("no model file")
	result, _ := run(t, rollout.Config{Conn: connect(t, server), Slots: 3,
		NewEnv: func(string) (sim.Env, error) { return nil, missing }})
	failed := make(chan error)
	go func() {
		failed <- <-result
		run(t, rollout.Config{Conn: connect(t, server), NewEnv: simtest.New})
	}()
	collected := make(chan error)
	go func() {
		_, err := collector.Collect(deadline(t), collect.Order{Policy: rollouttest.Policy(0), Steps: 100})
		collected <- err
	}()
	if err := <-failed; !errors.Is(err, missing) || !strings.Contains(err.Error(), "task Toy") {
		t.Errorf("the actor without an environment: %v", err)
	}
	if err := <-collected; err != nil {
		t.Error(err)
	}
}

// recorder tells what is done with the toy.
type recorder struct {
	*simtest.Toy
	calls chan string
	gate  chan struct{} // each step takes an element
	free  int           // steps before those, which are a digest's
}

func (r *recorder) Step(action, observation []float64) (float64, bool, error) {
	if r.free--; r.free < 0 {
		r.calls <- "step"
		<-r.gate
	}
	return r.Toy.Step(action, observation)
}

// An actor stops an episode that is no longer wanted, in the middle.
func TestStaleEpisodeIsStopped(t *testing.T) {
	ctx := deadline(t) // ends after the actors
	server := startServer(t)
	collector := newCollector(t, server, func(c *collect.Config) { c.Lease = 50 * time.Millisecond })
	slow := &recorder{&simtest.Toy{}, make(chan string), make(chan struct{}), 0}
	if _, err := rollout.Digest(&simtest.Toy{BeforeStep: func(int) error { slow.free++; return nil }}); err != nil {
		t.Fatal(err)
	}
	run(t, rollout.Config{Conn: connect(t, server), NewEnv: func(string) (sim.Env, error) { return slow, nil }})
	collected := make(chan error)
	go func() {
		_, err := collector.Collect(ctx, collect.Order{Policy: rollouttest.Policy(0), Steps: 200})
		collected <- err
	}()
	<-slow.calls // in its first step
	_, stop := run(t, rollout.Config{Conn: connect(t, server), Slots: 2, NewEnv: simtest.New})
	if err := <-collected; err != nil {
		t.Fatal(err)
	}
	stop()
	// The next batch is the slow actor's alone, and comes only if it gives up the old episode.
	go func() {
		for {
			select {
			case <-slow.calls:
			case slow.gate <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	if _, err := collector.Collect(ctx, collect.Order{Policy: rollouttest.Policy(1), Steps: 200}); err != nil {
		t.Fatal(err)
	}
}

// With room for one episode, an actor plays the second ticket while the first one's episode is on its way.
func TestPlaysWhileSending(t *testing.T) {
	server := startServer(t)
	conn := connect(t, server)
	store, err := conn.Store(proto.PolicyBucket)
	if err != nil {
		t.Fatal(err)
	}
	p := rollouttest.Policy(0)
	p.Run, p.Epoch, p.Task = "toy", 1, "Toy"
	data, err := proto.Marshal(nil, p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(deadline(t), "toy", data, 0); err != nil {
		t.Fatal(err)
	}
	// A learner that answers for no episode before it has two.
	answer := func(m bus.Message, reply proto.Reply) {
		reply.Position = p.Position()
		data, err := proto.Marshal(nil, &reply)
		if err != nil {
			t.Error(err)
		}
		m.Respond(data)
	}
	next := proto.Ticket{Run: "toy", Epoch: 1}
	var sent []bus.Message
	both := make(chan struct{})
	done := sync.OnceFunc(func() { close(both) })
	subscription, err := conn.Subscribe(proto.SubjectsOf("toy").Requests(1), func(m bus.Message) {
		request, err := proto.DecodeRequest(m.Subject, m.Data)
		if err != nil {
			t.Error(err)
		}
		switch request.(type) {
		case *proto.Ask:
			ticket := next
			next.Index++
			answer(m, proto.Reply{Need: proto.Need{Tickets: 1, Stamp: ticket.Index + 2}, Next: &ticket})
		case *proto.Chunk:
			if sent = append(sent, m); len(sent) < 2 {
				return
			}
			for _, m := range sent {
				answer(m, proto.Reply{Status: proto.Stale})
			}
			done()
		default:
			answer(m, proto.Reply{})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer subscription.Close()
	discovery, err := conn.Subscribe(proto.DiscoverSubject, func(bus.Message) { announce(t, conn, p.Position()) })
	if err != nil {
		t.Fatal(err)
	}
	defer discovery.Close()
	_, stop := run(t, rollout.Config{Conn: connect(t, server), Slots: 1, NewEnv: simtest.New})
	select {
	case <-both:
	case <-deadline(t).Done():
		t.Fatal("no second episode before the first is answered for")
	}
	stop()
}

// announce says that the toy's learner stands there and needs two slots.
func announce(t *testing.T, conn *bus.Conn, at proto.Position) {
	t.Helper()
	data, err := proto.Marshal(nil, &proto.Announcement{Run: "toy", Task: "Toy", Position: at,
		Need: proto.Need{Tickets: 2, Stamp: 1}})
	if err == nil {
		err = conn.Publish(proto.SubjectsOf("toy").Positions(), data)
	}
	if err != nil {
		t.Error(err)
	}
}

// Garbage instead of an announcement, a policy or an answer is survived.
func TestGarbage(t *testing.T) {
	server := startServer(t)
	conn := connect(t, server)
	store, err := conn.Store(proto.PolicyBucket)
	if err != nil {
		t.Fatal(err)
	}
	revision, err := store.Put(deadline(t), "toy", []byte("not a policy"), 0)
	if err != nil {
		t.Fatal(err)
	}
	there := make(chan struct{}, 1)
	discovery, err := conn.Subscribe(proto.DiscoverSubject, func(bus.Message) { there <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer discovery.Close()
	if err := conn.Flush(deadline(t)); err != nil {
		t.Fatal(err)
	}
	run(t, rollout.Config{Conn: connect(t, server), NewEnv: simtest.New})
	<-there
	p := rollouttest.Policy(0)
	p.Run, p.Epoch, p.Task = "toy", 1, "Toy"
	data, err := proto.Marshal(nil, p)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{})
	sub, err := conn.Subscribe("dbqpg.toy.1.ask.anyone", func(m bus.Message) {
		m.Respond([]byte("not a reply"))
		asked <- struct{}{}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, announcement := range []string{"", "not an announcement", "\xdf\xff\xff\xff\xff"} {
		if err := conn.Publish("dbqpg.toy.position", []byte(announcement)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Put(deadline(t), "toy", data, revision); err != nil {
		t.Fatal(err)
	}
	announce(t, conn, p.Position())
	<-asked // it gets a senseless answer
	go func() {
		for range asked {
		}
	}()
	sub.Close()
	close(asked)
	if _, err := newCollector(t, server).Collect(deadline(t),
		collect.Order{Policy: rollouttest.Policy(0), Steps: 100}); err != nil {
		t.Error(err)
	}
}

// A learner of another protocol version is an error that says so.
func TestOtherVersion(t *testing.T) {
	server := startServer(t)
	conn := connect(t, server)
	discovery, err := conn.Subscribe(proto.DiscoverSubject, func(bus.Message) {
		data, err := proto.Marshal(nil, &proto.Announcement{Run: "toy", Task: "Toy"})
		if err != nil {
			t.Error(err)
		}
		data[1]++ // the version
		conn.Publish(proto.SubjectsOf("toy").Positions(), data)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer discovery.Close()
	if err := conn.Flush(deadline(t)); err != nil {
		t.Fatal(err)
	}
	err = rollout.Run(deadline(t), rollout.Config{Conn: connect(t, server), Run: "toy", Slots: 1, NewEnv: simtest.New,
		Log: quiet})
	if !errors.Is(err, proto.ErrVersion) || !strings.Contains(err.Error(), "run the same release on both sides") {
		t.Errorf("another version: %v", err)
	}
}
