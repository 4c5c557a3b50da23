package progress

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
)

// CSV appends rows to a file of comma-separated values.
type CSV struct {
	file *os.File
}

// OpenCSV opens the file at path for the rows of iterations from next on, creating it with its header. In an existing
// file it keeps the rows before next; whatever a killed run wrote beyond its last checkpoint, including half a line, is
// cut off by replacing the file atomically. kept is the number of remaining rows.
//
// A file with other columns, or damaged before its last line, is an error and remains unchanged.
func OpenCSV(path string, next uint64) (c *CSV, kept int, err error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, fmt.Errorf("read the rows so far: %w", err)
	}
	repaired, kept, err := cut(data, next)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w; move the file away to go on without it", path, err)
	}
	if !bytes.Equal(repaired, data) {
		if err := atomicfile.Write(path, repaired); err != nil {
			return nil, 0, fmt.Errorf("cut off rows from iteration %d on: %w", next, err)
		}
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, 0, fmt.Errorf("open for more rows: %w", err)
	}
	return &CSV{file: file}, kept, nil
}

// ReadCSV returns the rows of the file at path.
func ReadCSV(path string) ([]Row, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var rows []Row
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n")[1:] {
		row, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, i+2, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// Append writes one row and syncs it to disk, so that a checkpoint is never ahead of its rows. An error may leave half
// a line, which the next OpenCSV cuts off.
func (c *CSV) Append(row Row) error {
	if _, err := c.file.WriteString(row.line()); err != nil {
		return fmt.Errorf("write the row of iteration %d: %w", row.Iteration, err)
	}
	if err := c.file.Sync(); err != nil {
		return fmt.Errorf("write the row of iteration %d: %w", row.Iteration, err)
	}
	return nil
}

// Close closes the file.
func (c *CSV) Close() error { return c.file.Close() }

func header() string { return strings.Join(Columns(), ",") + "\n" }

// line returns the row's line in the file: floats with the fewest digits that round-trip, NaN as an empty field.
func (r Row) line() string {
	fields := reflect.ValueOf(r)
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

// parseLine reads a line, without its newline, that [Row.line] wrote.
func parseLine(line string) (Row, error) {
	texts := strings.Split(line, ",")
	if len(texts) != rowType.NumField() {
		return Row{}, fmt.Errorf("%d fields, want %d", len(texts), rowType.NumField())
	}
	row := NewRow()
	fields := reflect.ValueOf(&row).Elem()
	for i, text := range texts {
		field := fields.Field(i)
		if field.CanUint() {
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return Row{}, fmt.Errorf("%s: %.40q is not a count", Columns()[i], text)
			}
			field.SetUint(n)
		} else if text != "" {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return Row{}, fmt.Errorf("%s: %.40q is not a number", Columns()[i], text)
			}
			field.SetFloat(v)
		}
	}
	return row, nil
}

// cut returns the part of a file to keep, its header and the rows of iterations before next, and the number of these.
// A torn or unreadable last line is dropped; such a line elsewhere, or a row out of order, is an error.
func cut(data []byte, next uint64) (repaired []byte, rows int, err error) {
	size := bytes.IndexByte(data, '\n') + 1
	if size == 0 && strings.HasPrefix(header(), string(data)) {
		return []byte(header()), 0, nil // new, or killed in its first line
	}
	if string(data[:size]) != header() {
		return nil, 0, fmt.Errorf("its columns are not those of this program (%s)", strings.TrimSpace(header()))
	}
	last := uint64(0)
	for number := 2; size < len(data); number++ {
		line, rest, whole := bytes.Cut(data[size:], []byte("\n"))
		row, err := parseLine(string(line))
		if err == nil && rows > 0 && row.Iteration <= last {
			err = fmt.Errorf("iteration %d after %d", row.Iteration, last)
		}
		if !whole || err != nil && len(rest) == 0 {
			break
		}
		if err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", number, err)
		}
		if row.Iteration >= next {
			break
		}
		last, rows, size = row.Iteration, rows+1, size+len(line)+1
	}
	return data[:size], rows, nil
}
