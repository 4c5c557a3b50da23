package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/internal/failpoint"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/learner/session"
	"github.com/dbqpg/dbqpg/proto/bus"
)

// maxReason bounds the reason for a failure sent to the coordinator, in bytes.
const maxReason = 1000

// conclude reports the end of a run's training to the coordinator. It returns the error if it is this worker's fault.
func (w *worker) conclude(ctx, holding context.Context, l *lease, err error) error {
	var lost *lostError
	var loss *lossError
	switch {
	case errors.As(err, &lost):
		l.log.Warn("gave the run up; another worker continues it from the last commit", "because", lost.why)
		if errors.Is(lost.why, client.NotRunning) { // it was cancelled
			w.withdraw(ctx, l)
		}
		return nil
	case errors.Is(err, collect.ErrSuperseded):
		l.log.Warn("gave the run up; another worker continues it from the last commit", "because", err)
		w.release(ctx, l, "")
		return nil
	case ctx.Err() != nil:
		w.release(ctx, l, "")
		return nil
	case err == nil:
		failpoint.Hit("finishing")
		w.withdraw(ctx, l)
		_, err = w.coordinator.End(holding, registry.End{Hold: l.Hold, State: registry.Done})
		w.logOutcome(holding, l, "done", err)
		return nil
	case errors.As(err, &loss):
		l.log.Error("cannot go on with the run", "error", err)
		w.release(ctx, l, reason(err))
		return nil
	case ownFault(err):
		fault := ""
		if suspect(err) {
			fault = reason(err)
		}
		return fmt.Errorf("%w; %s", err, w.release(ctx, l, fault))
	}
	l.log.Error("the run failed", "error", err)
	w.withdraw(ctx, l)
	_, err = w.coordinator.End(holding, registry.End{Hold: l.Hold, State: registry.Failed, Reason: reason(err)})
	w.logOutcome(holding, l, "failed", err)
	return nil
}

// withdraw removes the policy of a run that has ended, or is about to.
func (w *worker) withdraw(ctx context.Context, l *lease) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if err := w.bus.Withdraw(ctx, l.Run, l.Epoch); err != nil && ctx.Err() == nil {
		l.log.Warn("the run's policy stays on the NATS server", "error", err)
	}
}

// release releases the run, even if the worker is being stopped, and returns the consequence as text. fault is a
// failure that the run may have caused, "" for none.
func (w *worker) release(ctx context.Context, l *lease, fault string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	run, err := w.coordinator.End(ctx, registry.End{Hold: l.Hold, State: registry.Queued, Reason: fault})
	if err == nil && run.State == registry.Failed {
		w.logOutcome(ctx, l, "failed", nil)
		return "the run has failed, for it has cost as many workers in a row as it may"
	}
	w.logOutcome(ctx, l, "given back", err)
	return "the run is given back, and another worker goes on from its last commit"
}

// logOutcome logs the report to the coordinator, or that it failed, in which case the lease will expire.
func (w *worker) logOutcome(ctx context.Context, l *lease, what string, err error) {
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // such as a renewal that was refused meanwhile
	}
	var refusal *registry.Refusal
	switch {
	case errors.As(err, &refusal):
		l.log.Warn("the run is no longer this worker's", "because", refusal)
		return
	case err != nil:
		l.log.Warn("the coordinator could not be told; it finds out when the lease expires",
			"the run is", what, "error", err)
		return
	}
	l.log.Info("the run is " + what)
}

// ownFault reports whether an error is the fault of this worker or its machine rather than the run's, so that another
// run could meet it as well. A run too large for the memory of such a GPU is itself at fault.
func ownFault(err error) bool {
	if device.TooLarge(err) {
		return false
	}
	for _, own := range []error{errStore, bus.ErrNoStore, bus.ErrClosed} {
		if errors.Is(err, own) {
			return true
		}
	}
	var (
		path   *fs.PathError
		number syscall.Errno
		failed *compute.Failure
		setup  session.SetupError
	)
	return errors.As(err, &path) || errors.As(err, &number) || errors.As(err, &failed) || errors.As(err, &setup)
}

// suspect reports whether the run may be to blame for a worker's error: its device failed during the run.
func suspect(err error) bool {
	var failed *compute.Failure
	var setup session.SetupError
	return errors.As(err, &failed) && !errors.As(err, &setup)
}

// reason returns an error as one line that the coordinator accepts.
func reason(err error) string {
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(err.Error(), "?"))
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "..."
	}
	return text
}
