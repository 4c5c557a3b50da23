package api

import (
	"context"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
)

// runs answers a query; if the query waits, once there is a matching run. Hundreds may wait while dozens of runs change
// per second, so a waiting query looks only at what has changed, and at all runs only when a lease may have expired.
func (a *API) runs(ctx context.Context, q client.Query) (*client.Runs, error) {
	if err := q.Check(); err != nil {
		return nil, &client.Error{Code: client.Malformed, Message: err.Error()}
	}
	known := true
	if err := a.Read(ctx, func(s *registry.State) { known = q.Page == "" || s.Run(q.Page) != nil }); err != nil {
		return nil, err
	}
	if !known {
		return nil, gone(q.Page)
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
	after uint64    // runs changed up to that index don't match
	lapse time.Time // the first moment at which one of these may become free, zero if there is none
}

// at returns the matching runs and, if there are none, how long to wait unless something changes.
func (s *search) at(a *API) (found *client.Runs, wait time.Duration) {
	found = &client.Runs{Runs: []registry.Run{}}
	a.View(func(state *registry.State) {
		now := a.Time(state)
		if !s.lapse.IsZero() && !now.Before(s.lapse) {
			s.after, s.lapse = 0, time.Time{}
		}
		turned := s.Page == "" || state.Run(s.Page) == nil // to the page
		for changed := range state.ChangedSince(s.after) {
			run := a.leases.now(changed, now)
			if turned && s.wants(&run, now) {
				if s.Limit > 0 && len(found.Runs) == s.Limit {
					found.Next = found.Runs[s.Limit-1].Name
					break
				}
				found.Runs = append(found.Runs, run)
			}
			turned = turned || run.Name == s.Page
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
