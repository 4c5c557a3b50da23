package serve

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/proto"
)

// learners holds the learners that this node has heard of as the leader of a term. Heartbeats are not in the log: a new
// leader hears of every learner within client.HeartbeatEvery.
type learners struct {
	mu   sync.Mutex
	term uint64
	seen []client.Learner // the one silent longest first
}

// in returns the learners heard of in a term. The caller holds mu.
func (l *learners) in(term uint64) []client.Learner {
	if l.term != term {
		l.term, l.seen = term, nil
	}
	return l.seen
}

// heartbeat notes that a learner is alive, or that it leaves, which ends its draining.
func (a *api) heartbeat(ctx context.Context, h client.Heartbeat) error {
	err := proto.CheckRun(h.Learner)
	if err == nil && h.Run != "" {
		err = proto.CheckRun(h.Run)
	}
	if err != nil || h.Slots < 0 {
		return client.Errorf(registry.Invalid, "not a heartbeat: it has an invalid name or fewer than 0 actors")
	}
	leaves := false
	err = a.Read(ctx, func(s *registry.State) {
		leaves = h.Gone && s.IsDrained(h.Learner) != nil
		a.learners.note(a.Status().Term, h, a.Time(s))
	})
	if err == nil && leaves {
		_, err = a.Propose(ctx, registry.Command{Drain: &registry.Drain{Learner: h.Learner, Off: true}})
	}
	return err
}

func (l *learners) note(term uint64, h client.Heartbeat, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen = slices.DeleteFunc(l.in(term), func(v client.Learner) bool {
		return v.Name == h.Learner || now.Sub(v.At) > client.SeenFor
	})
	if h.Gone {
		return
	}
	if len(l.seen) == client.MaxSeen {
		l.seen = slices.Delete(l.seen, 0, 1)
	}
	l.seen = append(l.seen, client.Learner{Name: h.Learner, Run: h.Run, Slots: h.Slots, At: now})
}

// learnersIn lists the learners that this node has heard of, if it leads.
func (a *api) learnersIn(s *registry.State) *client.Seen {
	a.learners.mu.Lock()
	seen := &client.Seen{Now: a.Time(s), Seen: append([]client.Learner{}, a.learners.in(a.Status().Term)...)}
	a.learners.mu.Unlock()
	for i := range seen.Seen {
		v := &seen.Seen[i]
		v.Drained = s.IsDrained(v.Name) != nil
		v.Silent = seen.Now.Sub(v.At) > client.SilentAfter || a.hasLost(s.Run(v.Run), v, seen.Now)
	}
	return seen
}

// hasLost reports whether a learner no longer holds the run that its last heartbeat named, nil for none: a learner that
// gives a run up says so.
func (a *api) hasLost(run *registry.Run, v *client.Learner, now time.Time) bool {
	if run == nil || run.Lease == nil {
		return false
	}
	lease := a.leases.now(run, now).Lease
	return lease.Lost || lease.Learner != v.Name
}

// knows reports whether a learner has been heard of or holds a run.
func (a *api) knows(s *registry.State, learner string) bool {
	return slices.ContainsFunc(a.learnersIn(s).Seen, func(v client.Learner) bool { return v.Name == learner }) ||
		slices.ContainsFunc(s.Runs, func(r registry.Run) bool { return r.Lease != nil && r.Lease.Learner == learner })
}

// drain keeps runs from a learner that is known.
func (a *api) drain(ctx context.Context, c registry.Command) (registry.Response, error) {
	known := true
	err := a.Read(ctx, func(s *registry.State) {
		known = c.Drain.Off || s.Answered(c.Request) || a.knows(s, c.Drain.Learner)
	})
	switch {
	case err != nil:
		return registry.Response{}, err
	case !known:
		return registry.Response{}, client.Errorf(registry.NotFound, "there is no learner called %s", c.Drain.Learner)
	}
	return a.Propose(ctx, c)
}
