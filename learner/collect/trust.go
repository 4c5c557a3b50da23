package collect

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
	"github.com/dbqpg/dbqpg/internal/rollout"
	"github.com/dbqpg/dbqpg/proto"
)

const (
	// auditShare is the share of the tickets that the learner replays although nobody disputes them.
	auditShare = 0.01
	// maxAudits bounds the audits that wait, so that a learner which cannot keep up makes fewer.
	maxAudits = 8
	// maxFaults is how often an actor may wrongly say in a batch that a ticket fails, or spoil one, before it is shut
	// out.
	maxFaults = 3
)

// trust records which actors are blocked, and why. An episode is a function of its ticket, so the learner judges any
// case by replaying the ticket.
type trust struct {
	cases  []*ticketCase
	faults map[string]int    // of this batch, by accountable actor
	shut   map[string]string // reasons of refusal, by accountable actor
}

// ticketCase is a ticket that the learner will replay.
type ticketCase struct {
	of     *iteration
	ticket proto.Ticket
	start  *proto.Start
	slot   proto.Slot // that played it, the zero value if nobody did
	engine string     // on which
	sum    *sum       // of its result; nil: it is disputed whether the ticket can be played
	reason string     // why it is disputed
	tries  int        // that have failed
}

// sum identifies an encoded episode or segment.
type sum = [sha256.Size]byte

// accountable returns the name that answers for a slot: its key or, without credentials, its actor's name, of which
// anybody may have any number.
func accountable(slot proto.Slot) string {
	key, _, _ := strings.Cut(slot.Actor, " ")
	return key
}

// sample returns the sum of an encoded episode if it is to be audited, or nil. Actors cannot know.
func (d *dispatcher) sample(data []byte) *sum {
	if d.config.NewEnv == nil || !d.config.Exact || len(d.trust.cases) >= maxAudits ||
		rand.Float64() >= d.config.audit {
		return nil
	}
	s := sha256.Sum256(data)
	return &s
}

func (d *dispatcher) newCase(t proto.Ticket, slot proto.Slot, engine string, sum *sum) *ticketCase {
	start := d.current.segments.start(t)
	return &ticketCase{of: d.current, ticket: t, start: start, slot: slot, engine: engine, sum: sum}
}

// dispute reserves a ticket that a slot failed, for replay by the learner. A learner without environments issues it
// again.
func (d *dispatcher) dispute(t proto.Ticket, slot proto.Slot, reason string) {
	if l := d.current.ledger; slot != (proto.Slot{}) && !l.Holds(t, slot) {
		return
	} else if d.config.NewEnv == nil {
		l.Release(t)
	} else if l.Take(t) {
		c := d.newCase(t, slot, "", nil)
		c.reason = reason
		d.trust.cases = append(d.trust.cases, c)
	}
}

// open reports whether a case is still of interest: an audit always is.
func (d *dispatcher) open(c *ticketCase) bool {
	return c.sum != nil || d.current == c.of && d.current.ledger.Holds(c.ticket, learner)
}

// settle closes a case with the result of the learner's own replay, or its error.
func (d *dispatcher) settle(c *ticketCase, data []byte, err error, now time.Time) {
	switch {
	case errors.Is(err, rollout.ErrNoEnvironment) || errors.Is(err, rollout.ErrStopped):
		d.complain("a ticket could not be replayed", "ticket", c.ticket, "error", err)
		if c.sum == nil && d.open(c) {
			d.current.ledger.Release(c.ticket)
			d.wake(now)
		}
	case c.sum != nil:
		d.stats.Audited++
		if err != nil || sha256.Sum256(data) != *c.sum {
			d.shutOut(c, fmt.Sprintf("it sent another result of %v than the learner's own replay has", c.ticket), now)
		}
	case !d.open(c):
	case err != nil:
		d.fail(c, err, now)
	default:
		d.decide(c, data, now)
	}
}

// fail ends the iteration because of a ticket that fails for the learner, too, unless it is a stream's that can start
// anew.
func (d *dispatcher) fail(c *ticketCase, err error, now time.Time) {
	if c.tries++; !d.config.Exact && c.tries < maxFaults { // another environment of its process may be at fault
		d.trust.cases = append(d.trust.cases, c)
		return
	}
	if s := d.current.segments; s == nil || !s.restart(c.ticket) {
		signal(d.current.failed, fmt.Errorf("%w: %v from %v (%s), and for the learner itself: %w",
			errFailed, c.ticket, c.slot, c.reason, err))
		return
	}
	d.config.Log.Warn("an episode is given up, and its stream starts anew: nobody can go on from its state",
		"stream", c.ticket.Index, "error", err)
	d.current.ledger.Release(c.ticket)
	d.wake(now)
}

