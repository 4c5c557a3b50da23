package collect_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"reflect"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dbqpg/dbqpg/internal/natsserver"
	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/rollout"
	"github.com/dbqpg/dbqpg/internal/rollout/rollouttest"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/simtest"
)

func TestMain(m *testing.M) {
	if helper := os.Getenv(helperVariable); helper != "" {
		os.Exit(runHelper(helper))
	}
	goleak.VerifyTestMain(m)
}

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
	server    *natsserver.Server
	conn      *bus.Conn
	collector *collect.Collector
}

func newLab(t testing.TB, change ...func(*collect.Config)) *lab {
	t.Helper()
	server, err := natsserver.Start(natsserver.Config{Log: quiet})
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
	config := collect.Config{Run: "toy", Epoch: 1, Seed: seed, Task: simtest.Spec, Log: quiet}
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
	b, err := l.collector.Collect(deadline(l.t), collect.Order{Policy: rollouttest.Policy(iteration), Steps: minSteps})
	if err != nil {
		l.t.Fatal(err)
	}
	return b
}

// play plays one ticket alone, without network.
func play(t testing.TB, ticket proto.Ticket) *proto.Episode {
	t.Helper()
	p := rollouttest.Policy(ticket.Batch)
	shape := policy.Shape{Observation: simtest.Spec.ObservationDim, Action: simtest.Spec.ActionDim, Hidden: p.Hidden}
	actor, err := policy.NewActor(shape, p.Params, policy.Normalizer{Mean: p.Mean, Std: p.Std, Clip: p.Clip})
	if err != nil {
		t.Fatal(err)
	}
	e, err := rollouttest.Play(context.Background(), &simtest.Toy{}, actor, ticket)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func ticket(iteration, index uint64) proto.Ticket {
	return proto.Ticket{Run: "toy", Epoch: 1, Batch: iteration, Index: index, Seed: seed}
}

// serialBatch is the slow twin: it plays one ticket after the other until there are enough steps.
func serialBatch(t testing.TB, iteration uint64) []*proto.Episode {
	var episodes []*proto.Episode
	for steps := 0; steps < minSteps; {
		e := play(t, ticket(iteration, uint64(len(episodes))))
		episodes = append(episodes, e)
		steps += e.Steps()
	}
	return episodes
}

// requireSerial fails unless the batch is bit-identical to that of a single sampler.
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

// wide is a task whose episodes take four chunks: 1,000 steps of 400 observations.
type wide struct{ steps int }

var wideSpec = sim.Spec{Name: "Wide", ObservationDim: 400, ActionDim: 1, FrameSkip: 1, TimeLimit: 1000}

func newWide(string) (sim.Env, error) { return new(wide), nil }

func (w *wide) Spec() sim.Spec { return wideSpec }
func (w *wide) Close() error   { return nil }

func (w *wide) Reset(rng *rand.Rand, observation []float64) error {
	for i := range observation {
		observation[i] = rng.Float64()
	}
	return nil
}

func (w *wide) Step(action, observation []float64) (float64, bool, error) {
	observation[w.steps%len(observation)] = action[0]
	w.steps++
	return action[0], false, nil
}

func widePolicy(iteration uint64) *proto.Policy {
	identity := policy.Identity(wideSpec.ObservationDim, 5)
	return &proto.Policy{Batch: iteration, Hidden: []int{1}, Params: make([]float64, 400+1+1+1+1), Mean: identity.Mean,
		Std: identity.Std, Clip: 5}
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
func (c *client) request(epoch uint64, m proto.Request) *proto.Reply {
	c.t.Helper()
	data, err := proto.Marshal(nil, m)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.raw(proto.SubjectsOf("toy").Request(epoch, m, c.conn.Member()), data)
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

// chunk returns the episode in one chunk that says it is t's.
func (c *client) chunk(t proto.Ticket, e *proto.Episode) *proto.Chunk {
	c.t.Helper()
	data, err := proto.Marshal(nil, e)
	if err != nil {
		c.t.Fatal(err)
	}
	return &proto.Chunk{Slot: c.slot, Ticket: t, Parts: 1, More: true, Data: data}
}
