package web

import (
	"bufio"
	"bytes"
	"container/list"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/dbqpg/dbqpg/internal/store"
)

const (
	// maxCached bounds the memory of cached columns, in bytes. The least recently used tables are dropped first.
	maxCached = 128 << 20
	// A table is read as far as it has at most so many columns, cells that are kept, and bytes in a line.
	maxColumns = 256
	maxCells   = 8 << 20
	maxLine    = 64 << 10
)

// columns caches columns of the runs' tables, progress.csv and evaluations.csv, and reads only the rows added to them.
type columns struct {
	store store.Store

	mu     sync.Mutex
	tables map[string]*list.Element // of *table by keys
	recent *list.List               // the most recently used first
	bytes  int
	bound  int // of bytes: maxCached
}

// table caches columns of a file.
type table struct {
	key string

	mu     sync.Mutex
	asked  []string // columns to keep, or
	all    bool     // all of them
	header []string
	values map[string][]float32 // columns of the same length, to as many digits as a screen shows
	rows   int
	offset int64  // bytes read, to the end of a line
	last   []byte // line before the offset, by which a file that was replaced is known
	size   int    // counted in columns.bytes; guarded by columns.mu
}

func newColumns(s store.Store) *columns {
	return &columns{store: s, tables: map[string]*list.Element{}, recent: list.New(), bound: maxCached}
}

// read returns columns of a table in a run's directory, all if none are named, with NaN where the table has no number.
// A table that does not exist yet has no columns. The slices are not changed afterwards.
func (c *columns) read(ctx context.Context, directory, name string, wanted ...string) (map[string][]float32, error) {
	t := c.table(path.Join(directory, name))
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.update(ctx, c.store, wanted); err != nil {
		return nil, err
	}
	found := map[string][]float32{}
	for name, values := range t.values {
		if len(wanted) == 0 || slices.Contains(wanted, name) {
			found[name] = values[:t.rows:t.rows]
		}
	}
	c.resize(t)
	return found, nil
}

// table returns a key's, as the most recently used.
func (c *columns) table(key string) *table {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.tables[key]; ok {
		c.recent.MoveToFront(e)
		return e.Value.(*table)
	}
	t := &table{key: key}
	c.tables[key] = c.recent.PushFront(t)
	return t
}

// resize counts a table, and forgets others while there are too many.
func (c *columns) resize(t *table) {
	size := 0
	for _, values := range t.values {
		size += 4 * cap(values)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tables[t.key] == nil { // forgotten meanwhile
		return
	}
	c.bytes += size - t.size
	t.size = size
	for c.bytes > c.bound && c.recent.Len() > 1 {
		oldest := c.recent.Remove(c.recent.Back()).(*table)
		delete(c.tables, oldest.key)
		c.bytes -= oldest.size
	}
}

// update reads the rows added to the file, or all of it if it was replaced or for a column that was not asked for
// before.
func (t *table) update(ctx context.Context, in store.Store, wanted []string) error {
	missing := func(name string) bool {
		return !t.all && !slices.Contains(t.asked, name) && (t.header == nil || slices.Contains(t.header, name))
	}
	if len(wanted) == 0 && !t.all || slices.ContainsFunc(wanted, missing) {
		t.all, t.asked = t.all || len(wanted) == 0, append(t.asked, wanted...)
		t.forget()
	}
	file, err := in.Open(ctx, t.key, t.offset-int64(len(t.last)))
	if err == nil {
		defer file.Close()
		same := make([]byte, len(t.last))
		if _, err = io.ReadFull(file, same); err == nil && bytes.Equal(same, t.last) {
			err = t.parse(file)
		} else if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			t.forget() // another file: a run that was resumed from an earlier iteration, or began anew
			return t.update(ctx, in, wanted)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		t.forget()
		return nil
	}
	return err
}

func (t *table) forget() {
	t.header, t.values, t.rows, t.offset, t.last = nil, nil, 0, 0, nil
}

// parse adds whole lines. One that has not as many cells as the header is no row.
func (t *table) parse(file io.Reader) error {
	in := bufio.NewReaderSize(file, maxLine)
	if t.header == nil {
		first, err := in.ReadSlice('\n')
		if err != nil || bytes.Count(first, []byte(",")) >= maxColumns {
			return unended(err)
		}
		t.offset, t.last = int64(len(first)), slices.Clone(first)
		t.header = strings.Split(strings.TrimSuffix(string(first), "\n"), ",")
		t.values = map[string][]float32{}
		for _, name := range t.header {
			if t.all || slices.Contains(t.asked, name) {
				t.values[name] = []float32{}
			}
		}
	}
	kept := make([][]float32, len(t.header)) // nil: not wanted
	for i, name := range t.header {
		kept[i] = t.values[name]
	}
	var err error
	var last []byte
	for t.rows*len(t.values) < maxCells {
		var line []byte
		if line, err = in.ReadSlice('\n'); err != nil {
			break
		}
		t.offset += int64(len(line))
		last = append(last[:0], line...)
		line = line[:len(line)-1]
		if bytes.Count(line, []byte(",")) != len(t.header)-1 {
			continue
		}
		for i := range kept {
			field, rest, _ := bytes.Cut(line, []byte(","))
			line = rest
			if kept[i] != nil {
				kept[i] = append(kept[i], float32(parseNumber(field)))
			}
		}
		t.rows++
	}
	if last != nil {
		t.last = last
	}
	for i, values := range kept {
		if values != nil {
			t.values[t.header[i]] = values
		}
	}
	return unended(err)
}

// unended drops the error of a line that has not ended, or is too long to be one.
func unended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, bufio.ErrBufferFull) {
		return nil
	}
	return err
}

// parseNumber returns a finite number, or NaN.
func parseNumber(field []byte) float64 {
	if len(field) > 0 {
		if v, err := strconv.ParseFloat(string(field), 64); err == nil && !math.IsInf(v, 0) {
			return v
		}
	}
	return nan
}
