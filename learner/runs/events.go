package runs

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/tensorboard"
)

// stepsName is the directory, in that of a run, of the events at environment steps. TensorBoard shows it as a run of its
// own: within a run all curves have the same axis, since a resumed run drops events by their steps.
const stepsName = "environment_steps"

// EventPatterns match the event files of a run, relative to its directory.
var EventPatterns = []string{tensorboard.Pattern, filepath.Join(stepsName, tensorboard.Pattern)}

// events writes a run's rows for TensorBoard.
type events struct {
	iterations, steps *tensorboard.Writer
}

// openEvents starts event files for the iterations from next on, with the evaluation of that number if there is one: it is
// older than the checkpoint to resume from. Returns are written from the environment step steps on. If the files are the
// first although there are rows, as for a run that comes from another machine, openEvents writes the events of them all.
func openEvents(settings *config.Settings, next, steps uint64) (e *events, err error) {
	directory := settings.RunDir
	if err := os.MkdirAll(filepath.Join(directory, stepsName), 0o755); err != nil {
		return nil, err
	}
	e = &events{}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	if e.iterations, err = tensorboard.Open(directory, int64(next)); err != nil {
		return e, err
	}
	if e.steps, err = tensorboard.Open(filepath.Join(directory, stepsName), int64(steps)); err != nil {
		return e, err
	}
	if err := e.iterations.Describe(int64(next), session(settings)); err != nil {
		return e, err
	}
	return e, e.rewrite(directory, next)
}

// rewrite writes the events of earlier rows that are in no older file.
func (e *events) rewrite(directory string, next uint64) error {
	var first [2]bool // whether the new files are the first
	for i, pattern := range EventPatterns {
		files, err := filepath.Glob(filepath.Join(directory, pattern))
		if err != nil {
			return err
		}
		first[i] = len(files) == 1
	}
	rows, err := ReadCSV[Row](ProgressFile(directory))
	if err != nil {
		return err
	}
	evaluations, err := ReadCSV[Evaluation](Evaluations(directory))
	if err != nil {
		return err
	}
	type event struct {
		iteration uint64
		row       any
	}
	var events []event // in the order in which they were first written
	for _, evaluation := range evaluations {
		events = append(events, event{evaluation.Iteration, evaluation})
	}
	for _, row := range rows {
		events = append(events, event{row.Iteration, row})
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.iteration, b.iteration) })
	for _, event := range events {
		if first[0] || event.iteration >= next {
			if err := e.writeIteration(event.iteration, event.row); err != nil {
				return err
			}
		}
		if first[1] {
			if err := e.writeSteps(event.row); err != nil {
				return err
			}
		}
	}
	return nil
}

// write writes the events of a row.
func (e *events) write(iteration uint64, row any) error {
	return errors.Join(e.writeIteration(iteration, row), e.writeSteps(row))
}

func (e *events) writeIteration(iteration uint64, row any) error {
	return e.iterations.Write(int64(iteration), Scalars(row))
}

func (e *events) writeSteps(row any) error {
	steps, scalars := ScalarsBySteps(row)
	return e.steps.Write(int64(steps), scalars)
}

func (e *events) close() error {
	var errs []error
	for _, w := range []*tensorboard.Writer{e.iterations, e.steps} {
		if w != nil {
			errs = append(errs, w.Close())
		}
	}
	return errors.Join(errs...)
}

// session describes a run for TensorBoard: its settings as text, those that determine its results as hyperparameters, and
// the metrics to compare them by.
func session(settings *config.Settings) tensorboard.Session {
	s := tensorboard.Session{
		Settings: "```yaml\n" + settings.YAML() + "```\n",
		Metrics: []tensorboard.Metric{
			{Tag: "evaluation/mean_action_return", Title: "evaluation", Description: "Mean return of the last evaluation with the mean action"},
			{Tag: "return/mean", Title: "return", Description: "Mean return of the last batch"},
			{Tag: "run/steps", Title: "steps", Description: "Environment steps"},
			{Tag: "seconds/elapsed", Title: "seconds", Description: "Duration of the run"},
		},
	}
	for _, h := range settings.Hyperparameters() {
		s.Hyperparameters = append(s.Hyperparameters, tensorboard.Hyperparameter(h))
	}
	return s
}
