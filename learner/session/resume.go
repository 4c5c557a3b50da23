package session

import (
	"context"

	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/learner/collect"
	"github.com/dbqpg/dbqpg/learner/device"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/learner/train"
)

// begin sets r to the state from which it resumes, in the lease's epoch, or without a lease in an epoch above that of
// any earlier learner.
func (s *session) begin(ctx context.Context, r *train.Run, state *runs.State) (epoch uint64, err error) {
	if s.Lease != nil {
		epoch = s.Lease.Epoch
	} else {
		atLeast := uint64(1)
		if state != nil {
			atLeast = state.Epoch + 1
		}
		if epoch, err = collect.NextEpoch(ctx, s.conn, s.name, atLeast); err != nil {
			return 0, err
		}
	}
	switch {
	case state != nil:
		return epoch, r.Resume(state, epoch)
	case s.from != nil:
		s.Log.Info("starting from a trained policy", "checkpoint", s.from.Location, "sha256", s.from.SHA256)
		return epoch, r.StartFrom(s.from, epoch)
	}
	r.Start(epoch)
	return epoch, nil
}

// source returns the checkpoint that the run starts from, nil for none. A run that has a checkpoint of its own no
// longer needs it.
func (s *session) source(ctx context.Context) (c *runs.Checkpoint, err error) {
	if s.Settings.From == "" {
		return nil, nil
	}
	_, begun, err := runs.Newest(runs.Checkpoints(s.Settings.RunDir))
	if err != nil || begun && !s.Settings.Force {
		return nil, err
	}
	if s.Lease != nil {
		c, err = runs.Location{Store: s.Lease.Store, Key: s.Settings.From}.Open(ctx, "")
	} else {
		c, err = runs.OpenCheckpoint(ctx, s.Settings.From, "")
	}
	if err != nil {
		return nil, err
	}
	shape := policy.ShapeOf(s.task, s.Settings.Hidden)
	_, err = c.PolicyOf(shape)
	return c, err
}

// goOn returns advice on continuing a run whose device has failed; resume is the command for a run without a lease. A
// leased run is continued by a worker.
func (s *session) goOn(err error, resume string) string {
	switch {
	case s.Lease == nil:
	case device.TooLarge(err):
		return "it is too large for a GPU like this one: " +
			"submit it with a smaller batch, or retry it where workers have larger ones"
	default:
		return ""
	}
	return "the last checkpoint is intact: continue with " + resume + ", " +
		"on another device with --device cpu or --device cuda:N"
}
