package session

import (
	"context"
	"fmt"
	"sort"

	"github.com/dbqpg/dbqpg/internal/commandline"
	"github.com/dbqpg/dbqpg/internal/config"
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

// goBack returns advice on a run whose batches from first to last contain the episodes of an actor that lied: batch b
// is that of iteration b-1, whose policy is checkpoint b-1's.
func (s *session) goBack(first, last uint64) string {
	all, _ := runs.Iterations(runs.Checkpoints(s.Settings.RunDir)) // what cannot be listed is of no use
	n := sort.Search(len(all), func(i int) bool { return all[i]+1 > first })
	directory := commandline.Quote(s.Settings.RunDir)
	learner, command := commandline.Program()+" --run-dir "+directory, "rm"
	switch {
	case s.Lease != nil && n > 0:
		command = fmt.Sprintf("coordinator reset %s --to %d", s.Lease.Run, all[n-1])
	case s.Lease != nil:
		command = "coordinator reset " + s.Lease.Run
	case n == 0:
		command = learner + " --config " + directory + "/" + config.FileName + " --force"
	default:
		for _, later := range all[n:] {
			command += " " + runs.Checkpoints(directory) + "/" + runs.FileName(later)
		}
		command += "; " + learner + " --resume"
	}
	return fmt.Sprintf("iterations %d to %d have its episodes; stop the run, then: %s", max(first, 1)-1, max(last, 1)-1,
		command)
}
