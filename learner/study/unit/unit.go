// Package unit keeps the pieces of a long measurement on disk, so that a study that was killed goes on where it was.
//
// A unit is a few named arrays of numbers and the settings that they were measured with, in one safetensors file that
// is written whole. One that is there is not measured again; one that was measured with other settings is an error,
// never a silent mixture.
package unit

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
	"github.com/dbqpg/dbqpg/internal/safetensors"
	"github.com/dbqpg/dbqpg/learner/checkpoint"
)

// suffix ends the names of the files of units.
const suffix = ".safetensors"

// Arrays are what was measured, by name.
type Arrays map[string][]float64

// Settings are what the result of a measurement depends on, by name.
type Settings map[string]string

// With returns the settings and one more.
func (s Settings) With(name string, value any) Settings {
	more := maps.Clone(s)
	if more == nil {
		more = Settings{}
	}
	more[name] = fmt.Sprint(value)
	return more
}

// Do returns the unit at a path, without its ending: from its file, if there is one, or else by measuring it, which
// creates the file and its directory. A file made with other settings is a *MismatchError, a damaged one an error too.
func Do(path string, settings Settings, measure func() (Arrays, error)) (Arrays, error) {
	arrays, err := Load(path, settings)
	if !errors.Is(err, fs.ErrNotExist) {
		return arrays, err
	}
	if arrays, err = measure(); err != nil {
		return nil, err
	}
	if err := save(path+suffix, settings, arrays); err != nil {
		return nil, fmt.Errorf("keep what was measured: %w", err)
	}
	return arrays, nil
}

// Load returns the unit at a path; the error wraps fs.ErrNotExist if there is none.
func Load(path string, settings Settings) (Arrays, error) {
	path += suffix
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	file, err := safetensors.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; remove it to have it measured again", path, err)
	}
	if different := checkpoint.Differences(file.Metadata, settings); len(different) > 0 {
		return nil, &MismatchError{path, different}
	}
	arrays := Arrays{}
	for _, tensor := range file.Tensors {
		if arrays[tensor.Name], err = safetensors.Values[float64](tensor); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return arrays, nil
}

func save(path string, settings Settings, arrays Arrays) error {
	file := &safetensors.File{Metadata: settings}
	for _, name := range slices.Sorted(maps.Keys(arrays)) {
		file.Tensors = append(file.Tensors, safetensors.New(name, []int{len(arrays[name])}, arrays[name]))
	}
	data, err := safetensors.Encode(file)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, data)
}

// MismatchError says that a unit was measured with other settings.
type MismatchError struct {
	Path        string
	Differences []checkpoint.Difference
}

func (e *MismatchError) Error() string {
	var texts []string
	for _, d := range e.Differences {
		texts = append(texts, d.String())
	}
	return fmt.Sprintf("%s was measured with other settings: %s; choose another --out, or go back to those settings",
		e.Path, strings.Join(texts, ", "))
}
