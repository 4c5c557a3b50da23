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
	// forgetAfter is how long a learner may be silent before its run is forgotten: as long as it would keep a ticket
	// for a silent actor.
	forgetAfter = 10 * proto.AnnounceInterval
	// missAfter is the same if the server also reports that nobody receives the run's requests.
	missAfter = 3 * proto.AnnounceInterval
	// maxRuns and maxNeed bound the effect of hostile announcements.
	maxRuns = 4096
	maxNeed = 1 << 20
)

// runTable lists the runs that an actor may play for. It is plain data: time and randomness are passed in.
type runTable struct {
	accepts func(run string) bool
	log     *slog.Logger

	mu   sync.Mutex
	runs []*run        // sorted by name
	wake chan struct{} // closed and replaced when there is something to do or something has become stale
}

func newRunTable(accepts func(run string) bool, log *slog.Logger) *runTable {
	return &runTable{accepts: accepts, log: log, wake: make(chan struct{})}
}

// hear processes an announcement.
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
		r.shunned, r.stamp = nil, 0
	}
	t.update(r, a.Position, a.Need, now)
	if a.Need.Tickets > 0 || known.Before(a.Position) {
		t.rouse()
	}
}

// find returns the run of an announcement, adding it if it is new, or nil if there are too many. t.mu is held.
func (t *runTable) find(a *proto.Announcement, now time.Time) *run {
	i, found := slices.BinarySearchFunc(t.runs, a.Run,
		func(r *run, name string) int { return strings.Compare(r.name, name) })
	if found && t.runs[i].task == a.Task {
		return t.runs[i]
	}
	if found { // its learner trains another task under the name
		t.forget(t.runs[i])
	}
	if len(t.runs) == maxRuns {
		return nil
	}
	r := newRun(a)
	t.runs = slices.Insert(t.runs, i, r)
	t.log.Info("found a run", "run", r.name, "task", a.Task)
	return r
}

// update records a learner's position and need. t.mu is held.
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

// choose returns the run that a slot should ask for a ticket, or nil if none has any to issue. A run's probability is
// proportional to the number of tickets that nobody plays: runs that compete for few slots then get slots in proportion
// to what they can use, and slots that decide at the same time don't all choose alike. u is uniform in [0, 1).
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

// replied records a learner's reply. refused means that an Ask brought no ticket.
func (t *runTable) replied(r *run, reply *proto.Reply, refused bool, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	need := reply.Need
	if refused {
		need.Tickets = 0
	}
	t.update(r, reply.Position, need, now)
}

// missed records that a request had no reply: the run is not asked again until its learner announces itself.
func (t *runTable) missed(r *run, err error, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.need = 0
	if errors.Is(err, bus.ErrNoResponder) && now.Sub(r.heard) > missAfter {
		t.forget(r)
	}
}

// shun stops asking a run, for a reason, unless another learner takes it over.
func (t *runTable) shun(r *run, reason error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.shunned = reason
}

// expire forgets the runs whose learners are silent. It returns the number of runs that this actor may play for, and of
// the others, with the reason of one of these.
func (t *runTable) expire(now time.Time) (open, refused int, reason error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range slices.Clone(t.runs) {
		if now.Sub(r.heard) > forgetAfter {
			t.forget(r)
		} else if r.shunned != nil {
			refused, reason = refused+1, r.shunned
		}
	}
	return len(t.runs) - refused, refused, reason
}

// forget drops a run; its tickets become stale. t.mu is held.
func (t *runTable) forget(r *run) {
	if r.gone.Swap(true) {
		return
	}
	t.runs = slices.DeleteFunc(t.runs, func(other *run) bool { return other == r })
	t.log.Info("a run's learner is gone", "run", r.name)
	t.rouse()
}

// restored records that no announcements could arrive until now.
func (t *runTable) restored(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.runs {
		r.heard = now
	}
}

// rouse wakes the idle slots. t.mu is held.
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
