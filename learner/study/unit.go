package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
	"github.com/dbqpg/dbqpg/internal/safetensors"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// The pieces of a long measurement, units, are kept on disk, so that a study can resume after an interruption. A unit
// is a few named arrays of numbers and the settings with which they were measured, in one safetensors file that is
// written atomically. An existing unit is not measured again; one measured with other settings is an error, never
// silently mixed in.
//
// unitSuffix ends the names of their files.
const unitSuffix = ".safetensors"

// measured contains the measured numbers, by name.
type measured map[string][]float64

// conditions are the settings on which a measurement depends, by name.
type conditions map[string]string

// with returns the settings and one more.
func (s conditions) with(name string, value any) conditions {
	more := conditions{}
	maps.Copy(more, s)
	more[name] = fmt.Sprint(value)
	return more
}

// measureOnce returns the unit at a path, without its ending: from its file, if there is one, or else by measuring it,
// which creates the file and its directory. A file made with other settings is a *runs.MismatchError, a damaged one an
// error too.
func measureOnce(path string, settings conditions, measure func() (measured, error)) (measured, error) {
	arrays, err := loadUnit(path, settings)
	if !errors.Is(err, fs.ErrNotExist) {
		return arrays, err
	}
	if arrays, err = measure(); err != nil {
		return nil, err
	}
	if err := saveUnit(path+unitSuffix, settings, arrays); err != nil {
		return nil, fmt.Errorf("keep the measurement: %w", err)
	}
	return arrays, nil
}

// loadUnit returns the unit at a path; the error wraps fs.ErrNotExist if there is none.
func loadUnit(path string, settings conditions) (measured, error) {
	path += unitSuffix
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	file, err := safetensors.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; remove it to have it measured again", path, err)
	}
	if different := runs.Differences(file.Metadata, settings); len(different) > 0 {
		return nil, fmt.Errorf("%s was %w; choose another --out, or go back to those settings", path,
			&runs.MismatchError{Differences: different})
	}
	arrays := measured{}
	for _, tensor := range file.Tensors {
		if arrays[tensor.Name], err = tensor.Values(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return arrays, nil
}

func saveUnit(path string, settings conditions, arrays measured) error {
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
