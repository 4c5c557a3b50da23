package collect_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/internal/natsserver"
	"github.com/dbqpg/dbqpg/internal/rollout"
	"github.com/dbqpg/dbqpg/internal/rollout/rollouttest"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/simtest"
)

// Any number of actors and slots collects the same batches, bit for bit.
func TestBatchDoesNotDependOnActors(t *testing.T) {
	for _, actors := range [][]int{{1}, {2}, {1, 1, 1}, {5, 3}} {
		t.Run(fmt.Sprint(actors), func(t *testing.T) {
			l := newLab(t)
			for _, slots := range actors {
				l.actor(slots, simtest.New)
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

// Episodes of several chunks arrive whole, also where all slots send at the same time.
func TestLargeEpisodes(t *testing.T) {
	l := newLab(t, func(c *collect.Config) { c.Task = wideSpec })
	l.actor(8, newWide)
	b, err := l.collector.Collect(deadline(t), collect.Order{Policy: widePolicy(0), Steps: 8000})
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Episodes) != 8 || b.Stats.Wasted != 0 || b.Stats.Refused != 0 || b.Stats.Bytes < 8*1_600_000 {
		t.Errorf("%d episodes, %+v", len(b.Episodes), b.Stats)
	}
	for i, e := range b.Episodes {
		// The observation that the last action left behind, and the first one of the stream.
		last := e.Actions[999]
		first := float32(streams.New(seed, streams.Episode, 0, uint64(i)).Float64())
		if e.Ticket.Index != uint64(i) || e.Observations[0] != first || !slices.Contains(e.FinalObservation, last) {
			t.Errorf("episode %d is not that of its ticket", i)
		}
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
		done <- rollout.Run(ctx, rollout.Config{Conn: conn, Run: "toy", Slots: 2, NewEnv: simtest.New, Log: quiet})
	}()
	requireSerial(t, l.collect(0), 0)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// dying adds an actor that hangs at the steps of which hangs is true, and then loses its connection without a farewell;
// another takes over. What release returns is the first one's error, once it no longer hangs.
func (l *lab) dying(hangs func(steps int) bool) (release func() error) {
	playing, released := make(chan struct{}, 1), make(chan struct{})
	hang := func(string) (sim.Env, error) {
		return &simtest.Toy{BeforeStep: func(steps int) error {
			if !hangs(steps) {
				return nil
			}
			signalOnce(playing)
			<-released
			return errors.New("dead")
		}}, nil
	}
	conn := l.connect()
	died := make(chan error)
	go func() {
		died <- rollout.Run(context.Background(),
			rollout.Config{Conn: conn, Run: "toy", Slots: 2, NewEnv: hang, Log: quiet})
	}()
	go func() {
		<-playing
		conn.Close() // no farewell
		l.actor(1, simtest.New)
	}()
	return func() error {
		close(released)
		return <-died
	}
}

// An actor that dies in the middle of an episode costs no more than its lease.
func TestActorDies(t *testing.T) {
	l := newLab(t, func(c *collect.Config) { c.Lease = 200 * time.Millisecond })
	release := l.dying(func(int) bool { return true })
	requireSerial(t, l.collect(0), 0)
	if err := release(); !errors.Is(err, bus.ErrClosed) {
		t.Errorf("the actor without a connection: %v", err)
	}
}

// An actor that is told to stop gives its tickets back: nobody waits for their leases, which here never end.
func TestActorLeaves(t *testing.T) {
	l := newLab(t, func(c *collect.Config) { c.Lease = time.Hour })
	ctx, cancel := context.WithCancel(context.Background())
	quits := func(string) (sim.Env, error) {
		return &simtest.Toy{BeforeStep: func(int) error { cancel(); return nil }}, nil
	}
	conn := l.connect()
	left := make(chan error)
	go func() {
		left <- rollout.Run(ctx, rollout.Config{Conn: conn, Run: "toy", Slots: 3, NewEnv: quits, Log: quiet})
		l.actor(1, simtest.New)
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
		return &simtest.Toy{BeforeStep: func(int) error {
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
		again, err := natsserver.Start(natsserver.Config{Port: number, Log: quiet})
		if err != nil {
			t.Error(err)
			return
		}
		l.server = again
		close(release)
		// One that knows nothing needs the policy from the store, which the restart has emptied.
		l.actor(1, simtest.New)
	}()
	requireSerial(t, l.collect(0), 0)
	requireSerial(t, l.collect(1), 1)
}

// Once a batch is complete its iteration is over: between batches every answer says so, and there is nothing to do.
func TestBetweenBatches(t *testing.T) {
	l := newLab(t)
	stop := l.actor(2, simtest.New)
	c := l.client("watcher")
	expect := func(m proto.Request, status proto.Status, iteration uint64) {
		t.Helper()
		reply := c.request(1, m)
		if reply.Status != status || reply.Next != nil ||
			reply.Position != (proto.Position{Epoch: 1, Batch: iteration}) {
			t.Errorf("%T: %+v, want %v at iteration %d", m, reply, status, iteration)
		}
	}
	expect(&proto.Ask{Slot: c.slot}, proto.Wait, 0)
	l.collect(0)
	if err := stop(); err != nil {
		t.Error(err)
	}
	late := play(t, ticket(0, 0))
	expect(&proto.Ask{Slot: c.slot}, proto.Wait, 1)
	expect(&proto.Offer{Slot: c.slot, Ticket: late.Ticket, Size: 100}, proto.Stale, 1)
	expect(c.chunk(late.Ticket, late), proto.Stale, 1)
	expect(&proto.Return{Slot: c.slot, Ticket: late.Ticket, Reason: "late"}, proto.OK, 1)
}

// A learner that was replaced stops, and cannot overwrite its successor's policy.
func TestReplacedLearner(t *testing.T) {
	l := newLab(t)
	old := make(chan error)
	go func() {
		_, err := l.collector.Collect(deadline(t), collect.Order{Policy: rollouttest.Policy(0), Steps: minSteps})
		old <- err
	}()
	l.client("watcher").ask() // the old learner is at work
	conn := l.connect()
	if epoch, err := collect.NextEpoch(deadline(t), conn, "toy", 0); err == nil ||
		!strings.Contains(err.Error(), "--run-dir") {
		t.Fatalf("a second learner of the run: epoch %d, %v", epoch, err)
	}
	successor := l.newCollector(conn, func(c *collect.Config) { c.Epoch = 2 }) // as a worker's lease says
	l.actor(2, simtest.New)
	b, err := successor.Collect(deadline(t), collect.Order{Policy: rollouttest.Policy(0), Steps: minSteps})
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
	if _, err := l.collector.Collect(deadline(t),
		collect.Order{Policy: rollouttest.Policy(9), Steps: minSteps}); !errors.Is(err, collect.ErrSuperseded) {
		t.Errorf("the old learner, again: %v", err)
	}
	l.collector.Close()
	successor.Close()
	if epoch, err := collect.NextEpoch(deadline(t), conn, "toy", 0); epoch != 3 || err != nil {
		t.Errorf("once they are gone, the next epoch is %d, %v", epoch, err)
	}
}

// Two learners of the same epoch don't overwrite each other's policies either.
func TestSameEpochTwice(t *testing.T) {
	l := newLab(t)
	l.actor(1, simtest.New)
	l.collect(0)
	other := l.newCollector(l.connect())
	p := rollouttest.Policy(0)
	p.Params[0]++
	if _, err := other.Collect(deadline(t), collect.Order{Policy: p, Steps: minSteps}); !errors.Is(err,
		collect.ErrSuperseded) {
		t.Errorf("another policy under the same epoch and iteration: %v", err)
	}
}

// A batch that is cancelled can be collected again, and is the same.
func TestCancel(t *testing.T) {
	l := newLab(t)
	ctx, cancel := context.WithCancel(deadline(t))
	cancelled := make(chan error)
	go func() {
		_, err := l.collector.Collect(ctx, collect.Order{Policy: rollouttest.Policy(0), Steps: minSteps})
		cancelled <- err
	}()
	l.client("watcher").ask()
	cancel()
	if err := <-cancelled; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if s := l.collector.Status(); s.Steps != 0 || s.Want != 0 {
		t.Errorf("after the end: %+v", s)
	}
	l.actor(1, simtest.New)
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
		if _, err := l.collector.Collect(deadline(t), collect.Order{Policy: p, Steps: minSteps}); err == nil ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A policy that an earlier release left under the run's name is replaced; one of a later release is not.
func TestPolicyOfAnotherRelease(t *testing.T) {
	for _, step := range []int{-1, 1} {
		l := newLab(t)
		store, err := l.conn.Store(proto.PolicyBucket)
		if err != nil {
			t.Fatal(err)
		}
		p := rollouttest.Policy(5)
		p.Run, p.Epoch, p.Task = "toy", 1, simtest.Spec.Name
		data, err := proto.Marshal(nil, p)
		if err != nil {
			t.Fatal(err)
		}
		if data[1] != proto.Version {
			t.Fatal("the version is not where it was")
		}
		data[1] += byte(step)
		if _, err := store.Put(deadline(t), "toy", data, 0); err != nil {
			t.Fatal(err)
		}
		if step > 0 {
			if _, err := l.collector.Collect(deadline(t),
				collect.Order{Policy: rollouttest.Policy(0), Steps: minSteps}); !errors.Is(err, proto.ErrVersion) {
				t.Errorf("a later release's: %v", err)
			}
			continue
		}
		if epoch, err := collect.NextEpoch(deadline(t), l.conn, "toy", 2); epoch != 2 || err != nil {
			t.Errorf("epoch %d, %v", epoch, err)
		}
		l.actor(1, simtest.New)
		requireSerial(t, l.collect(0), 0)
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
	if _, err := l.collector.Collect(deadline(t),
		collect.Order{Policy: rollouttest.Policy(0), Steps: minSteps}); !errors.Is(err, proto.ErrMalformed) {
		t.Errorf("Collect: %v", err)
	}
}
