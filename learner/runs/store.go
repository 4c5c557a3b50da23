package runs

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
)

const newestKept = 2 // checkpoints

// A Store is a directory of one run's checkpoints, used by one process at a time.
type Store struct {
	directory string
	settings  map[string]string
	log       *slog.Logger
	kept      []uint64 // iterations whose checkpoints are never removed
	saved     int      // size in bytes of the last saved checkpoint
}

// OpenStore returns the store in that directory, creating it if necessary, and removes files that a killed process left
// unfinished. settings are the run's settings that its results depend on, by name; log receives warnings.
func OpenStore(directory string, settings map[string]string, log *slog.Logger) (*Store, error) {
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return nil, fmt.Errorf("create the directory of checkpoints: %w", err)
	}
	if err := atomicfile.Clean(directory); err != nil {
		return nil, err
	}
	return &Store{directory: directory, settings: settings, log: log}, nil
}

// Keep makes Save keep the checkpoints of these iterations permanently.
func (s *Store) Keep(iterations ...uint64) { s.kept = iterations }

// Load returns the newest state, or nil if there is none. If a file is corrupt, Load sets it aside with a warning and
// uses the one before it; if all are corrupt, it leaves them and returns an error. A state made with other settings
// is a *MismatchError.
func (s *Store) Load() (*State, error) {
	state, corrupt, err := find(s.directory, s.settings)
	if state == nil || err != nil {
		return nil, err
	}
	for _, c := range corrupt {
		s.log.Warn("skipping a corrupt checkpoint", "error", c.err, "instead", s.path(state.Iteration))
		path := s.path(c.iteration)
		if err := os.Rename(path, path+".corrupt"); err != nil {
			return nil, fmt.Errorf("set a corrupt checkpoint aside: %w", err)
		}
	}
	return state, nil
}

// Peek returns the state that Load would return for a directory, which need not exist, and changes nothing.
func Peek(directory string, settings map[string]string) (*State, error) {
	state, _, err := find(directory, settings)
	return state, err
}

// corruptFile is the checkpoint of an iteration that cannot be read.
type corruptFile struct {
	iteration uint64
	err       error
}

// find returns the newest intact state, or nil if there is none, and the corrupt ones that it skipped.
func find(directory string, settings map[string]string) (state *State, corrupt []corruptFile, err error) {
	iterations, err := Iterations(directory)
	if err != nil {
		return nil, nil, err
	}
	var errs []error
	for _, iteration := range slices.Backward(iterations) {
		state, madeWith, err := Read(directory, iteration)
		if err == nil {
			if d := Differences(madeWith, settings); len(d) > 0 {
				err = &MismatchError{d}
			}
		}
		if err == nil {
			return state, corrupt, nil
		}
		err = fmt.Errorf("%s: %w", filepath.Join(directory, FileName(iteration)), err)
		if !errors.Is(err, ErrCorrupt) {
			return nil, nil, err
		}
		corrupt, errs = append(corrupt, corruptFile{iteration, err}), append(errs, err)
	}
	return nil, nil, errors.Join(errs...)
}

// Read returns the state of one iteration from a directory of checkpoints, and the settings it was made with. The
// error wraps fs.ErrNotExist if there is none, or is one of Decode's.
func Read(directory string, iteration uint64) (*State, map[string]string, error) {
	data, err := os.ReadFile(filepath.Join(directory, FileName(iteration)))
	if err != nil {
		return nil, nil, err
	}
	state, settings, err := Decode(data)
	if err != nil {
		return nil, nil, err
	}
	if state.Iteration != iteration {
		return nil, nil, fmt.Errorf("%w: it is of iteration %d", ErrCorrupt, state.Iteration)
	}
	return state, settings, nil
}

// Save makes state the newest checkpoint and removes old ones. After an error all earlier checkpoints still exist.
func (s *Store) Save(state *State) error {
	data, err := Encode(state, s.settings)
	if err == nil {
		err = atomicfile.Write(s.path(state.Iteration), data)
	}
	if err != nil {
		return fmt.Errorf("save the checkpoint of iteration %d: %w", state.Iteration, err)
	}
	s.saved = len(data)
	return s.prune()
}

