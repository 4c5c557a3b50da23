package runs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/internal/progress"
)

// plan describes how Open treats a directory.
type plan struct {
	directory string
	aside     string // where an existing run is moved to; "" if it stays or there is none
	resume    bool
	from      string // how far an existing run has got
}

// Plan describes what Open would do, or returns the error that Open would return.
func Plan(settings *config.Settings) (string, error) {
	p, err := newPlan(settings)
	switch {
	case err != nil:
		return "", err
	case p.aside != "":
		return fmt.Sprintf("would move %s, %s, to %s and start a new run", p.directory, p.from, p.aside), nil
	case p.resume:
		return fmt.Sprintf("would resume the run in %s, %s", p.directory, p.from), nil
	}
	return fmt.Sprintf("would start a run in %s", p.directory), nil
}

func newPlan(settings *config.Settings) (plan, error) {
	p := plan{directory: settings.RunDir}
	empty, run, err := inspect(p.directory)
	switch {
	case err != nil:
		return p, err
	case empty && settings.Resume == config.ResumeYes:
		return p, fmt.Errorf("--resume: there is no run in %s", p.directory)
	case empty:
		return p, nil
	case !run:
		return p, fmt.Errorf("%s is not empty and contains no run: choose another --run-dir", p.directory)
	}
	newest, begun, err := Newest(Checkpoints(p.directory))
	if err != nil {
		return p, err
	}
	p.from = reached(newest, begun)
	switch {
	case settings.Force:
		p.aside, err = freeName(p.directory)
		return p, err
	case settings.Resume != config.ResumeNo:
		p.resume = true
		if !begun {
			if rows, err := ReadCSV[Row](ProgressFile(p.directory)); err == nil && len(rows) > 0 {
				return p, fmt.Errorf("%s has rows of %d iterations and no checkpoint, "+
					"checkpoints/iteration-*.safetensors, to go on from: --force starts over and keeps these files "+
					"aside, --run-dir and --from start another run from their best policy", p.directory, len(rows))
			}
		}
		state, err := Peek(Checkpoints(p.directory), settings.Identity())
		if err != nil {
			return p, advise(err)
		}
		if state != nil {
			err = settings.CheckRest(state.Steps)
		}
		return p, err
	}
	resume := "--resume"
	state, _, err := Read(Checkpoints(p.directory), newest)
	if err == nil && settings.Reached(state.Iteration, state.Steps) {
		resume += " " + settings.Longer(state.Iteration, state.Steps)
	}
	return p, fmt.Errorf("%s already contains a run, %s: %s continues it, --force starts over and keeps it aside, "+
		"--seed or --run-dir starts another", p.directory, p.from, resume)
}

// inspect reports whether a directory is missing or practically empty, and otherwise whether it is a run's.
func inspect(directory string) (empty, run bool, err error) {
	entries, err := os.ReadDir(directory)
	if errors.Is(err, fs.ErrNotExist) {
		return true, false, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("look into the run directory: %w", err)
	}
	empty = true
	for _, entry := range entries {
		switch entry.Name() {
		case config.FileName:
			return false, true, nil
		case progress.LockName, config.FileName + atomicfile.Suffix: // of a run killed in its first moments
		default:
			empty = false
		}
	}
	_, run, err = Newest(Checkpoints(directory)) // the settings are lost, but they are in the checkpoints, too
	return empty, run, err
}

// reached describes a run's progress by its newest checkpoint, if there is one.
func reached(newest uint64, begun bool) string {
	if !begun {
		return "which has no checkpoint yet"
	}
	return fmt.Sprintf("which has completed %d iterations", newest)
}

// Done returns the completed part and the length of the run in settings.RunDir, in iterations or steps. As for Open, a
// run that was made with other settings is an error.
func Done(settings *config.Settings) (done, all uint64, err error) {
	state, err := Peek(Checkpoints(settings.RunDir), settings.Identity())
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("%s: %w", settings.RunDir, advise(err))
	case state == nil:
		state = new(State)
	}
	done, all = settings.Of(state.Iteration, state.Steps)
	return done, all, nil
}

// freeName returns the first of .NAME.1, .NAME.2, ... beside a directory NAME that does not exist. The dot keeps it out
// of patterns such as runs/Swimmer-v5/*.
func freeName(directory string) (string, error) {
	for i := 1; ; i++ {
		name := filepath.Join(filepath.Dir(filepath.Clean(directory)), fmt.Sprintf(".%s.%d", filepath.Base(directory), i))
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name, nil
		} else if err != nil {
			return "", fmt.Errorf("find a name for the old run: %w", err)
		}
	}
}

// prepare moves or creates the directory as planned, and returns its lock.
func (p plan) prepare() (*os.File, error) {
	if p.aside != "" {
		lock, err := lockDirectory(p.directory)
		if err != nil {
			return nil, err
		}
		defer lock.Close()
		if err := os.Rename(p.directory, p.aside); err != nil {
			return nil, fmt.Errorf("move the old run aside: %w", err)
		}
	}
	if err := os.MkdirAll(p.directory, 0o755); err != nil {
		return nil, fmt.Errorf("create the run directory: %w", err)
	}
	return lockDirectory(p.directory)
}

// lockDirectory makes this process the only one that writes to a run's directory while the returned file is open: the
// lock is released with the process, however that ends. File systems without locks are used without.
func lockDirectory(directory string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(directory, progress.LockName), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the run directory: %w", err)
	}
	for range 10 { // pages hold it for a moment, to see whether it is locked
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err == nil || errors.Is(err, syscall.ENOTSUP) || errors.Is(err, syscall.ENOLCK) {
		return file, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errors.New("another learner is using it: stop that first, or choose another --run-dir")
	}
	return nil, errors.Join(fmt.Errorf("lock %s: %w", directory, err), file.Close())
}
