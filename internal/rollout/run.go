package rollout

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
)

// run is an actor's view of one run.
type run struct {
	name     string
	task     string
	subjects proto.Subjects
	position atomic.Pointer[proto.Position] // the learner's latest known position
	gone     atomic.Bool                    // forgotten: its learner has vanished

	reading sync.Mutex    // held while a slot reads a policy that others will want too
	newest  *proto.Policy // the newest policy read, nil before the first; under reading

	// Under the table's lock:
	need    uint64    // tickets that the learner would issue
	stamp   uint64    // of the message that says so
	heard   time.Time // when the learner was last heard from
	shunned error     // why this actor cannot play for it, nil if it can
}

func newRun(a *proto.Announcement) *run {
	r := &run{name: a.Run, task: a.Task, subjects: proto.SubjectsOf(a.Run)}
	position := a.Position
	r.position.Store(&position)
	return r
}

// open returns the number of this actor's slots that may ask for a ticket.
func (r *run) open() uint64 {
	if r.shunned != nil {
		return 0
	}
	return r.need
}

// advance moves the position forward to p, never back.
func (r *run) advance(p proto.Position) {
	for {
		known := r.position.Load()
		if !known.Before(p) || r.position.CompareAndSwap(known, &p) {
			return
		}
	}
}

// stale reports whether the learner no longer wants a ticket's episode.
func (r *run) stale(t proto.Ticket) bool {
	return r.gone.Load() || t.Position().Before(*r.position.Load())
}

// errGone reports a policy that the store no longer has.
var errGone = errors.New("the ticket's policy is not in the store")

// policyOf returns the policy to play a ticket under, or errGone if that is not the run's current one.
func (r *run) policyOf(ctx context.Context, store *bus.Store, t proto.Ticket) (*proto.Policy, error) {
	r.reading.Lock()
	defer r.reading.Unlock()
	if p := r.newest; p != nil && p.Position() == t.Position() {
		return p, nil
	}
	p, err := r.read(ctx, store)
	if err != nil {
		return nil, err
	}
	r.newest = p
	r.advance(p.Position())
	if p.Position() != t.Position() {
		return nil, fmt.Errorf("%w: the run's current one is of epoch %d, batch %d", errGone, p.Epoch, p.Batch)
	}
	return p, nil
}

// read fetches the run's current policy.
func (r *run) read(ctx context.Context, store *bus.Store) (*proto.Policy, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	data, _, err := store.Get(ctx, r.name)
	if err != nil {
		return nil, err
	}
	p := new(proto.Policy)
	if err := proto.Unmarshal(data, p); err != nil {
		return nil, err
	}
	if p.Run != r.name {
		return nil, fmt.Errorf("%w: the policy of run %s under the name %s", proto.ErrInvalid, p.Run, r.name)
	}
	return p, nil
}
