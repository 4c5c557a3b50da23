package collect

import (
	"errors"
	"fmt"
	"time"

	"github.com/dbqpg/dbqpg/proto"
)

// maxFailures is how often a ticket may fail. An episode is a function of its ticket, so what failed this often will
// always fail.
const maxFailures = 3

var (
	// errUnknown is a ticket that was never given out.
	errUnknown = errors.New("no such ticket was given out")
	// errFailed is a ticket that nobody can play.
	errFailed = errors.New("a ticket fails whoever plays it")
)

// Ledger is the truth about the tickets of one iteration: given out, completed, and whether they make a batch. It is
// plain data: the time is passed in.
type Ledger struct {
	first    proto.Ticket // ticket 0
	minSteps int
	expected float64
	lease    time.Duration

	entries  []entry
	prefix   int // tickets 0..prefix-1 are completed,
	steps    int // and hold this many steps
	received int // steps of all completed tickets
	open     int // tickets not completed
}

// entry is what the ledger knows of a ticket.
type entry struct {
	episode  *proto.Episode // nil until completed
	holder   proto.Slot
	expires  time.Time // zero if nobody holds it
	failures int
}

// NewLedger returns the empty ledger of the iteration whose ticket 0 is first. Its batch is to hold minSteps
// steps. Each ticket is given out for the duration of lease; an episode under way counts as the expected number of
// steps when the ledger decides whether another ticket could still be needed.
func NewLedger(first proto.Ticket, minSteps int, expected float64, lease time.Duration) *Ledger {
	return &Ledger{first: first, minSteps: minSteps, expected: expected, lease: lease}
}

// Complete reports whether the batch is complete: the completed prefix holds minSteps steps.
func (l *Ledger) Complete() bool { return l.steps >= l.minSteps }

// Batch returns the episodes of the prefix in the order of their tickets.
func (l *Ledger) Batch() []*proto.Episode {
	episodes := make([]*proto.Episode, l.prefix)
	for i := range episodes {
		episodes[i] = l.entries[i].episode
	}
	return episodes
}

// Record enters the episode of a ticket and reports whether it is the first.
func (l *Ledger) Record(e *proto.Episode) (won bool, err error) {
	t, err := l.find(e.Ticket)
	if err != nil {
		return false, err
	}
	if t.episode != nil || l.Complete() {
		return false, nil
	}
	t.episode = e
	l.open--
	l.received += e.Steps()
	l.extend()
	return true, nil
}

// extend moves the prefix on over completed tickets, and no further than the batch needs.
func (l *Ledger) extend() {
	for !l.Complete() && l.prefix < len(l.entries) && l.entries[l.prefix].episode != nil {
		l.steps += l.entries[l.prefix].episode.Steps()
		l.prefix++
	}
}

// Grant gives the slot a ticket until now + lease: the first one that nobody holds, or else a new one if the batch
// could still need it. A slot holds one ticket at most, so what it held before is free again.
func (l *Ledger) Grant(slot proto.Slot, now time.Time) (t proto.Ticket, ok bool) {
	if l.Complete() {
		return proto.Ticket{}, false
	}
	free := -1
	for i := len(l.entries) - 1; i >= l.prefix; i-- {
		e := &l.entries[i]
		if e.holder == slot {
			e.expires = time.Time{}
		}
		if e.free(now) {
			free = i
		}
	}
	if free < 0 {
		if l.enough() {
			return proto.Ticket{}, false
		}
		free = len(l.entries)
		l.entries = append(l.entries, entry{})
		l.open++
	}
	l.entries[free].holder = slot
	l.entries[free].expires = now.Add(l.lease)
	t = l.first
	t.Index = uint64(free)
	return t, true
}

// free reports whether a ticket can be given out again.
func (e *entry) free(now time.Time) bool {
	return e.episode == nil && !e.expires.After(now)
}

// enough reports whether the tickets given out make a batch if each one under way brings what is expected. If it
// brings less, more are given out then; if it brings more, the last ones were played in vain.
func (l *Ledger) enough() bool {
	return float64(l.received)+float64(l.open)*l.expected >= float64(l.minSteps)
}

// Plenty reports whether the batch needs as many tickets again as are under way. Until then a slot may have one that it
// cannot play at once; of the last ones, none is to wait while another slot has nothing to do.
func (l *Ledger) Plenty() bool {
	return float64(l.received)+2*float64(l.open+1)*l.expected <= float64(l.minSteps)
}

// Available reports whether Grant has a ticket for a slot that holds none.
func (l *Ledger) Available(now time.Time) bool {
	if l.Complete() {
		return false
	}
	for i := l.prefix; i < len(l.entries); i++ {
		if l.entries[i].free(now) {
			return true
		}
	}
	return !l.enough()
}

// Renew extends a slot's lease on a ticket that it is uploading.
func (l *Ledger) Renew(t proto.Ticket, slot proto.Slot, now time.Time) {
	if e, err := l.find(t); err == nil && e.holder == slot {
		e.expires = now.Add(l.lease)
	}
}

// Release takes a ticket back from the slot that holds it and will not play it. A reason says that the episode
// failed; a ticket that fails too often is an error that names it.
func (l *Ledger) Release(t proto.Ticket, slot proto.Slot, reason string) error {
	e, err := l.find(t)
	if err != nil || e.episode != nil || e.holder != slot {
		return nil
	}
	e.holder, e.expires = proto.Slot{}, time.Time{}
	if reason == "" {
		return nil
	}
	if e.failures++; e.failures >= maxFailures {
		return fmt.Errorf("%w: %v, %d times; the last was %v's: %s", errFailed, t, e.failures, slot, reason)
	}
	return nil
}

// Wanted reports whether a ticket's episode would still be recorded.
func (l *Ledger) Wanted(t proto.Ticket) bool {
	e, err := l.find(t)
	return err == nil && e.episode == nil && !l.Complete()
}

// find returns the entry of a ticket that was given out, or errUnknown.
func (l *Ledger) find(t proto.Ticket) (*entry, error) {
	first := l.first
	first.Index = t.Index
	if t != first || t.Index >= uint64(len(l.entries)) {
		return nil, fmt.Errorf("%w: %v", errUnknown, t)
	}
	return &l.entries[t.Index], nil
}

// Wasted returns how many steps were received that are not part of the batch.
func (l *Ledger) Wasted() int { return l.received - l.steps }