// errFailed reports a ticket that nobody can play.
var errFailed = errors.New("a ticket fails")

// decide enters the learner's own result of a disputed ticket, and counts the dispute against its sender.
func (d *dispatcher) decide(c *ticketCase, data []byte, now time.Time) {
	episodes, after, err := d.decode(data, c.ticket)
	if err != nil {
		d.fail(c, err, now)
		return
	}
	d.stats.Disputed++
	d.enter(c.ticket, episodes, after, now)
	if c.slot == (proto.Slot{}) {
		return
	}
	who := accountable(c.slot)
	d.complain("an actor failed a ticket that the learner has played",
		"ticket", c.ticket, "slot", c.slot, "reason", c.reason)
	if d.config.Exact && len(d.trust.faults) < maxActors { // others' environments may fail now and then
		d.trust.faults[who]++
	}
	if d.trust.faults[who] == maxFaults {
		d.shutOut(c, fmt.Sprintf("it failed %d tickets of batch %d that the learner has played; the last, %d, with: %s",
			maxFaults, c.ticket.Batch, c.ticket.Index, c.reason), now)
	}
}

// shutOut refuses all further requests of the actor accountable for a case, and discards its results for this batch.
func (d *dispatcher) shutOut(c *ticketCase, reason string, now time.Time) {
	who := accountable(c.slot)
	if d.trust.shut[who] != "" {
		return
	}
	for len(d.trust.shut) >= maxActors { // names, which cost nothing; there are not as many keys
		for name := range d.trust.shut {
			delete(d.trust.shut, name)
			break
		}
	}
	d.trust.shut[who] = fmt.Sprintf("%s is shut out of this run: %s", who, proto.Reason(errors.New(reason)))
	if err := d.trust.write(d.config.ShutOut); err != nil {
		d.config.Log.Warn("the list of blocked actors will be lost when this learner ends", "error", err)
	}
	discarded := 0
	if d.current != nil {
		discarded = d.current.ledger.Disown(func(slot proto.Slot) bool { return accountable(slot) == who })
		d.wake(now)
	}
	d.config.Log.Error("an actor is shut out of this run", "actor", c.slot.Actor, "accountable", who,
		"engine", c.engine, "reason", reason, "discarded", discarded,
		"batch", c.ticket.Batch, "current", d.current == c.of)
}

// readShut reads the list of blocked actors; a missing file means none.
func readShut(path string) (shut map[string]string, err error) {
	shut = map[string]string{}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return shut, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &shut)
	}
	if err != nil {
		return nil, fmt.Errorf("the list of blocked actors %s: %w; without the file, all are admitted", path, err)
	}
	return shut, nil
}

// write writes the list of blocked actors, unless path is "".
func (t *trust) write(path string) error {
	if path == "" {
		return nil
	}
	data, err := json.MarshalIndent(t.shut, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(path, append(data, '\n'))
}

// judge replays the tickets of cases, one at a time, until Close.
func (c *Collector) judge() {
	runtime.LockOSThread() // as the engine's threads are
	defer runtime.UnlockOSThread()
	replayer := rollout.NewReplayer(c.config.NewEnv)
	defer func() {
		if err := replayer.Close(); err != nil {
			c.config.Log.Warn("close an environment", "error", err)
		}
	}()
	var of *iteration
	policy := new(proto.Policy)
	for {
		select {
		case <-c.closing:
			return
		case <-c.disputed:
		}
		for next := c.nextCase(); next != nil; next = c.nextCase() {
			if next.of != of {
				of, policy = next.of, new(proto.Policy)
				if err := proto.Unmarshal(of.policy, policy); err != nil {
					panic(err) // it was encoded here
				}
			}
			data, err := replayer.Replay(policy, next.ticket, next.start, next.engine, c.stopReplay)
			c.mu.Lock()
			now := time.Now()
			c.dispatcher.settle(next, data, err, now)
			c.announceNews(now)
			c.mu.Unlock()
		}
	}
}

// nextCase returns the case to judge next, or nil.
func (c *Collector) nextCase() *ticketCase {
	c.mu.Lock()
	defer c.mu.Unlock()
	for cases := &c.dispatcher.trust.cases; len(*cases) > 0; {
		next := (*cases)[0]
		*cases = (*cases)[1:]
		if c.dispatcher.open(next) {
			return next
		}
	}
	return nil
}

// stopReplay reports whether the collector is closing.
func (c *Collector) stopReplay() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}
