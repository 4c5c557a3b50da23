package collect

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/dbqpg/dbqpg/proto"
)

const (
	// maxFailures is how often a ticket may fail. An episode is a function of its ticket, so one that failed this often
	// will always fail, unless the actors are at fault.
	maxFailures = 3
	// tail is the margin, in standard deviations, by which a batch must be expected to end before a useless ticket.
	tail = 1
	// maxActors bounds the number of names kept.
	maxActors = 4096
)

var (
	// errUnknown reports a ticket that was never issued.
	errUnknown = errors.New("no such ticket was issued")
	// errFailed reports a ticket that no actor can play.
	errFailed = errors.New("a ticket fails on every actor")
)

// Ledger records the tickets of one iteration: which are issued, which are completed, and whether they make a batch. It is
// plain data: the time is passed in.
type Ledger struct {
	first    proto.Ticket // ticket 0
	minSteps int
	lengths  Lengths // of future episodes
	lease    time.Duration

	entries  []entry
	prefix   int // tickets 0..prefix-1 are completed,
	steps    int // with this many steps
	received int // steps of all completed tickets
	open     int // tickets not completed

	asked map[string]time.Time // when each actor last asked for a ticket
	// proven are the actors that have sent a valid episode in any iteration. Actors choose their own names: an attacker may
	// have any number of names, but not a valid episode for each.
	proven map[string]bool
}

// entry is what the ledger knows about a ticket.
type entry struct {
	episodes []*proto.Episode // nil until completed: one, or those of a segment
	steps    int              // of these
	holder   proto.Slot
	expires  time.Time // zero if no slot holds it
	failures int
	failed   []string // the actors on which it failed, without repetition
}

// Lengths describes the lengths of episodes, in steps.
type Lengths struct {
	// Mean is positive. Spread is the standard deviation.
	Mean, Spread float64
}

// lengthsOf returns the statistics of given episodes.
func lengthsOf(episodes []*proto.Episode) Lengths {
	steps := make([]float64, len(episodes))
	for i, e := range episodes {
		steps[i] = float64(e.Steps())
	}
	if len(steps) == 1 {
		return Lengths{Mean: steps[0]}
	}
	mean, deviation := stat.MeanStdDev(steps, nil)
	return Lengths{Mean: mean, Spread: deviation}
}

// NewLedger returns the empty ledger of the iteration whose ticket 0 is first, for a batch of at least minSteps
// steps. Tickets are issued for the duration lease; lengths is used to predict uncompleted episodes when the ledger
// decides whether another ticket could still be needed. proven are the actors that have sent valid episodes before;
// the caller may add to them.
func NewLedger(first proto.Ticket, minSteps int, lengths Lengths, lease time.Duration, proven map[string]bool) *Ledger {
	return &Ledger{first: first, minSteps: minSteps, lengths: lengths, lease: lease, asked: make(map[string]time.Time), proven: proven}
}

// follow takes over when the proven actors asked in the iteration before: until their lease is over they are still there,
// though strangers may be the first to ask in this one.
func (l *Ledger) follow(asked map[string]time.Time) {
	for actor, at := range asked {
		if l.proven[actor] {
			l.asked[actor] = at
		}
	}
}

// Complete reports whether the batch is complete: the completed prefix holds minSteps steps.
func (l *Ledger) Complete() bool { return l.steps >= l.minSteps }

// Batch returns the episodes of the prefix in the order of their tickets.
func (l *Ledger) Batch() []*proto.Episode {
	var episodes []*proto.Episode
	for _, e := range l.entries[:l.prefix] {
		episodes = append(episodes, e.episodes...)
	}
	return episodes
}

// Record enters the episode of a ticket, or the episodes of its segment, and reports whether it is the first.
func (l *Ledger) Record(episodes ...*proto.Episode) (won bool, err error) {
	t, err := l.find(episodes[0].Ticket)
	if err != nil {
		return false, err
	}
	if t.episodes != nil || l.Complete() {
		return false, nil
	}
	t.episodes = episodes
	for _, e := range episodes {
		t.steps += e.Steps()
	}
	l.open--
	l.received += t.steps
	l.extend()
	return true, nil
}

// extend advances the prefix over completed tickets, but not further than the batch needs.
func (l *Ledger) extend() {
	for !l.Complete() && l.prefix < len(l.entries) && l.entries[l.prefix].episodes != nil {
		l.steps += l.entries[l.prefix].steps
		l.prefix++
	}
}

// Grant issues a ticket to the slot until now + lease: the first useful one that nobody holds. A slot holds at most one
// ticket, so one it held before is free again. A ticket that failed on the slot's actor is left to others, if there are
// any.
func (l *Ledger) Grant(slot proto.Slot, now time.Time) (t proto.Ticket, ok bool) {
	if _, known := l.asked[slot.Actor]; known || len(l.asked) < maxActors {
		l.asked[slot.Actor] = now
	}
	for i := l.prefix; i < len(l.entries); i++ {
		if e := &l.entries[i]; e.holder == slot {
			e.expires = time.Time{}
		}
	}
	for i := range l.useful {
		if i == len(l.entries) {
			l.entries = append(l.entries, entry{})
			l.open++
		}
		if e := &l.entries[i]; e.free(now) && !l.spared(e, slot, now) {
			e.holder, e.expires = slot, now.Add(l.lease)
			t = l.first
			t.Index = uint64(i)
			return t, true
		}
	}
	return proto.Ticket{}, false
}

