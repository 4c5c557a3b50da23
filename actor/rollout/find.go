package rollout

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
)

// ErrNoRun says that no learner is at work on a server.
var ErrNoRun = errors.New("no learner is at work on this server")

// FindRun returns the one run that has a learner at work on the server. The error is ErrNoRun if there is none, and
// lists the runs if there are several.
func FindRun(ctx context.Context, conn *bus.Conn) (string, error) {
	store, err := conn.Store(proto.PolicyBucket)
	if err != nil {
		return "", err
	}
	keys, err := store.Keys(ctx)
	if err != nil {
		return "", err
	}
	var runs []string
	for _, run := range keys {
		alive, err := hasLearner(ctx, conn, store, run)
		if err != nil {
			return "", err
		}
		if alive {
			runs = append(runs, run)
		}
	}
	switch len(runs) {
	case 0:
		return "", ErrNoRun
	case 1:
		return runs[0], nil
	}
	return "", fmt.Errorf("%d learners are at work on this server: choose a run with --run, one of %s", len(runs), strings.Join(runs, " "))
}

// hasLearner reports whether somebody answers for a run. It gives back a ticket that it doesn't hold, which
// changes nothing.
func hasLearner(ctx context.Context, conn *bus.Conn, store *bus.Store, run string) (bool, error) {
	data, _, err := store.Get(ctx, run)
	if errors.Is(err, bus.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var p proto.Policy
	if err := proto.Unmarshal(data, &p); err != nil {
		return false, fmt.Errorf("run %s: %w", run, err)
	}
	hello := &proto.Return{Slot: proto.Slot{Actor: actorName()}, Ticket: proto.Ticket{Run: run, Epoch: p.Epoch}}
	request, err := proto.Marshal(nil, hello)
	if err != nil {
		return false, err
	}
	_, err = conn.Request(ctx, proto.SubjectsOf(run).Request(p.Epoch, hello), request)
	if errors.Is(err, bus.ErrNoResponder) {
		return false, nil
	}
	return err == nil, err
}
