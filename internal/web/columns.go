package web

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/dbqpg/dbqpg/internal/store"
)

// maxCached bounds the memory of cached columns, in bytes. The least recently used tables are dropped first.
const maxCached = 128 << 20

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
	data, err := in.GetFrom(ctx, t.key, t.offset-int64(len(t.last)))
	if errors.Is(err, fs.ErrNotExist) {
		t.forget()
		return nil
	}
	if err != nil {
		return err
	}
	fresh, same := bytes.CutPrefix(data, t.last)
	if !same { // another file: a run that was resumed from an earlier iteration, or began anew
		t.forget()
		if fresh, err = in.GetFrom(ctx, t.key, 0); err != nil {
			return err
		}
	}
	t.parse(fresh)
	return nil
}

func (t *table) forget() {
	t.header, t.values, t.rows, t.offset, t.last = nil, nil, 0, 0, nil
}

// parse adds whole lines.
func (t *table) parse(data []byte) {
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	if len(data) == 0 {
		return
	}
	if t.header == nil {
		first, _, _ := bytes.Cut(data, []byte("\n"))
		t.offset, data = t.offset+int64(len(first)+1), data[len(first)+1:]
		t.last = append(slices.Clone(first), '\n')
		t.values = map[string][]float32{}
		for _, name := range strings.Split(string(first), ",") {
			t.header = append(t.header, name)
			if t.all || slices.Contains(t.asked, name) {
				t.values[name] = make([]float32, 0, bytes.Count(data, []byte("\n")))
			}
		}
		if len(data) == 0 {
			return
		}
	}
	kept := make([][]float32, 0, len(t.header)) // nil: not wanted; up to the last that is
	for i, name := range t.header {
		if values := t.values[name]; values != nil {
			kept = append(kept, make([][]float32, i-len(kept))...)
			kept = append(kept, values)
		}
	}
	for line := range bytes.Lines(data) {
		t.offset += int64(len(line))
		t.last = line
		line = line[:len(line)-1]
		for i := range kept {
			field, rest, _ := bytes.Cut(line, []byte(","))
			line = rest
			if kept[i] != nil {
				kept[i] = append(kept[i], float32(parseNumber(field)))
			}
		}
		t.rows++
	}
	t.last = slices.Clone(t.last)
	for i, values := range kept {
		if values != nil {
			t.values[t.header[i]] = values
		}
	}
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
