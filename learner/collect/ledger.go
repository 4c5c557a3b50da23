package collect

import (
	"errors"
	"fmt"
	"math"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/dbqpg/dbqpg/proto"
)

const (
	// maxLost is how often a ticket's lease may run out before the learner plays it itself.
	maxLost = 2
	// maxHold is how long a slot may hold a ticket, in leases, however often it renews.
	maxHold = 6
	// tail is the margin, in standard deviations, by which a batch must be expected to end before a useless ticket.
	tail = 1
)

// errUnknown reports a ticket that was never issued.
var errUnknown = errors.New("no such ticket was issued")

// Ledger records the tickets of one iteration: which are issued, which are completed, and whether they make a batch.
// It is plain data: the time is passed in.
type Ledger struct {
	first    proto.Ticket // ticket 0
	minSteps int
	lengths  Lengths // of future episodes
	lease    time.Duration

	entries  []entry
	prefix   int            // tickets 0..prefix-1 are completed,
	steps    int            // with this many steps
	received int            // steps of all completed tickets
	open     int            // tickets not completed
	lost     []proto.Ticket // whose leases have run out too often, since they were last taken from here
}

// entry is the state of a ticket.
type entry struct {
	episodes []*proto.Episode // nil until completed: one, or those of a segment
	steps    int              // of these
	holder   proto.Slot       // the slot that plays it, or has completed it
	granted  time.Time
	expires  time.Time // zero if no slot holds it
	times    int       // that its lease has run out
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
// decides whether another ticket could still be needed.
func NewLedger(first proto.Ticket, minSteps int, lengths Lengths, lease time.Duration) *Ledger {
	return &Ledger{first: first, minSteps: minSteps, lengths: lengths, lease: lease}
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

// Grant issues a ticket to the slot until now + lease: the first useful one that nobody holds. A slot holds at most
// one ticket, so one it held before is free again. A ticket that was never answered for too often is not issued again:
// it is among l.lost.
func (l *Ledger) Grant(slot proto.Slot, now time.Time) (t proto.Ticket, ok bool) {
	for i := l.prefix; i < len(l.entries); i++ {
		if e := &l.entries[i]; e.episodes == nil && e.holder == slot {
			e.free()
		}
	}
	for i := range l.useful {
		if i == len(l.entries) {
			l.entries = append(l.entries, entry{})
			l.open++
		}
		e := &l.entries[i]
		if !e.available(now) {
			continue
		}
		t = l.first
		t.Index = uint64(i)
		if e.holder != (proto.Slot{}) {
			if e.times++; e.times%maxLost == 0 {
				l.lost = append(l.lost, t)
				continue
			}
		}
		e.holder, e.granted, e.expires = slot, now, now.Add(l.lease)
		return t, true
	}
	return proto.Ticket{}, false
}

// Take has the learner hold a ticket, to play it itself, unless it is completed.
func (l *Ledger) Take(t proto.Ticket) bool {
	e, err := l.find(t)
	if err != nil || e.episodes != nil || l.Complete() {
		return false
	}
	e.holder, e.expires = learner, never
	return true
}

var (
	// learner is the slot of the learner itself; actors' have names.
	learner = proto.Slot{Number: 1}
	never   = time.Unix(1<<40, 0)
)

// useful visits the useful tickets, as defined in the package's documentation: uncompleted ones that do not clearly
// lie beyond the end of the batch. The first uncompleted ticket is always useful. Beyond the issued tickets there may
// be new ones.
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

// Useful returns the number of useful concurrent episodes: the issued tickets and those that Grant would still issue.
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
		if i >= len(l.entries) || l.entries[i].available(now) {
			n++
		}
	}
	return n
}

// available reports whether a ticket can be issued.
func (e *entry) available(now time.Time) bool { return e.episodes == nil && !e.expires.After(now) }

// free takes a ticket from its holder.
func (e *entry) free() { e.holder, e.expires = proto.Slot{}, time.Time{} }

// Plenty reports whether the batch needs at least as many more tickets as are issued. If so, a slot may hold one that
// it cannot play at once; of the last tickets, none should wait while another slot is idle.
func (l *Ledger) Plenty() bool {
	return float64(l.received)+2*float64(l.open+1)*l.lengths.Mean <= float64(l.minSteps)
}

// Renew extends a slot's lease on a ticket that it is uploading, up to maxHold leases in all.
func (l *Ledger) Renew(t proto.Ticket, slot proto.Slot, now time.Time) {
	if !l.Holds(t, slot) {
		return
	}
	e := &l.entries[t.Index]
	e.expires = now.Add(l.lease)
	if last := e.granted.Add(maxHold * l.lease); e.expires.After(last) {
		e.expires = last
	}
}

// Holds reports whether a slot is the one to which a ticket was issued last, and the ticket is not completed.
func (l *Ledger) Holds(t proto.Ticket, slot proto.Slot) bool {
	e, err := l.find(t)
	return err == nil && e.episodes == nil && e.holder == slot
}

// Release takes a ticket back from its holder, so that it is issued again.
func (l *Ledger) Release(t proto.Ticket) {
	if e, err := l.find(t); err == nil && e.episodes == nil {
		e.free()
	}
}

// Disown takes the tickets of disowned slots back and discards their results. It returns the number of discarded
// results, whose tickets are issued again; a complete batch stays as it is.
func (l *Ledger) Disown(disowned func(proto.Slot) bool) (discarded int) {
	if l.Complete() {
		return 0
	}
	l.prefix, l.steps = 0, 0
	for i := range l.entries {
		e := &l.entries[i]
		if !disowned(e.holder) {
			continue
		}
		if e.episodes != nil {
			discarded++
			l.open++
			l.received -= e.steps
		}
		*e = entry{times: e.times}
	}
	l.extend()
	return discarded
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
