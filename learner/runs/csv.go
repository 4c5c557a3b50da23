package runs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"reflect"
	"strconv"
	"strings"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
	"github.com/dbqpg/dbqpg/internal/progress"
)

// CSV appends rows of type T, which is [Row] or [Evaluation], to a file of comma-separated values.
type CSV[T any] struct {
	file *os.File
}

// OpenCSV opens the file at path for the rows of iterations from next on, creating it with its header. In an existing
// file it keeps and returns the rows before next. Rows beyond the last checkpoint of a killed run, and half a line, are
// cut off by replacing the file atomically. A file with other columns, or damaged before its last line, is an error and
// remains unchanged.
func OpenCSV[T any](path string, next uint64) (c *CSV[T], kept []T, err error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("read the rows so far: %w", err)
	}
	kept, size, err := parse[T](data, next)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w; move the file away to go on without it", path, err)
	}
	repaired := data[:size]
	if size == 0 {
		repaired = []byte(header[T]())
	}
	if !bytes.Equal(repaired, data) {
		if err := atomicfile.Write(path, repaired); err != nil {
			return nil, nil, fmt.Errorf("cut off rows from iteration %d on: %w", next, err)
		}
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, nil, fmt.Errorf("open for more rows: %w", err)
	}
	return &CSV[T]{file: file}, kept, nil
}

// ReadCSV returns the rows of the file at path, without a last line that is still being written.
func ReadCSV[T any](path string) ([]T, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rows, _, err := parse[T](data, math.MaxUint64)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rows, nil
}

// Append writes one row and syncs it to disk, so that a checkpoint is never ahead of its rows. An error may leave half
// a line, which the next OpenCSV cuts off.
func (c *CSV[T]) Append(row T) error {
	_, err := c.file.WriteString(line(row))
	if err == nil {
		err = c.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("write the row of iteration %d: %w", iterationOf(row), err)
	}
	return nil
}

// Close closes the file.
func (c *CSV[T]) Close() error { return c.file.Close() }

// header returns the first line of T's file.
func header[T any]() string { return strings.Join(progress.Columns[T](), ",") + "\n" }

// iterationOf returns a row's first field.
func iterationOf(row any) uint64 { return reflect.ValueOf(row).Field(0).Uint() }

// line returns a row's line in the file: floats with the fewest digits that round-trip, NaN as an empty field.
func line(row any) string {
	fields := reflect.ValueOf(row)
	texts := make([]string, fields.NumField())
	for i := range texts {
		switch field := fields.Field(i); {
		case field.CanUint():
			texts[i] = strconv.FormatUint(field.Uint(), 10)
		case !math.IsNaN(field.Float()):
			texts[i] = strconv.FormatFloat(field.Float(), 'g', -1, 64)
		}
	}
	return strings.Join(texts, ",") + "\n"
}

// parseLine reads a line, without its newline, that [line] wrote.
func parseLine[T any](line string) (row T, err error) {
	fields := reflect.ValueOf(&row).Elem()
	texts := strings.Split(line, ",")
	if len(texts) != fields.NumField() {
		return row, fmt.Errorf("%d fields, want %d", len(texts), fields.NumField())
	}
	for i, text := range texts {
		field := fields.Field(i)
		if field.CanUint() {
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return row, fmt.Errorf("%s: %.40q is not a count", progress.Columns[T]()[i], text)
			}
			field.SetUint(n)
			continue
		}
		v := math.NaN()
		if text != "" {
			if v, err = strconv.ParseFloat(text, 64); err != nil {
				return row, fmt.Errorf("%s: %.40q is not a number", progress.Columns[T]()[i], text)
			}
		}
		field.SetFloat(v)
	}
	return row, nil
}

// parse returns a file's rows of iterations before next, and the length in bytes of that part of it with its header, 0
// for a file without one. A torn or unreadable last line is left out; such a line elsewhere, or a row out of order, is
// an error.
func parse[T any](data []byte, next uint64) (rows []T, size int, err error) {
	size = bytes.IndexByte(data, '\n') + 1
	if size == 0 && strings.HasPrefix(header[T](), string(data)) {
		return nil, 0, nil // new, or killed in its first line
	}
	if string(data[:size]) != header[T]() {
		return nil, 0, fmt.Errorf("its columns are not those of this program (%s)", strings.TrimSpace(header[T]()))
	}
	for size < len(data) {
		line, rest, whole := bytes.Cut(data[size:], []byte("\n"))
		row, err := parseLine[T](string(line))
		iteration := iterationOf(row)
		if err == nil && len(rows) > 0 && iteration <= iterationOf(rows[len(rows)-1]) {
			err = fmt.Errorf("iteration %d after %d", iteration, iterationOf(rows[len(rows)-1]))
		}
		if !whole || err != nil && len(rest) == 0 {
			break
		}
		if err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", len(rows)+2, err)
		}
		if iteration >= next {
			break
		}
		rows, size = append(rows, row), size+len(line)+1
	}
	return rows, size, nil
}
