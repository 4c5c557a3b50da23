package serve

import (
	"context"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
)

// runs answers a query; one that waits, once there is a matching run. Hundreds may wait while dozens of runs change per
// second, so a waiting query reads only the runs that have changed, and all runs only when a lease may have expired.
func (a *api) runs(ctx context.Context, q client.Query) (*client.Runs, error) {
	if err := a.Read(ctx, func(*registry.State) {}); err != nil {
		return nil, err
	}
	s := &search{Query: q, until: time.Now().Add(q.Wait)}
	if !q.Free { // a free run need not have changed
		s.after = q.After
	}
	for {
		found, wait := s.at(a)
		if len(found.Runs) > 0 || wait <= 0 {
			return found, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-a.Changed(found.Index):
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
		timer.Stop()
	}
}

// search is a query in progress.
type search struct {
	client.Query
	until time.Time // when it is answered even without a match
	after uint64    // runs that last changed at or before this index don't match
	lapse time.Time // when the first of these may become free; zero for never
}

// at returns the matching runs and, if there are none, how long to wait unless something changes.
func (s *search) at(a *api) (found *client.Runs, wait time.Duration) {
	found = &client.Runs{Runs: []registry.Run{}}
	a.View(func(state *registry.State) {
		now := a.Time(state)
		if !s.lapse.IsZero() && !now.Before(s.lapse) {
			s.after, s.lapse = 0, time.Time{}
		}
		for _, changed := range state.ChangedSince(s.after) {
			if run := a.leases.now(changed, now); s.wants(&run, now) {
				found.Runs = append(found.Runs, run)
			}
		}
		found.Index, found.Now = state.Changed, now
	})
	s.after = found.Index
	wait = time.Until(s.until)
	if lapse := s.lapse.Sub(found.Now); !s.lapse.IsZero() && lapse < wait {
		wait = max(lapse, time.Millisecond)
	}
	return found, wait
}

// wants reports whether a run matches the query. One that is not free yet may match later.
func (s *search) wants(run *registry.Run, now time.Time) bool {
	if s.Experiment != "" && run.Experiment != s.Experiment || s.State != "" && run.State != s.State {
		return false
	}
	if !s.Free || run.Free(now) {
		return true
	}
	if run.Lease != nil && (s.lapse.IsZero() || run.Lease.Expires.Before(s.lapse)) {
		s.lapse = run.Lease.Expires
	}
	return false
}
