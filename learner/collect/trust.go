package collect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
	"github.com/dbqpg/dbqpg/internal/rollout"
	"github.com/dbqpg/dbqpg/proto"
)

const (
	// auditShare is the share of the actors' results that the learner compares with its own.
	auditShare = 0.01
	// maxAudits bounds the audits that wait, so that a learner which cannot keep up makes fewer.
	maxAudits = 8
	// maxTries is how often the learner plays a failing ticket whose environment is not deterministic.
	maxTries = 3
	// maxInstances is the number of actors that are shut out before their key is.
	maxInstances = 3
	// maxActors bounds the actors that are remembered.
	maxActors = 4096
	// strike is the cost of a ticket that an actor lets lapse or fails. One that it returns costs 1, as much as an
	// episode pays back. maxStrikes bounds the sum.
	strike, maxStrikes = 8, 6 * 8
)

// trust is what is known of actors, by the name in their slots, which begins with their key if they have one. Names cost
// nothing: so those of a key that have not sent an episode yet have one standing, under the key's name, or "".
type trust struct {
	standings map[string]*standing
	shut      map[string]string // reasons of refusal; of names and of keys
}

// standing is an actor's record.
type standing struct {
	since   uint64    // the batch of the first episode
	strikes int       // for tickets not played, less the episodes since
	until   time.Time // the actor is issued no ticket before
}

// keyOf returns the key of an actor, "" if it has none.
func keyOf(actor string) string {
	key, _, found := strings.Cut(actor, " ")
	if !found {
		return ""
	}
	return key
}

// of returns the standing of an actor.
func (t *trust) of(actor string) *standing {
	s := t.standings[actor]
	if s != nil {
		return s
	}
	key := keyOf(actor)
	if s = t.standings[key]; s == nil {
		s = new(standing)
		remember(t.standings, key, s)
	}
	return s
}

// refusal returns why an actor is shut out, "" if it is not.
func (t *trust) refusal(actor string) string {
	if reason := t.shut[actor]; reason != "" {
		return reason
	}
	return t.shut[keyOf(actor)]
}

// earned notes an actor's episode of a batch.
func (t *trust) earned(actor string, batch uint64) {
	s := t.of(actor)
	s.strikes = max(0, s.strikes-1)
	if s.strikes < strike {
		s.until = time.Time{}
	}
	if t.standings[actor] == nil {
		remember(t.standings, actor, &standing{since: batch})
	}
}

// remember adds to a map of bounded size.
func remember[T any](all map[string]T, name string, value T) {
	for other := range all {
		if len(all) < maxActors {
			break
		}
		delete(all, other)
	}
	all[name] = value
}

// blame notes that a slot has not played a ticket. With the first strike its actor is issued none for a lease; with the
// next, for two, four, and so on. Tickets that it held at the same time count as one.
func (d *dispatcher) blame(slot proto.Slot, cost int, reason string, now time.Time) {
	s := d.trust.of(slot.Actor)
	if slot == learner || now.Before(s.until) {
		return
	}
	if s.strikes = min(s.strikes+cost, maxStrikes); s.strikes >= strike {
		pause := d.lease << (s.strikes/strike - 1)
		s.until = now.Add(pause)
		d.config.Log.Warn("an actor does not play its tickets, and is issued none for a while",
			"actor", slot.Actor, "reason", reason, "for", pause)
	}
}

// replay is a ticket that the learner plays: for its result, or to compare it with an actor's.
type replay struct {
	of     *iteration
	ticket proto.Ticket
	start  *proto.Start
}

// able reports whether the learner can play.
func (d *dispatcher) able() bool { return d.config.NewEnv != nil && !d.current.unable }

// sample has an actor's result audited, or not; actors cannot know. The first one of an actor always is.
func (d *dispatcher) sample(t proto.Ticket, actor string) {
	share := d.config.audit
	if d.trust.standings[actor] == nil && share > 0 {
		share = 1
	}
	if d.config.Exact && d.able() && len(d.audits) < maxAudits && rand.Float64() < share {
		d.audits = append(d.audits, d.current.replay(t))
		d.plays = true
	}
}

func (it *iteration) replay(t proto.Ticket) *replay {
	return &replay{of: it, ticket: t, start: it.segments.start(t)}
}

// nextReplay returns the ticket that the learner plays next, nil for none. Audits and the tickets that it plays for want
// of actors take turns. It plays what others cannot, or have let lapse; and all while nobody else may.
func (d *dispatcher) nextReplay(now time.Time) *replay {
	d.turn = !d.turn
	if d.current != nil && d.able() && (d.turn || len(d.audits) == 0) {
		l := d.current.ledger
		alone := d.turnedAway && l.Idle()
		if t, ok := l.Take(now, alone); ok {
			if alone && !d.alone {
				d.config.Log.Warn("no actor may play, so that the learner itself does")
			}
			d.alone = alone
			return d.current.replay(t)
		}
	}
	if len(d.audits) == 0 {
		return nil
	}
	next := d.audits[0]
	d.audits = d.audits[1:]
	return next
}

