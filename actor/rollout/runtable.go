package rollout

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
)

const (
	// forgetAfter is how long a learner may be silent before its run is forgotten: as long as it would keep a ticket for
	// an actor that is silent.
	forgetAfter = 10 * proto.AnnounceInterval
	// missAfter is the same where the server says, besides, that nobody takes the run's requests.
	missAfter = 3 * proto.AnnounceInterval
	// maxRuns and maxNeed bound what strangers can make an actor believe.
	maxRuns = 4096
	maxNeed = 1 << 20
)

// runTable is what an actor knows of the runs that it may play for. It is plain data: the time and chance are passed in.
type runTable struct {
	accepts func(run string) bool
	engine  string
	log     *slog.Logger

	mu   sync.Mutex
	runs []*run        // sorted by name
	wake chan struct{} // closed, and replaced, when there is something to do or something has become stale
}

func newRunTable(accepts func(run string) bool, engine string, log *slog.Logger) *runTable {
	return &runTable{accepts: accepts, engine: engine, log: log, wake: make(chan struct{})}
}

// hear takes in an announcement.
func (t *runTable) hear(a *proto.Announcement, now time.Time) {
	if !t.accepts(a.Run) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.find(a, now)
	if r == nil {
		return
	}
	known := *r.position.Load()
	if a.Position.Epoch > known.Epoch {
		r.shunned, r.stamp = false, 0
	}
	if a.Engine != "" && a.Engine != t.engine && !r.shunned {
		r.shunned = true
		t.log.Warn("not playing for a run that wants another engine", "run", r.name, "wants", a.Engine, "here", t.engine)
	}
	t.update(r, a.Position, a.Need, now)
	if a.Need.Tickets > 0 || known.Before(a.Position) {
		t.rouse()
	}
}

// find returns the run of an announcement, which is new if need be, or nil if there are too many. t.mu is held.
func (t *runTable) find(a *proto.Announcement, now time.Time) *run {
	i, found := slices.BinarySearchFunc(t.runs, a.Run, func(r *run, name string) int { return strings.Compare(r.name, name) })
	if found {
		return t.runs[i]
	}
	if len(t.runs) == maxRuns {
		return nil
	}
	r := newRun(a)
	t.runs = slices.Insert(t.runs, i, r)
	t.log.Info("found a run", "run", r.name, "task", a.Task)
	return r
}

// update takes in where a learner stands. t.mu is held.
func (t *runTable) update(r *run, at proto.Position, need proto.Need, now time.Time) {
	if at.Epoch < r.position.Load().Epoch { // from a learner that was replaced
		return
	}
	r.heard = now
	if need.Stamp > r.stamp {
		r.need, r.stamp = min(need.Tickets, maxNeed), need.Stamp
	}
	r.advance(at)
}

// choose returns the run that a slot is to ask for a ticket, or nil if none has any to give. Each run is as likely as it
// has tickets to give that nobody plays: then runs that compete for few slots have slots in proportion to what they can
// use, and slots that decide at the same time don't all decide alike. u is uniform in [0, 1).
func (t *runTable) choose(u float64) *run {
	t.mu.Lock()
	defer t.mu.Unlock()
	total := uint64(0)
	for _, r := range t.runs {
		total += r.open()
	}
	if total == 0 {
		return nil
	}
	at := min(uint64(u*float64(total)), total-1)
	for _, r := range t.runs {
		if at < r.open() {
			r.need-- // the ticket that will be asked for
			return r
		}
		at -= r.open()
	}
	panic("rollout: the runs' needs do not add up")
}

// replied takes in what a learner's answer says of its run. refused is the answer to an Ask that brings no ticket.
func (t *runTable) replied(r *run, reply *proto.Reply, refused bool, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	need := reply.Need
	if refused {
		need.Tickets = 0
	}
	t.update(r, reply.Position, need, now)
}

// missed takes in that a request had no answer: the run is not asked again before its learner has announced itself.
func (t *runTable) missed(r *run, err error, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.need = 0
	if errors.Is(err, bus.ErrNoResponder) && now.Sub(r.heard) > missAfter {
		t.forget(r)
	}
}

// shun has a run asked no more, unless another learner takes it over.
func (t *runTable) shun(r *run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.shunned = true
}

// expire forgets the runs whose learners are silent. It returns how many are left.
func (t *runTable) expire(now time.Time) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range slices.Clone(t.runs) {
		if now.Sub(r.heard) > forgetAfter {
			t.forget(r)
		}
	}
	return len(t.runs)
}

// forget drops a run; whatever is held of it is stale. t.mu is held.
func (t *runTable) forget(r *run) {
	if r.gone.Swap(true) {
		return
	}
	t.runs = slices.DeleteFunc(t.runs, func(other *run) bool { return other == r })
	t.log.Info("a run's learner is gone", "run", r.name)
	t.rouse()
}

// restored says that nothing could be heard until now.
func (t *runTable) restored(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.runs {
		r.heard = now
	}
}

// rouse wakes the slots that have nothing to do. t.mu is held.
func (t *runTable) rouse() {
	close(t.wake)
	t.wake = make(chan struct{})
}

// woken returns a channel that is closed when there is something to do.
func (t *runTable) woken() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.wake
}