// useful visits the useful tickets, as defined in the package's documentation: uncompleted ones that do not clearly lie
// beyond the end of the batch. The first uncompleted ticket is always useful. Beyond the issued tickets there may be new
// ones.
func (l *Ledger) useful(yield func(index int) bool) {
	if l.Complete() {
		return
	}
	before, others := float64(l.steps), 0.0
	for i := l.prefix; before-tail*l.lengths.Spread*math.Sqrt(others) < float64(l.minSteps); i++ {
		if i < len(l.entries) && l.entries[i].episodes != nil {
			before += float64(l.entries[i].steps)
			continue
		}
		if !yield(i) {
			return
		}
		before += l.lengths.Mean
		others++
	}
}

// Useful returns how many concurrent episodes are useful now: the issued ones and those that Grant would still issue.
func (l *Ledger) Useful() int {
	n := 0
	for range l.useful {
		n++
	}
	return n
}

// Need returns how many tickets Grant would issue now to slots that hold none.
func (l *Ledger) Need(now time.Time) int {
	n := 0
	for i := range l.useful {
		if i >= len(l.entries) || l.entries[i].free(now) {
			n++
		}
	}
	return n
}

// spared reports whether a ticket is left to others: it failed on the slot's actor before, or it failed or was never
// answered and the actor is not proven.
func (l *Ledger) spared(e *entry, slot proto.Slot, now time.Time) bool {
	lost := e.failures > 0 || e.holder != proto.Slot{} && e.holder != slot
	doubted := slices.Contains(e.failed, slot.Actor) || lost && !l.proven[slot.Actor] && l.anyProven(now)
	return doubted && l.others(e, now)
}

// others reports whether some actor that asked recently has not failed on a ticket. If there are proven ones, only they
// count.
func (l *Ledger) others(e *entry, now time.Time) bool {
	among := l.anyProven(now)
	for actor, at := range l.asked {
		if now.Sub(at) < l.lease && (l.proven[actor] || !among) && !slices.Contains(e.failed, actor) {
			return true
		}
	}
	return false
}

// anyProven reports whether some proven actor asked recently.
func (l *Ledger) anyProven(now time.Time) bool {
	for actor := range l.proven {
		if at, asked := l.asked[actor]; asked && now.Sub(at) < l.lease {
			return true
		}
	}
	return false
}

// free reports whether a ticket can be issued again.
func (e *entry) free(now time.Time) bool {
	return e.episodes == nil && !e.expires.After(now)
}

// Plenty reports whether the batch needs at least as many more tickets as are issued. If so, a slot may hold one that it
// cannot play at once; of the last tickets, none should wait while another slot is idle.
func (l *Ledger) Plenty() bool {
	return float64(l.received)+2*float64(l.open+1)*l.lengths.Mean <= float64(l.minSteps)
}

// Renew extends a slot's lease on a ticket that it is uploading.
func (l *Ledger) Renew(t proto.Ticket, slot proto.Slot, now time.Time) {
	if e, err := l.find(t); err == nil && e.holder == slot {
		e.expires = now.Add(l.lease)
	}
}

// Release takes a ticket back from the slot that holds it and will not play it. A reason means that the episode failed.
// Release returns an error that names the ticket if nobody can play it: if it failed often enough, on as many proven
// actors, or else on all that asked for tickets recently; if any of these are proven, only they count. So an attacker that
// makes its tickets fail, under however many names, cannot end the run while there are other actors.
func (l *Ledger) Release(t proto.Ticket, slot proto.Slot, reason string, now time.Time) error {
	e, err := l.find(t)
	if err != nil || e.episodes != nil || e.holder != slot {
		return nil
	}
	e.holder, e.expires = proto.Slot{}, time.Time{}
	if reason == "" {
		return nil
	}
	e.failures++
	if len(e.failed) < maxActors && !slices.Contains(e.failed, slot.Actor) {
		e.failed = append(e.failed, slot.Actor)
	}
	proven := 0
	for _, actor := range e.failed {
		if l.proven[actor] {
			proven++
		}
	}
	if e.failures < maxFailures || proven < maxFailures && l.others(e, now) {
		return nil
	}
	last := e.failed[max(0, len(e.failed)-maxFailures):]
	return fmt.Errorf("%w: %v, %d times, last played by %s; the last time: %s", errFailed, t, e.failures, strings.Join(last, ", "), reason)
}

// Retry forgets a ticket's failures.
func (l *Ledger) Retry(t proto.Ticket) {
	if e, err := l.find(t); err == nil {
		e.failures, e.failed = 0, nil
	}
}

// Wanted reports whether a ticket's episode would still be recorded.
func (l *Ledger) Wanted(t proto.Ticket) bool {
	e, err := l.find(t)
	return err == nil && e.episodes == nil && !l.Complete()
}

// Completed reports whether a ticket's episode is recorded.
func (l *Ledger) Completed(t proto.Ticket) bool {
	e, err := l.find(t)
	return err == nil && e.episodes != nil
}

// find returns the entry of an issued ticket, or errUnknown.
func (l *Ledger) find(t proto.Ticket) (*entry, error) {
	first := l.first
	first.Index = t.Index
	if t != first || t.Index >= uint64(len(l.entries)) {
		return nil, fmt.Errorf("%w: %v", errUnknown, t)
	}
	return &l.entries[t.Index], nil
}

// Wasted returns the number of received steps that are not part of the batch.
func (l *Ledger) Wasted() int { return l.received - l.steps }
