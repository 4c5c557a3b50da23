package serve

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
)

// leases holds the renewals of leases that this node has accepted as the leader. They are not in the log, and cost no
// disk a sync: a new leader's first command renews all leases for their full terms, so nothing is lost with them. A
// lease in the registry may therefore have expired although its holder is well, and Take is proposed for a run known to
// be free.
type leases struct {
	taking  chan struct{} // holds an element from the choice of a Take's run until it is taken
	mu      sync.Mutex
	renewed map[registry.Hold]renewal
}

func newLeases() leases {
	return leases{taking: make(chan struct{}, 1), renewed: map[registry.Hold]renewal{}}
}

// renewal is a lease's latest expiry and term.
type renewal struct {
	expires time.Time
	ttl     float64
}

// now returns a run with its lease as renewed. A lease that has expired is marked as lost.
func (l *leases) now(run *registry.Run, now time.Time) registry.Run {
	current := *run
	if run.Lease == nil {
		return current
	}
	lease := *run.Lease
	l.mu.Lock()
	if r := l.renewed[registry.Hold{Run: run.Name, Epoch: run.Epoch}]; r.expires.After(lease.Expires) {
		lease.Expires, lease.TTL = r.expires, r.ttl
	}
	l.mu.Unlock()
	lease.Lost = !lease.Expires.After(now)
	current.Lease = &lease
	return current
}

// renew renews a lease.
func (a *api) renew(ctx context.Context, r client.Renewal) (*registry.Run, error) {
	if refusal := registry.CheckTTL(r.TTL); refusal != nil {
		return nil, refused(refusal)
	}
	var current registry.Run
	var refusal *registry.Refusal
	err := a.Read(ctx, func(s *registry.State) {
		var run *registry.Run
		if run, refusal = r.Held(s); refusal != nil {
			return
		}
		now := a.Time(s)
		a.leases.mu.Lock()
		a.leases.renewed[r.Hold] = renewal{now.Add(registry.Seconds(r.TTL)), r.TTL}
		a.leases.mu.Unlock()
		current = a.leases.now(run, now)
	})
	if err == nil && refusal != nil {
		err = refused(refusal)
	}
	return &current, err
}

// refused converts a refusal to its form on the wire.
func refused(r *registry.Refusal) error { return client.Errorf(r.Code, "%s", r.Message) }

// take leases the first run of the highest priority that is free by the renewals too. A request that was answered
// before gets the same answer.
func (a *api) take(ctx context.Context, c registry.Command) (registry.Response, error) {
	select {
	case a.leases.taking <- struct{}{}:
		defer func() { <-a.leases.taking }()
	case <-ctx.Done():
		return registry.Response{}, ctx.Err()
	}
	wanted, nothing := *c.Take, true
	refusal := registry.ErrNothingNow
	err := a.Read(ctx, func(s *registry.State) {
		if wanted.Run != "" && s.Run(wanted.Run) == nil || s.Answered(c.Request) {
			nothing = false
			return
		}
		if drained := s.IsDrained(wanted.Learner); drained != nil {
			refusal = drained
			return
		}
		now := a.Time(s)
		a.leases.forget(now)
		priority := 0
		for i := range s.Runs {
			if only := c.Take.Run; only != "" && s.Runs[i].Name != only || !nothing && s.Runs[i].Priority <= priority {
				continue
			}
			if run := a.leases.now(&s.Runs[i], now); run.Free(now) {
				wanted.Run, priority, nothing = run.Name, run.Priority, false
			}
		}
	})
	if err != nil || nothing {
		return registry.Response{Refusal: refusal}, err
	}
	c.Take = &wanted
	return a.Propose(ctx, c)
}

// forget drops the renewals that have expired.
func (l *leases) forget(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.renewed, func(_ registry.Hold, r renewal) bool { return !r.expires.After(now) })
}
