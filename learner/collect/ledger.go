package collect

import (
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/dbqpg/dbqpg/proto"
)

const (
	// tail is the margin, in standard deviations, by which a batch must be expected to end before a useless ticket.
	tail = 1
	// leaseFactor is the length of a lease as a multiple of the time that a slot takes for the longest episode.
	leaseFactor = 4
)

// Ledger records the tickets of one iteration: which are issued, which are completed, and whether they make a batch.
// It is plain data: the time is passed in.
type Ledger struct {
	first    proto.Ticket // ticket 0
	minSteps int
	lengths  Lengths // of future episodes
	lease    time.Duration

	entries  []entry
	prefix   int       // tickets 0..prefix-1 are completed,
	steps    int       // with this many steps
	received int       // steps of all completed tickets
	open     int       // tickets not completed
	pace     []float64 // of each ticket that an actor completed: seconds a step, from its issue on
}

// entry is the state of a ticket.
type entry struct {
	episodes []*proto.Episode // nil until completed: one, or those of a segment
	steps    int              // of these
	by       proto.Slot       // whose they are
	holders  []holder         // slots that may still send them, the last one's lease running or not
	expires  time.Time        // the lease; zero if none is running, so that the ticket may be issued
	failure  *failure         // nil unless a slot could not play the ticket: then the learner alone does
}

// holder is a slot to which a ticket was issued.
type holder struct {
	proto.Slot
	since time.Time
}

// failure is a slot's report that a ticket cannot be played.
type failure struct {
	slot   proto.Slot
	reason string
	tries  int // of the learner, that have failed too
}

// learner is the slot of the learner itself; actors' have names.
var learner = proto.Slot{Number: 1}

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

// Record enters the episode of a ticket, or the episodes of its segment, as those of a slot. It reports whether it is the
// first.
func (l *Ledger) Record(by proto.Slot, now time.Time, episodes ...*proto.Episode) (won bool) {
	e := l.find(episodes[0].Ticket)
	if e == nil || e.episodes != nil || l.Complete() {
		return false
	}
	for _, episode := range episodes {
		e.steps += episode.Steps()
	}
	if i := e.holds(by); i >= 0 && by != learner {
		l.pace = append(l.pace, now.Sub(e.holders[i].since).Seconds()/float64(e.steps))
	}
	*e = entry{episodes: episodes, steps: e.steps, by: by}
	l.open--
	l.received += e.steps
	l.extend()
	return true
}

// extend advances the prefix over completed tickets, but not further than the batch needs.
func (l *Ledger) extend() {
	for !l.Complete() && l.prefix < len(l.entries) && l.entries[l.prefix].episodes != nil {
		l.steps += l.entries[l.prefix].steps
		l.prefix++
	}
}

// Grant issues a ticket to the slot: the one that it holds, under the same lease; or else the first useful one that
// nobody holds.
func (l *Ledger) Grant(slot proto.Slot, now time.Time) (t proto.Ticket, ok bool) {
	for i := l.prefix; i < len(l.entries); i++ {
		e := &l.entries[i]
		if n := e.holds(slot); n >= 0 && n == len(e.holders)-1 && !e.expires.IsZero() {
			return l.ticket(i), true
		}
		e.drop(slot)
	}
	return l.issue(slot, now, (*entry).available)
}

// ticket returns a ticket of the iteration.
func (l *Ledger) ticket(index int) proto.Ticket {
	t := l.first
	t.Index = uint64(index)
	return t
}

// Take issues a ticket to the learner: one that a slot failed, or whose lease has run out; or, if all is true, any.
func (l *Ledger) Take(now time.Time, all bool) (t proto.Ticket, ok bool) {
	return l.issue(learner, now, func(e *entry) bool {
		return e.expires.IsZero() && (all || e.failure != nil || len(e.holders) > 0)
	})
}

// issue issues the first useful ticket that is free, as the function says.
func (l *Ledger) issue(slot proto.Slot, now time.Time, free func(*entry) bool) (t proto.Ticket, ok bool) {
	for i := range l.useful {
		if i == len(l.entries) {
			if !free(new(entry)) {
				return t, false
			}
			l.entries = append(l.entries, entry{})
			l.open++
		}
		if e := &l.entries[i]; free(e) {
			e.drop(slot)
			e.holders, e.expires = append(e.holders, holder{slot, now}), now.Add(l.lease)
			return l.ticket(i), true
		}
	}
	return t, false
}

