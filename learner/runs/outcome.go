package runs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
	"github.com/dbqpg/dbqpg/internal/progress"
)

// maxLog is the size in bytes above which a resumed run's log loses its first half.
const maxLog = 1 << 20

// begin opens the run's log, and removes the outcome of its last learner.
func (r *Run) begin() error {
	path := filepath.Join(r.directory, progress.LogName)
	old, err := os.ReadFile(path)
	if err == nil && len(old) > maxLog {
		_, rest, _ := bytes.Cut(old[len(old)/2:], []byte("\n"))
		err = atomicfile.Write(path, rest)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		r.Log, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	}
	if err != nil {
		return fmt.Errorf("open the run's log: %w", err)
	}
	if err := os.Remove(filepath.Join(r.directory, progress.OutcomeName)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// End records how training ended: completely, or with an error.
func (r *Run) End(err error) error {
	outcome := progress.Outcome{State: "done"}
	switch {
	case errors.Is(err, context.Canceled):
		outcome.State = "stopped"
	case err != nil:
		outcome = progress.Outcome{State: "failed", Reason: err.Error()}
	}
	data, err := yaml.Marshal(outcome)
	if err == nil {
		err = atomicfile.Write(filepath.Join(r.directory, progress.OutcomeName), data)
	}
	if err != nil {
		return fmt.Errorf("record the end of the run: %w", err)
	}
	return nil
}

// Outcome returns how the last learner of the run in a directory ended; zero if it trains, or was killed.
func Outcome(directory string) (o progress.Outcome, err error) {
	data, err := os.ReadFile(filepath.Join(directory, progress.OutcomeName))
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err == nil {
		err = yaml.Unmarshal(data, &o)
	}
	return o, err
}