// settle takes the learner's own result of a ticket, or its error.
func (d *dispatcher) settle(r *replay, data []byte, err error, now time.Time) {
	it := r.of
	var episodes []*proto.Episode
	var after Stream
	if err == nil {
		episodes, after, err = it.decode(&d.config, data, r.ticket)
	}
	e := it.ledger.find(r.ticket)
	switch {
	case errors.Is(err, rollout.ErrNoEnvironment), errors.Is(err, rollout.ErrStopped):
		d.complain("the learner cannot play a ticket itself", "ticket", r.ticket, "error", err)
		it.unable = true
		it.ledger.Release()
	case e.episodes != nil:
		d.stats.Audited++
		d.compare(it, r.ticket, episodes, after)
	case it != d.current:
	case err != nil:
		d.fail(r.ticket, e, err)
	default:
		d.own++
		if f := e.failure; f != nil {
			d.complain("an actor failed a ticket that the learner has played",
				"ticket", r.ticket, "slot", f.slot, "reason", f.reason)
			if d.config.Exact { // others' environments may fail now and then
				d.blame(f.slot, strike, "it fails tickets", now)
			}
		}
		d.enter(learner, r.ticket, episodes, after, now)
	}
	if it == d.current {
		d.wake()
	}
}

// compare reports whether the learner's own result of a ticket is the recorded one, bit by bit. If it is not, the actor
// that sent that is shut out.
func (d *dispatcher) compare(it *iteration, t proto.Ticket, episodes []*proto.Episode, after Stream) bool {
	e := it.ledger.find(t)
	if e == nil || e.episodes == nil {
		return false
	}
	for _, own := range episodes { // the engine's name is the actor's to tell, and no result
		own.Engine = e.episodes[0].Engine
	}
	same := reflect.DeepEqual(e.episodes, episodes) &&
		(it.segments == nil || reflect.DeepEqual(it.segments.after[t.Index], after))
	if !same && d.config.Exact && e.by != learner {
		d.shutOut(e.by, t)
	}
	return same
}

// fail ends the iteration because of a ticket that fails for the learner, unless it is a stream's that can start anew.
func (d *dispatcher) fail(t proto.Ticket, e *entry, err error) {
	e.drop(learner)
	d.plays = true
	f := e.failure
	if f == nil {
		f = &failure{slot: learner, reason: err.Error()}
		e.failure = f
	}
	if f.tries++; !d.config.Exact && f.tries < maxTries { // another environment of its process may be at fault
		return
	}
	if s := d.current.segments; s == nil || !s.restart(t) {
		if f.reason != err.Error() {
			err = fmt.Errorf("%w; for %v: %s", err, f.slot, f.reason)
		}
		signal(d.current.failed, fmt.Errorf("%v fails for the learner itself: %w", t, err))
		return
	}
	d.config.Log.Warn("an episode is given up, and its stream starts anew: nobody can go on from its state",
		"stream", t.Index, "error", err)
	*e = entry{} // its holders play from the old state
}

// shutOut refuses all further requests of an actor that sent another result of a ticket than the learner has, and
// discards its results for this batch. A key several of whose actors have been shut out is, too.
func (d *dispatcher) shutOut(by proto.Slot, t proto.Ticket) {
	who, key := by.Actor, keyOf(by.Actor)
	if d.trust.refusal(who) != "" {
		return
	}
	reason := fmt.Sprintf("it sent another result of %v than the learner's own replay has", t)
	remember(d.trust.shut, who, proto.Reason(fmt.Errorf("%s is shut out of this run: %s", who, reason)))
	others := 0
	for name := range d.trust.shut {
		if key != "" && strings.HasPrefix(name, key+" ") {
			others++
		}
	}
	if others >= maxInstances {
		who = key
		remember(d.trust.shut, who, fmt.Sprintf("%s is shut out of this run: %d of its actors were", who, others))
	}
	if err := d.trust.write(d.config.ShutOut); err != nil {
		d.config.Log.Warn("the list of blocked actors will be lost when this learner ends", "error", err)
	}
	discarded := 0
	if d.current != nil {
		discarded = d.current.ledger.Disown(func(slot proto.Slot) bool { return d.trust.refusal(slot.Actor) != "" })
		d.wake()
	}
	details := []any{"actor", by.Actor, "shut out", who, "reason", reason, "discarded", discarded}
	if s := d.trust.of(by.Actor); s.since < d.position.Batch && d.config.GoBack != nil {
		details = append(details, "to go back", d.config.GoBack(s.since, d.position.Batch-1))
	}
	d.config.Log.Error("an actor is shut out of this run", details...)
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
