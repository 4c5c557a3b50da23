package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
)

const (
	// renewals is how often per term a lease is renewed.
	renewals = 3
	// graceTerms is for how many lease terms a worker continues to train without hearing from the coordinator.
	graceTerms = 10
)

// A lostError reports that the worker no longer has the run, and why.
type lostError struct{ why error }

func (e *lostError) Error() string {
	return fmt.Sprintf("the run is no longer this worker's: %v", e.why)
}
func (e *lostError) Unwrap() error { return e.why }

// silent returns the error for a coordinator that has not been heard from for that long.
func silent(grace time.Duration, err error) error {
	return &lostError{fmt.Errorf("the coordinator has not answered for %v: %w", grace, err)}
}

// lease is the worker's hold on a run.
type lease struct {
	registry.Hold
	home        string // the run's directory in the store
	text        *runLog
	coordinator *client.Client
	term        time.Duration
	log         *slog.Logger
}

// grace returns how long training continues without the coordinator.
func (l *lease) grace() time.Duration { return graceTerms * l.term }

// commit makes a commit. A *lostError says that the run is no longer this worker's, or that the coordinator is silent
// for too long.
func (l *lease) commit(ctx context.Context, c registry.Commit) error {
	ctx, cancel := context.WithTimeout(ctx, l.grace())
	defer cancel()
	_, err := l.coordinator.Commit(ctx, c)
	var refusal *registry.Refusal
	switch {
	case errors.As(err, &refusal):
		return &lostError{refusal}
	case err != nil:
		return silent(l.grace(), err)
	}
	return nil
}

// keep renews the lease until ctx is done. If the coordinator says that another worker has the run, or is silent for
// too long, it calls lose with a *lostError and returns.
func (l *lease) keep(ctx context.Context, lose context.CancelCauseFunc) {
	ticker := time.NewTicker(l.term / renewals)
	defer ticker.Stop()
	heard := time.Now()
	for warned := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		sent := time.Now()
		err := l.renew(ctx)
		var refusal *registry.Refusal
		switch {
		case err == nil:
			if warned {
				l.log.Info("the coordinator answers again", "after", time.Since(heard).Round(time.Millisecond))
			}
			heard, warned = sent, false
		case errors.As(err, &refusal):
			lose(&lostError{refusal})
			return
		case ctx.Err() != nil:
			return
		case time.Since(heard) >= l.grace():
			lose(silent(l.grace(), err))
			return
		case !warned:
			l.log.Warn("the coordinator does not answer; training goes on for a while",
				"while", l.grace(), "error", err)
			warned = true
		}
	}
}

func (l *lease) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.term)
	defer cancel()
	_, err := l.coordinator.Renew(ctx, client.Renewal{Hold: l.Hold, TTL: l.term.Seconds()})
	return err
}
