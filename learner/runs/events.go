package runs

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/tensorboard"
)

// EventPatterns match the event files of a run, relative to its directory.
var EventPatterns = []string{tensorboard.Pattern, filepath.Join(stepsName, tensorboard.Pattern)}

// events writes a run's rows for TensorBoard.
type events struct {
	iterations, steps *tensorboard.Writer
	begun             time.Time // of the run, had it never been stopped
	elapsed           float64   // seconds, in the last row
}

// openEvents starts event files with all rows so far. They replace the files of earlier starts, so a killed process
// leaves nothing to repair.
func openEvents(settings *config.Settings, rows []Row, evaluations []Evaluation) (e *events, err error) {
	directory := settings.RunDir
	if err := os.MkdirAll(filepath.Join(directory, stepsName), 0o755); err != nil {
		return nil, err
	}
	e = &events{begun: time.Now()}
	if len(rows) > 0 {
		e.begun = e.begun.Add(-seconds(rows[len(rows)-1].SecondsElapsed))
	}
	if e.iterations, err = tensorboard.Create(directory); err != nil {
		return nil, err
	}
	if e.steps, err = tensorboard.Create(filepath.Join(directory, stepsName)); err != nil {
		return nil, errors.Join(err, e.iterations.Close())
	}
	err = e.iterations.Describe(session(settings))
	for _, row := range rows {
		for ; len(evaluations) > 0 && evaluations[0].Iteration <= row.Iteration; evaluations = evaluations[1:] {
			err = errors.Join(err, e.evaluation(evaluations[0]))
		}
		err = errors.Join(err, e.row(row))
	}
	for _, evaluation := range evaluations {
		err = errors.Join(err, e.evaluation(evaluation))
	}
	if err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (e *events) row(row Row) error {
	e.elapsed = row.SecondsElapsed
	return e.write(row.Iteration, row)
}

func (e *events) evaluation(row Evaluation) error { return e.write(row.Iteration, row) }

func (e *events) write(iteration uint64, row any) error {
	at := e.begun.Add(seconds(e.elapsed))
	scalars := Scalars(row)
	steps, bySteps := ScalarsBySteps(row)
	return errors.Join(e.iterations.Write(at, int64(iteration), scalars), e.steps.Write(at, int64(steps), bySteps))
}

func (e *events) close() error { return errors.Join(e.iterations.Close(), e.steps.Close()) }

// session describes a run for TensorBoard: all settings as text, the reproducible ones as hyperparameters, and the
// metrics to compare runs by.
func session(settings *config.Settings) tensorboard.Session {
	s := tensorboard.Session{
		Settings: "```yaml\n" + settings.YAML() + "```\n",
		Metrics: []tensorboard.Metric{
			{
				Tag: "evaluation/mean_action_return", Title: "evaluation",
				Description: "Mean return of the last evaluation with the mean action",
			},
			{Tag: "return/mean", Title: "return", Description: "Mean return of the last batch"},
			{Tag: "run/steps", Title: "steps", Description: "Environment steps"},
			{Tag: "seconds/elapsed", Title: "seconds", Description: "Duration of the run"},
		},
	}
	for _, h := range settings.List() {
		s.Hyperparameters = append(s.Hyperparameters, tensorboard.Hyperparameter(h))
	}
	return s
}
