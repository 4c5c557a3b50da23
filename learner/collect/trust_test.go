package collect

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/internal/rollout"
	"github.com/dbqpg/dbqpg/internal/rollout/rollouttest"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/simtest"
)

// fixture is a dispatcher with a clock of its own, and the environment in which its learner and honest actors play.
type fixture struct {
	*dispatcher
	t        *testing.T
	now      time.Time
	log      strings.Builder
	replayer *rollout.Replayer
}

func newFixture(t *testing.T, audit float64) *fixture {
	f := &fixture{t: t, now: start, replayer: rollout.NewReplayer(simtest.New)}
	t.Cleanup(func() { f.replayer.Close() })
	config := Config{Run: "toy", Epoch: 1, Seed: 17, Task: simtest.Spec, NewEnv: simtest.New, Exact: true,
		Lease: 10 * time.Second, ShutOut: filepath.Join(t.TempDir(), "shut-out.json"),
		Log: slog.New(slog.NewTextHandler(&f.log, nil)), audit: audit}
	f.dispatcher = newDispatcher(config, map[string]string{})
	return f
}

// start begins a batch of so many steps.
func (f *fixture) start(number uint64, steps int) {
	p := rollouttest.Policy(number)
	p.Run, p.Epoch, p.Task = "toy", 1, simtest.Spec.Name
	f.begin(number, steps, nil, func() *proto.Policy { return p }, f.now)
}

// end ends a complete batch.
func (f *fixture) end() *Batch {
	f.t.Helper()
	if !f.current.ledger.Complete() {
		f.t.Fatal("the batch is not complete")
	}
	b := f.batch(f.current)
	f.current = nil
	return b
}

func (f *fixture) request(actor string, slot int, m proto.Request) proto.Reply {
	f.t.Helper()
	key, name, found := strings.Cut(actor, " ")
	if !found {
		key, name = proto.Anyone, actor
	}
	*m.Sender() = proto.Slot{Actor: name, Number: uint64(slot)}
	data, err := proto.Marshal(nil, m)
	if err != nil {
		f.t.Fatal(err)
	}
	return f.answer(proto.SubjectsOf("toy").Request(1, m, key), data, f.now)
}

// ask returns the ticket that a slot is issued, nil for none.
func (f *fixture) ask(actor string, slot int) *proto.Ticket {
	f.t.Helper()
	return f.request(actor, slot, new(proto.Ask)).Next
}

