package tensorboard

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const prefix = "events.out.tfevents."

// Pattern matches the names of event files.
const Pattern = prefix + "*"

// A Scalar is one point of the curve named Tag. TensorBoard groups curves by the part before the first slash.
type Scalar struct {
	Tag         string
	Value       float64 // kept in single precision
	Description string  // of the curve, written once per file
}

// A Writer appends to one event file. It is used by one goroutine at a time.
type Writer struct {
	file      *os.File
	described map[string]bool // by tag
}

// Open starts a new event file for a run whose next step is next. It cuts events of that step and later ones, and
// partially written records of a killed process, off the directory's older files, and removes files without other events.
func Open(directory string, next int64) (*Writer, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, fmt.Errorf("look for event files: %w", err)
	}
	now := time.Now()
	stamp := now.Unix()
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), prefix) {
			continue
		}
		if err := cutFile(filepath.Join(directory, entry.Name()), next); err != nil {
			return nil, fmt.Errorf("cut events of steps from %d on: %w", next, err)
		}
		stamp = max(stamp, stampOf(entry.Name())+1) // the new name must sort last, even within a second
	}
	path := filepath.Join(directory, fmt.Sprintf("%s%010d.%s", prefix, stamp, host()))
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create an event file: %w", err)
	}
	records := appendRecord(nil, versionEvent(now))
	records = appendRecord(records, startEvent(now, next))
	if _, err := file.Write(records); err != nil {
		return nil, errors.Join(fmt.Errorf("begin an event file: %w", err), file.Close())
	}
	return &Writer{file: file, described: map[string]bool{}}, nil
}

// Write appends the scalars of one step in a single write: a process killed there leaves at most half a record, which
// readers skip and the next Open cuts off.
func (w *Writer) Write(step int64, scalars []Scalar) error {
	scalars = slices.Clone(scalars)
	for i := range scalars {
		if s := &scalars[i]; w.described[s.Tag] {
			s.Description = ""
		} else if s.Description != "" {
			w.described[s.Tag] = true
		}
	}
	record := appendRecord(nil, scalarsEvent(time.Now(), step, scalars))
	if _, err := w.file.Write(record); err != nil {
		return fmt.Errorf("write events of step %d: %w", step, err)
	}
	return nil
}

// Close closes the file.
func (w *Writer) Close() error { return w.file.Close() }

// cutFile truncates a file to the length that keep returns, or removes it if only its version would remain.
func cutFile(path string, next int64) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	_, version, _ := nextRecord(data)
	switch size := keep(data, next); {
	case size <= version:
		return os.Remove(path)
	case size < len(data):
		return os.Truncate(path, int64(size))
	}
	return nil
}

// keep returns the length of the file's longest prefix that contains only complete, undamaged events of steps before
// next.
func keep(file []byte, next int64) int {
	kept := 0
	for {
		data, size, ok := nextRecord(file[kept:])
		if !ok {
			return kept
		}
		step, version, ok := parseEvent(data)
		if !ok || step >= next && !version {
			return kept
		}
		kept += size
	}
}

// stampOf returns the time in an event file's name, in seconds, or 0.
func stampOf(name string) int64 {
	digits, _, _ := strings.Cut(strings.TrimPrefix(name, prefix), ".")
	stamp, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || len(digits) != 10 {
		return 0
	}
	return stamp
}

func host() string {
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return name
}