// KeepBest keeps the checkpoint of best.Iteration, the newest, as the best one. Call it when the batch that its policy
// played turns out to be the best, before the next Save. The copy has best in its metadata.
func (s *Store) KeepBest(best Best) error {
	state, _, err := Read(s.directory, best.Iteration)
	if err != nil {
		return fmt.Errorf("keep the best checkpoint: %w", err)
	}
	state.Best = &best
	return s.SaveBest(state)
}

// SaveBest keeps state as the best checkpoint. Call it before Save: a run killed in between then repeats the iteration.
func (s *Store) SaveBest(state *State) error {
	data, err := Encode(state, s.settings)
	if err == nil {
		err = atomicfile.Write(filepath.Join(s.directory, BestName), data)
	}
	if err != nil {
		return fmt.Errorf("keep the best checkpoint: %w", err)
	}
	return nil
}

// mendBest returns best if its checkpoint is intact. Otherwise it sets that file aside with a warning, and keeps in its
// place the best of the checkpoints that are left, by their evaluations or the returns of their batches; nil if there is
// none.
func (s *Store) mendBest(best Best, rows []Row, evaluations []Evaluation) (*Best, error) {
	path := filepath.Join(s.directory, BestName)
	data, err := os.ReadFile(path)
	if err == nil {
		_, _, err = Decode(data)
	}
	if err == nil {
		return &best, nil
	}
	if errors.Is(err, ErrCorrupt) {
		if err := os.Rename(path, path+".corrupt"); err != nil {
			return nil, fmt.Errorf("set the corrupt best checkpoint aside: %w", err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	s.log.Warn("the best checkpoint is damaged or missing: choosing the best of those left", "file", path, "error", err)
	returns := map[uint64]float64{}
	for _, row := range rows {
		if !best.Evaluated {
			returns[row.Iteration] = row.ReturnMean
		}
	}
	for _, e := range evaluations {
		if best.Evaluated {
			returns[e.Iteration] = e.MeanReturn
		}
	}
	iterations, err := Iterations(s.directory)
	if err != nil {
		return nil, err
	}
	var left *State
	for _, iteration := range iterations {
		value, ok := returns[iteration]
		if !ok || math.IsNaN(value) || left != nil && value <= left.Best.Return {
			continue
		}
		if state, _, err := Read(s.directory, iteration); err == nil {
			left = state
			left.Best = &Best{Return: value, Iteration: iteration, Evaluated: best.Evaluated}
		}
	}
	if left == nil {
		return nil, nil
	}
	return left.Best, s.SaveBest(left)
}

func (s *Store) prune() error {
	iterations, err := Iterations(s.directory)
	if err != nil {
		return err
	}
	for _, iteration := range iterations[:max(0, len(iterations)-newestKept)] {
		if slices.Contains(s.kept, iteration) {
			continue
		}
		if err := os.Remove(s.path(iteration)); err != nil {
			return fmt.Errorf("remove an old checkpoint: %w", err)
		}
	}
	return nil
}

func (s *Store) path(iteration uint64) string { return filepath.Join(s.directory, FileName(iteration)) }

// A MismatchError reports a checkpoint of a run with other settings.
type MismatchError struct{ Differences []Difference }

// A Difference is a setting whose value was Then in the checkpoint and is Now in the program; "" means not set.
type Difference struct{ Name, Then, Now string }

func (e *MismatchError) Error() string {
	var texts []string
	for _, d := range e.Differences {
		texts = append(texts, d.String())
	}
	return "made with other settings: " + strings.Join(texts, ", ")
}

// String describes the difference.
func (d Difference) String() string {
	return fmt.Sprintf("%s was %s and is now %s", d.Name, orNone(d.Then), orNone(d.Now))
}

func orNone(value string) string {
	if value == "" {
		return "not set"
	}
	return value
}

// Differences compares two sets of settings and returns their differences, sorted by name.
func Differences(then, now map[string]string) []Difference {
	either := map[string]string{}
	maps.Copy(either, then)
	maps.Copy(either, now)
	var different []Difference
	for _, name := range slices.Sorted(maps.Keys(either)) {
		if then[name] != now[name] {
			different = append(different, Difference{name, then[name], now[name]})
		}
	}
	return different
}
