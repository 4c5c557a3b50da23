// Package rundir manages a run's directory:
//
//	config.yaml                     the resolved settings
//	progress.csv                    a row per iteration
//	events.out.tfevents.*           the same for TensorBoard, a file per start of the run
//	checkpoints/                    the newest states, the best, and those named in the settings
//
// An iteration is written in an order that makes a kill at any moment harmless: first the rows, then the checkpoint. A
// resumed run cuts off the rows of the iteration that it repeats, so that all files end up as if it had never been
// stopped.
package rundir

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/tensorboard"
	"github.com/dbqpg/dbqpg/learner/checkpoint"
	"github.com/dbqpg/dbqpg/learner/progress"
)

const (
	progressName    = "progress.csv"
	checkpointsName = "checkpoints"
)

// Run is a run's directory, open and locked.
type Run struct {
	lock        *os.File
	checkpoints *checkpoint.Store
	progress    *progress.CSV
	events      *tensorboard.Writer
}

// Open opens the directory of a run for writing, creating it if necessary; settings.Resume and Force decide what happens
// to an existing run. It returns the state to resume from, or nil for a run that has none yet, which begins with
// [Run.Start]. Warnings go to log.
func Open(settings *config.Settings, log *slog.Logger) (*Run, *checkpoint.State, error) {
	plan, err := newPlan(settings)
	if err != nil {
		return nil, nil, err
	}
	lock, err := plan.prepare()
	if err != nil {
		return nil, nil, err
	}
	r := &Run{lock: lock}
	if !plan.resume {
		err = writeSettings(settings) // config.yaml marks a run's directory, so it comes first
	}
	var state *checkpoint.State
	if err == nil {
		state, err = r.open(settings, log)
	}
	if err != nil {
		return nil, nil, errors.Join(err, r.Close())
	}
	return r, state, nil
}

func (r *Run) open(settings *config.Settings, log *slog.Logger) (state *checkpoint.State, err error) {
	directory := settings.RunDir
	if r.checkpoints, err = checkpoint.Open(filepath.Join(directory, checkpointsName), settings.Identity(), log); err != nil {
		return nil, err
	}
	r.checkpoints.Keep(settings.KeepCheckpoints...)
	if state, err = r.checkpoints.Load(); err != nil {
		return nil, advise(err)
	}
	next := uint64(0)
	if state != nil {
		next = state.Iteration
	}
	if err := writeSettings(settings); err != nil { // a run may be resumed with more iterations
		return nil, err
	}
	var rows int
	if r.progress, rows, err = progress.OpenCSV(filepath.Join(directory, progressName), next); err != nil {
		return nil, err
	}
	if state != nil && uint64(rows) < state.Iteration {
		log.Warn("rows are missing from the progress so far", "file", filepath.Join(directory, progressName),
			"rows", rows, "iterations", state.Iteration)
	}
	return state, r.openEvents(directory, next)
}

// openEvents starts an event file. If it is the first although there are rows, as for a run that comes from another
// machine, it writes their events.
func (r *Run) openEvents(directory string, next uint64) error {
	before, err := filepath.Glob(filepath.Join(directory, tensorboard.Pattern))
	if err != nil {
		return err
	}
	if r.events, err = tensorboard.Open(directory, int64(next)); err != nil || len(before) > 0 || next == 0 {
		return err
	}
	rows, err := progress.ReadCSV(filepath.Join(directory, progressName))
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := r.events.Write(int64(row.Iteration), row.Scalars()); err != nil {
			return err
		}
	}
	return nil
}

// advise adds advice to an error about checkpoints.
func advise(err error) error {
	var mismatch *checkpoint.MismatchError
	switch {
	case errors.As(err, &mismatch):
		return fmt.Errorf("%w; resume without changing them, or start another run with --run-dir", err)
	case errors.Is(err, checkpoint.ErrVersion):
		return fmt.Errorf("%w; resume with the program that wrote it", err)
	}
	return fmt.Errorf("%w; --force starts over and keeps these files aside", err)
}

// writeSettings writes config.yaml unless it is up to date.
func writeSettings(settings *config.Settings) error {
	path, text := filepath.Join(settings.RunDir, config.FileName), settings.YAML()
	if old, err := os.ReadFile(path); err == nil && string(old) == text {
		return nil
	}
	if err := atomicfile.Write(path, []byte(text)); err != nil {
		return fmt.Errorf("write the settings: %w", err)
	}
	return nil
}

// Start saves a new run's initial state.
func (r *Run) Start(state *checkpoint.State) error { return r.checkpoints.Save(state) }

// Commit saves an iteration: its row, then the state after it, and if its batch is the best so far the state whose
// policy played it, which is the preceding one and has the row's number. It sets state.Best. After an error the run can
// be resumed from the preceding state.
func (r *Run) Commit(state *checkpoint.State, row progress.Row) error {
	if state.Iteration != row.Iteration+1 {
		panic(fmt.Sprintf("rundir: state after %d iterations with the row of iteration %d", state.Iteration, row.Iteration))
	}
	if err := r.commit(state, row); err != nil {
		return fmt.Errorf("%w; checkpoint %d is safe: fix this, then continue with --resume", err, row.Iteration)
	}
	return nil
}

func (r *Run) commit(state *checkpoint.State, row progress.Row) error {
	if state.Best == nil || row.ReturnMean > state.Best.Return {
		state.Best = &checkpoint.Best{Return: row.ReturnMean, Iteration: row.Iteration}
		if err := r.checkpoints.KeepBest(*state.Best); err != nil {
			return err
		}
	}
	if err := r.progress.Append(row); err != nil {
		return err
	}
	if err := r.events.Write(int64(row.Iteration), row.Scalars()); err != nil {
		return err
	}
	return r.checkpoints.Save(state)
}

// CheckpointSize returns the size in bytes of the last saved checkpoint, or 0.
func (r *Run) CheckpointSize() int { return r.checkpoints.Size() }

// Close closes the files and releases the directory's lock.
func (r *Run) Close() error {
	var errs []error
	if r.progress != nil {
		errs = append(errs, r.progress.Close())
	}
	if r.events != nil {
		errs = append(errs, r.events.Close())
	}
	return errors.Join(append(errs, r.lock.Close())...)
}