// Expire ends the leases that have run out, and returns their holders. The tickets may be issued again; the holders may
// still send their episodes.
func (l *Ledger) Expire(now time.Time) (late []proto.Slot) {
	for i := l.prefix; i < len(l.entries); i++ {
		if e := &l.entries[i]; !e.expires.IsZero() && !e.expires.After(now) {
			e.expires = time.Time{}
			late = append(late, e.holders[len(e.holders)-1].Slot)
		}
	}
	return late
}

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
func (l *Ledger) Need() int {
	n := 0
	for i := range l.useful {
		if i >= len(l.entries) || l.entries[i].available() {
			n++
		}
	}
	return n
}

// Idle reports whether no lease is running.
func (l *Ledger) Idle() bool {
	return !slices.ContainsFunc(l.entries, func(e entry) bool { return !e.expires.IsZero() })
}

// available reports whether a ticket can be issued.
func (e *entry) available() bool { return e.episodes == nil && e.failure == nil && e.expires.IsZero() }

// holds returns the slot's index among the holders, -1 if it is none.
func (e *entry) holds(slot proto.Slot) int {
	return slices.IndexFunc(e.holders, func(h holder) bool { return h.Slot == slot })
}

// drop takes the ticket from a slot, and reports whether it had it.
func (e *entry) drop(slot proto.Slot) bool {
	i := e.holds(slot)
	if i < 0 {
		return false
	}
	if e.holders = slices.Delete(e.holders, i, i+1); i == len(e.holders) {
		e.expires = time.Time{}
	}
	return true
}

// Plenty reports whether the batch needs at least as many more tickets as are issued. If so, a slot may hold one that
// it cannot play at once; of the last tickets, none should wait while another slot is idle.
func (l *Ledger) Plenty() bool {
	return float64(l.received)+2*float64(l.open+1)*l.lengths.Mean <= float64(l.minSteps)
}

// Wants reports whether a ticket's episode would be recorded if it came from a slot: the first of any slot to which the
// ticket was issued counts, however late.
func (l *Ledger) Wants(t proto.Ticket, slot proto.Slot) bool {
	e := l.find(t)
	return e != nil && e.holds(slot) >= 0 && !l.Complete()
}

// Return takes a ticket back from a slot, and reports whether the slot had it. If it says why it cannot be played, the
// learner alone is issued the ticket.
func (l *Ledger) Return(t proto.Ticket, slot proto.Slot, reason string) bool {
	e := l.find(t)
	if e == nil || !e.drop(slot) {
		return false
	}
	if reason != "" && e.failure == nil {
		e.failure = &failure{slot: slot, reason: reason}
	}
	return true
}

// Release takes the learner's tickets back, and all that slots failed: actors are issued them again.
func (l *Ledger) Release() {
	for i := range l.entries {
		l.entries[i].drop(learner)
		l.entries[i].failure = nil
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
		for _, h := range slices.Clone(e.holders) {
			if disowned(h.Slot) {
				e.drop(h.Slot)
			}
		}
		if e.episodes != nil && disowned(e.by) {
			discarded++
			l.open++
			l.received -= e.steps
			*e = entry{}
		}
	}
	l.extend()
	return discarded
}

// Completed reports whether a ticket's episode is recorded.
func (l *Ledger) Completed(t proto.Ticket) bool {
	e := l.find(t)
	return e != nil && e.episodes != nil
}

// find returns the entry of a ticket, nil if it was never issued.
func (l *Ledger) find(t proto.Ticket) *entry {
	if t.Index >= uint64(len(l.entries)) || t != l.ticket(int(t.Index)) {
		return nil
	}
	return &l.entries[t.Index]
}

// Wasted returns the number of received steps that are not part of the batch.
func (l *Ledger) Wasted() int { return l.received - l.steps }

// Lease returns the lease of later tickets of up to so many steps: [leaseFactor] times as long as most took, and within
// bounds; or the present one if no actor has completed a ticket.
func (l *Ledger) Lease(steps int, least, most time.Duration) time.Duration {
	if len(l.pace) == 0 {
		return l.lease
	}
	pace := slices.Sorted(slices.Values(l.pace))
	lease := time.Duration(leaseFactor * float64(steps) * pace[len(pace)/2] * float64(time.Second))
	return min(max(lease, least), most)
}
