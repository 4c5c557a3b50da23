package rollout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
)

// FindRun waits until a learner is at work on the server and returns the name of its run. Several learners are an
// error that lists their runs.
func FindRun(ctx context.Context, conn *bus.Conn, log *slog.Logger) (string, error) {
	warnings := &bus.Rarely{Interval: warnInterval}
	for {
		runs, err := findRuns(ctx, conn)
		switch {
		case len(runs) == 1:
			return runs[0], nil
		case len(runs) > 1:
			return "", fmt.Errorf("%d learners are at work on this server: choose a run with --run, one of %s", len(runs), strings.Join(runs, " "))
		case ctx.Err() != nil:
			return "", fmt.Errorf("wait for a learner: %w", ctx.Err())
		case fatal(err):
			return "", err
		case warnings.Now():
			log.Info("waiting for a learner", "url", conn.URL(), "reason", err)
		}
		pause(ctx, nil, idleInterval)
	}
}

// errNoRun says that no learner is at work on a server.
var errNoRun = errors.New("no learner is at work on this server")

// findRuns returns the runs that have a learner at work, or an error why there is none.
func findRuns(ctx context.Context, conn *bus.Conn) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	store, err := conn.Store(proto.PolicyBucket)
	if err != nil {
		return nil, err
	}
	keys, err := store.Keys(ctx)
	if err != nil {
		return nil, err
	}
	var runs []string
	reason := errNoRun
	for _, run := range keys {
		if err := hasLearner(ctx, conn, store, run); err == nil {
			runs = append(runs, run)
		} else if !errors.Is(err, bus.ErrNoResponder) {
			reason = err
		}
	}
	if len(runs) == 0 {
		return nil, reason
	}
	return runs, nil
}

// hasLearner returns nil if somebody answers for a run. It gives back a ticket that it doesn't hold, which changes
// nothing.
func hasLearner(ctx context.Context, conn *bus.Conn, store *bus.Store, run string) error {
	data, _, err := store.Get(ctx, run)
	if err != nil {
		return err
	}
	var p proto.Policy
	if err := proto.Unmarshal(data, &p); err != nil {
		return fmt.Errorf("run %s: %w", run, err)
	}
	hello := &proto.Return{Slot: proto.Slot{Actor: actorName()}, Ticket: proto.Ticket{Run: p.Run, Epoch: p.Epoch}}
	request, err := proto.Marshal(nil, hello)
	if err != nil {
		return err
	}
	_, err = conn.Request(ctx, proto.SubjectsOf(p.Run).Request(p.Epoch, hello), request)
	return err
}
