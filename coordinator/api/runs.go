package api

import (
	"context"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
)

// runs answers a query, once there is a run that it is for if it waits. Hundreds may wait while dozens of runs change a
// second, so whoever waits looks at what has changed, and at all runs only when a lease may have run out.
func (a *API) runs(ctx context.Context, q client.Query) (*client.Runs, error) {
	if err := q.Check(); err != nil {
		return nil, &client.Error{Code: client.Malformed, Message: err.Error()}
	}
	if err := a.Read(ctx, func(*registry.State) {}); err != nil {
		return nil, err
	}
	s := &search{Query: q, until: time.Now().Add(q.Wait)}
	if !q.Free { // what is free need not have changed
		s.after = q.After
	}
	for {
		found, wait := s.at(a, time.Now())
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

// search is a query on its way to an answer.
type search struct {
	client.Query
	until time.Time // when it is answered whatever there is
	after uint64    // runs changed up to that index are no answer
	lapse time.Time // the first moment at which some of these may be free, zero if there is none
}

// at returns what there is now, and how long to wait, for changes too, if that is nothing.
func (s *search) at(a *API, now time.Time) (found *client.Runs, wait time.Duration) {
	if !s.lapse.IsZero() && !now.Before(s.lapse) {
		s.after, s.lapse = 0, time.Time{}
	}
	found = &client.Runs{Runs: []registry.Run{}}
	a.View(func(state *registry.State) {
		if state.Now.After(now) { // the clock of another node is ahead
			now = state.Now
		}
		for run := range state.ChangedSince(s.after) {
			if s.wants(run, now) {
				found.Runs = append(found.Runs, *run)
			}
		}
		found.Index = state.Changed
	})
	s.after = found.Index
	end := s.until
	if !s.lapse.IsZero() && s.lapse.Before(end) {
		end = s.lapse
	}
	if wait = time.Until(end); end != s.until {
		wait = max(wait, time.Millisecond)
	}
	return found, wait
}

// wants reports whether a run is one that the query is for. One that is not free yet may be later.
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
