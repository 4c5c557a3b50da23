package runs

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
	"github.com/dbqpg/dbqpg/internal/config"
)

// Run is a run's directory, open and locked.
type Run struct {
	Log *os.File // receives the lines of the run's log

	directory   string
	lock        *os.File
	checkpoints *Store
	progress    *CSV[Row]
	evaluations *CSV[Evaluation]
	events      *events
}

// Open opens the directory of a run for writing, creating it if necessary; settings.Resume and Force decide what
// happens to an existing run. It returns the state to resume from, or nil for a run that has none yet, which begins
// with [Run.Start]. Warnings go to log.
func Open(settings *config.Settings, log *slog.Logger) (*Run, *State, error) {
	plan, err := newPlan(settings)
	if err != nil {
		return nil, nil, err
	}
	lock, err := plan.prepare()
	if err != nil {
		return nil, nil, err
	}
	if plan.aside != "" {
		log.Info("moved the old run aside", "to", plan.aside)
	}
	r := &Run{lock: lock, directory: settings.RunDir}
	if !plan.resume {
		err = writeSettings(settings) // config.yaml marks a run's directory, so it comes first
	}
	var state *State
	if err == nil {
		state, err = r.open(settings, log)
	}
	if err != nil {
		return nil, nil, errors.Join(err, r.Close())
	}
	return r, state, nil
}

func (r *Run) open(settings *config.Settings, log *slog.Logger) (state *State, err error) {
	if err := r.begin(); err != nil {
		return nil, err
	}
	directory := settings.RunDir
	if r.checkpoints, err = OpenStore(Checkpoints(directory), settings.Identity(), log); err != nil {
		return nil, err
	}
	r.checkpoints.Keep(settings.KeepCheckpoints...)
	if state, err = r.checkpoints.Load(); err != nil {
		return nil, advise(err)
	}
	var next, evaluated uint64 // the first rows to write
	beyond := false            // the run is longer than the settings ask for
	if state != nil {
		next, evaluated = state.Iteration, state.Iteration+1 // a checkpoint is evaluated before it is saved
		done, all := settings.Of(state.Iteration, state.Steps)
		beyond = done > all
	}
	if !beyond { // a run may be resumed with a greater length, and one that has it is left as it is
		if err := writeSettings(settings); err != nil {
			return nil, err
		}
	}
	var rows []Row
	if r.progress, rows, err = OpenCSV[Row](ProgressFile(directory), next); err != nil {
		return nil, err
	}
	var evaluations []Evaluation
	if r.evaluations, evaluations, err = OpenCSV[Evaluation](Evaluations(directory), evaluated); err != nil {
		return nil, err
	}
	if state != nil && state.Best != nil {
		if state.Best, err = r.checkpoints.mendBest(*state.Best, rows, evaluations); err != nil {
			return nil, err
		}
	}
	if uint64(len(rows)) < next {
		log.Warn("rows are missing from the progress so far",
			"file", ProgressFile(directory), "rows", len(rows), "iterations", next)
	}
	r.events, err = openEvents(settings, rows, evaluations)
	return state, err
}

// advise adds advice to an error about checkpoints.
func advise(err error) error {
	var mismatch *MismatchError
	switch {
	case errors.As(err, &mismatch):
		return fmt.Errorf("%w; resume without changing them, or start another run with --run-dir", err)
	case errors.Is(err, ErrVersion):
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

// Start saves a new run's initial state and its evaluation, nil for none. It sets state.Best if there is one.
func (r *Run) Start(state *State, evaluation *Evaluation) error {
	if err := r.evaluated(state, evaluation); err != nil {
		return err
	}
	return r.checkpoints.Save(state)
}

// Commit saves an iteration: its row, the evaluation of the state after it, nil for none, and that state. It sets
// state.Best. After an error the run can be resumed from the preceding state.
//
// The best state has the highest evaluation. In a run without evaluations its policy played the best batch: that is the
// preceding state, of the row's number.
func (r *Run) Commit(state *State, row Row, evaluation *Evaluation) error {
	if state.Iteration != row.Iteration+1 {
		panic(fmt.Sprintf("runs: state after %d iterations with the row of iteration %d",
			state.Iteration, row.Iteration))
	}
	if err := r.commit(state, row, evaluation); err != nil {
		return fmt.Errorf("%w; checkpoint %d is safe: fix this, then continue with --resume", err, row.Iteration)
	}
	return nil
}

func (r *Run) commit(state *State, row Row, evaluation *Evaluation) error {
	// A batch of segments in which no episode ended has no return.
	best := state.Best
	if best == nil && !math.IsNaN(row.ReturnMean) || best != nil && !best.Evaluated && row.ReturnMean > best.Return {
		state.Best = &Best{Return: row.ReturnMean, Iteration: row.Iteration}
		if err := r.checkpoints.KeepBest(*state.Best); err != nil {
			return err
		}
	}
	if err := r.progress.Append(row); err != nil {
		return err
	}
	if err := r.events.row(row); err != nil {
		return err
	}
	if err := r.evaluated(state, evaluation); err != nil {
		return err
	}
	return r.checkpoints.Save(state)
}

// evaluated writes the evaluation, if any, of a state that is about to be saved.
func (r *Run) evaluated(state *State, evaluation *Evaluation) error {
	if evaluation == nil {
		return nil
	}
	if best := state.Best; best == nil || !best.Evaluated || evaluation.MeanReturn > best.Return {
		state.Best = &Best{Return: evaluation.MeanReturn, Iteration: state.Iteration, Evaluated: true}
		if err := r.checkpoints.SaveBest(state); err != nil {
			return err
		}
	}
	if err := r.evaluations.Append(*evaluation); err != nil {
		return err
	}
	return r.events.evaluation(*evaluation)
}

// CheckpointSize returns the size in bytes of the last saved checkpoint, or 0.
func (r *Run) CheckpointSize() int { return r.checkpoints.saved }

// Close closes the files and releases the directory's lock.
func (r *Run) Close() error {
	var errs []error
	if r.Log != nil {
		errs = append(errs, r.Log.Close())
	}
	if r.progress != nil {
		errs = append(errs, r.progress.Close())
	}
	if r.evaluations != nil {
		errs = append(errs, r.evaluations.Close())
	}
	if r.events != nil {
		errs = append(errs, r.events.close())
	}
	return errors.Join(append(errs, r.lock.Close())...)
}