// send sends the episode of a ticket, with another reward if it is to lie.
func (f *fixture) send(actor string, slot int, t proto.Ticket, lie bool) proto.Reply {
	f.t.Helper()
	data, err := f.replayer.Replay(f.current.policy(), t, nil, func() bool { return false })
	e := new(proto.Episode)
	if err == nil {
		err = proto.Unmarshal(data, e)
	}
	e.PlayedOn("the engine of " + actor)
	if lie {
		e.Rewards[0]++
	}
	if err == nil {
		data, err = proto.Marshal(nil, e)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return f.request(actor, slot, &proto.Chunk{Ticket: t, Parts: 1, Data: data})
}

// play has the learner play a ticket, and reports whether it has one.
func (f *fixture) play() bool {
	f.t.Helper()
	next := f.nextReplay(f.now)
	if next == nil {
		return false
	}
	data, err := f.replayer.Replay(next.of.policy(), next.ticket, next.start, func() bool { return false })
	f.settle(next, data, err, f.now)
	return true
}

// later moves the clock.
func (f *fixture) later(d time.Duration) {
	f.now = f.now.Add(d)
	if f.current != nil {
		f.expire(f.now)
	}
}

// The episode of a lapsed ticket may come while the learner plays that ticket itself: then the two are compared, and only
// an actor that lies is shut out.
func TestLateEpisodeBesideTheLearners(t *testing.T) {
	for _, lie := range []bool{false, true} {
		f := newFixture(t, 0)
		f.start(1, 2000)
		ticket := f.ask("late", 0)
		f.later(f.lease)
		own := f.nextReplay(f.now)
		if own == nil || own.ticket != *ticket {
			t.Fatalf("the learner plays %+v, want %v", own, ticket)
		}
		if reply := f.send("late", 0, *ticket, lie); reply.Status != proto.OK {
			t.Fatalf("the late episode: %+v", reply)
		}
		data, err := f.replayer.Replay(own.of.policy(), own.ticket, own.start, func() bool { return false })
		f.settle(own, data, err, f.now)
		if refused := f.request("late", 0, new(proto.Ask)).Status == proto.Refused; refused != lie {
			t.Errorf("lie %v: refused %v", lie, refused)
		}
	}
}

// An actor that lies is shut out by its key and its name: others that share the key go on, until several of them have
// lied. A learner that starts again remembers it.
func TestActorIsShutOutBeforeItsKey(t *testing.T) {
	f := newFixture(t, 1)
	f.start(1, 2000)
	for i := range maxInstances {
		liar, honest := fmt.Sprint("KEY liar ", i), fmt.Sprint("KEY honest ", i)
		ticket := f.ask(honest, 0)
		if ticket == nil || f.send(honest, 0, *ticket, false).Status != proto.OK {
			t.Fatalf("%s is refused, since others with its key have lied", honest)
		}
		if ticket = f.ask(liar, 0); ticket == nil || f.send(liar, 0, *ticket, true).Status != proto.OK {
			t.Fatalf("%s is refused before it has lied", liar)
		}
		for f.play() {
		}
		if reply := f.request(liar, 1, new(proto.Ask)); reply.Status != proto.Refused ||
			!strings.Contains(reply.Reason, "it sent another result") {
			t.Errorf("%s is told %+v", liar, reply)
		}
	}
	shut, err := readShut(f.config.ShutOut)
	if err != nil {
		t.Fatal(err)
	}
	again := newDispatcher(f.config, shut)
	for actor, refused := range map[string]bool{
		"KEY honest 0": true, "KEY new": true, "OTHER liar 0": false, "liar 0": false,
	} {
		for _, d := range []*dispatcher{f.dispatcher, again} {
			if reason := d.trust.refusal(actor); (reason != "") != refused {
				t.Errorf("%s is told %q", actor, reason)
			}
		}
	}
	if discarded := f.current.ledger.received; discarded != 0 {
		t.Errorf("%d steps of the key's actors are left", discarded)
	}
}

// The first valid episode of a ticket's holder counts after its lease, too: episodes of 1.5 leases take as long, nothing
// is played twice, and later leases are longer. The learner needs no environment.
func TestEpisodesLongerThanTheirLease(t *testing.T) {
	const slots = 20
	f := newFixture(t, 0)
	f.config.NewEnv = nil
	late := 0
	for batch := range uint64(3) {
		f.start(batch, slots*simtest.Spec.TimeLimit)
		lease := f.lease
		playing := map[int]proto.Ticket{}
		begun := f.now
		for !f.current.ledger.Complete() {
			for slot := range slots {
				if _, busy := playing[slot]; busy {
					continue
				}
				if ticket := f.ask("a", slot); ticket != nil {
					playing[slot] = *ticket
				}
			}
			if batch == 0 {
				f.later(15 * time.Second)
			} else {
				f.later(10 * time.Second)
			}
			for slot := range slots {
				if ticket, busy := playing[slot]; busy && !f.current.ledger.Complete() {
					if reply := f.send("a", slot, ticket, false); reply.Status != proto.OK {
						t.Fatalf("an episode after %v, with a lease of %v: %+v", f.now.Sub(begun), lease, reply)
					}
					delete(playing, slot)
				}
			}
		}
		if batch == 0 {
			late = f.lapsed
		}
		if b := f.end(); b.Stats.Duplicate+b.Stats.Stale != 0 || f.lapsed != late || b.Stats.Elapsed > 5*lease {
			t.Errorf("batch %d: %d leases have run out; %+v", batch, f.lapsed, b.Stats)
		}
	}
}

// However many leases an actor lets lapse, its lies are found out: only audits count against the limit of audits.
func TestLapsedLeasesLeaveAuditsAlone(t *testing.T) {
	f := newFixture(t, 1)
	f.start(1, 5000)
	for slot := range 16 {
		if f.ask("KEY holder", slot) == nil {
			t.Fatal("no ticket to let lapse")
		}
	}
	f.later(time.Minute)
	forged := 0
	for slot := 0; slot < 66; slot++ {
		if ticket := f.ask("KEY forger", slot); ticket != nil &&
			f.send("KEY forger", slot, *ticket, true).Status == proto.OK {
			forged++
		}
		f.play()
		f.later(time.Second)
	}
	if f.trust.refusal("KEY forger") == "" || forged == 0 || forged > 3 {
		t.Errorf("%d forged episodes were accepted; shut out: %q", forged, f.trust.refusal("KEY forger"))
	}
	for f.play() {
	}
	for _, e := range f.current.ledger.entries {
		if e.by.Actor == "KEY forger" {
			t.Fatal("a forged episode is in the batch")
		}
	}
}

// An actor that asks for tickets and plays none is issued ever fewer, whatever names it takes, and delays the run ever
// less; those with another name or key that have played are not concerned.
func TestHolder(t *testing.T) {
	for _, names := range []int{1, 1000} {
		f := newFixture(t, 0)
		f.config.NewEnv = nil // so that the learner does not help
		const batches, slots, took = 40, 4, 50 * time.Millisecond
		held, begun := map[proto.Ticket]bool{}, f.now
		for batch := range uint64(batches) {
			f.start(batch, 10*simtest.Spec.TimeLimit)
			playing := map[int]proto.Ticket{}
			for !f.current.ledger.Complete() {
				if batch > 2 {
					for slot := range 16 {
						actor := fmt.Sprint("KEY holder ", (int(batch)*16+slot)%names)
						if ticket := f.ask(actor, slot); ticket != nil {
							held[*ticket] = true
						}
					}
				}
				for slot := range slots {
					if ticket, busy := playing[slot]; busy {
						f.send("KEY honest", slot, ticket, false)
						delete(playing, slot)
					}
					if f.current.ledger.Complete() {
						break
					}
					if ticket := f.ask("KEY honest", slot); ticket != nil {
						playing[slot] = *ticket
					}
				}
				f.later(took)
				if f.now.Sub(begun) > time.Minute {
					t.Fatalf("%d names: after a minute %d of %d batches are complete", names, batch, batches)
				}
			}
			f.end()
		}
		t.Logf("%d names: %d tickets held, %v for %d batches", names, len(held), f.now.Sub(begun), batches)
		if said := f.log.String(); len(held) == 0 || !strings.Contains(said, "a lease has run out") {
			t.Errorf("%d tickets were held; the log: %s", len(held), said)
		}
		if len(held) > 5*16 || f.now.Sub(begun) > 30*time.Second { // 10 s without a holder
			t.Errorf("%d names: %d tickets were held, %d batches took %v", names, len(held), batches, f.now.Sub(begun))
		}
	}
}

// While no actor may play, the learner does, and says so once; as soon as one may, it leaves the tickets to that.
func TestLearnerPlaysAlone(t *testing.T) {
	f := newFixture(t, 1)
	f.start(1, 500)
	if f.play() {
		t.Fatal("the learner plays although no actor was refused")
	}
	ticket := f.ask("liar", 0)
	f.send("liar", 0, *ticket, true)
	f.play()
	played := 0
	for batch := range uint64(3) {
		f.ask("liar", 0)
		if batch > 0 {
			f.start(1+batch, 500)
		}
		for !f.current.ledger.Complete() {
			if !f.play() {
				t.Fatal("the run stands still")
			}
		}
		if played += len(f.end().Episodes); f.own != played {
			t.Errorf("the learner has played %d of %d episodes", f.own, played)
		}
	}
	if n := strings.Count(f.log.String(), "no actor may play"); n != 1 {
		t.Errorf("it is said %d times: %s", n, &f.log)
	}
	f.start(4, 500)
	f.ask("liar", 0)
	if f.ask("honest", 0) == nil || f.play() {
		t.Error("the learner plays although an actor does")
	}
}

// A shut-out says since when the run has an actor's episodes, unless it is since the batch in progress.
func TestShutOutSaysHowToGoBack(t *testing.T) {
	f := newFixture(t, 0)
	f.config.GoBack = func(first, last uint64) string { return fmt.Sprint("before ", first, ", now ", last) }
	for batch := uint64(3); batch < 6; batch++ {
		f.start(batch, 40)
		for slot := 0; !f.current.ledger.Complete(); slot++ {
			ticket := f.ask("late", slot)
			f.send("late", slot, *ticket, batch == 5)
		}
		if batch == 5 {
			f.audits = append(f.audits, f.current.replay(proto.Ticket{Run: "toy", Epoch: 1, Batch: 5, Seed: 17}))
		}
		f.end()
	}
	f.play()
	if said := f.log.String(); !strings.Contains(said, "before 3, now 5") {
		t.Error(said)
	}
}

var _ sim.Saver = (*simtest.Toy)(nil)
