package raftnode

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/hashicorp/raft"
	"github.com/vmihailenco/msgpack/v5"
	"golang.org/x/sys/unix"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/atomicfile"
)

// records is all that a node remembers, in one file: its name, the latest snapshot, the log since then, the term and
// the vote. It is raft's log store, stable store and snapshot store. Everything is in memory as well; the file is read
// once, as a whole.
//
// The file begins with two seals, each of which says how many bytes of frames have been acknowledged; the later one
// counts. A frame is a length, a checksum of this and all frames before it, and a [frame]. A write appends frames,
// syncs them, then writes the other seal and syncs that. So a file that is damaged, or shorter than its seal says, is
// told from one whose last write a crash has interrupted. A snapshot begins a new file.
type records struct {
	directory string // "": in memory only
	lock      *os.File

	mu      sync.Mutex
	file    *os.File
	end     int64  // of the frames
	size    int64  // of the file: room is made in advance, to save the disk's own records of it
	sum     uint32 // of the frames
	seals   uint64 // written so far
	failure error  // of the last write
	broken  bool   // no further write will be tried
	contents
}

// contents is the meaning of a file's frames.
type contents struct {
	node     string
	snapshot *frame // nil: none
	values   map[string][]byte
	entries  []raft.Log // consecutive
}

// frame is one change of the contents: exactly one of its parts is set.
type frame struct {
	_msgpack struct{} `msgpack:",as_array"`
	Node     string
	Snapshot *raft.SnapshotMeta
	State    []byte // of the snapshot
	Key      string
	Value    []byte
	Entry    *raft.Log
	From, To uint64 // the entries to delete
}

const (
	recordsFile = "records"
	memberFile  = "member" // holds the node's name, once it has taken part in a cluster
	sealSpace   = 512      // a disk writes a sector as a whole
	firstFrame  = 2 * sealSpace
	frameHead   = 12 // bytes of its length and checksum
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// openRecords reads a node's records, or begins new ones. lost reports that the node has taken part in a cluster and
// nothing else is left of its records.
func openRecords(directory, node string) (r *records, lost bool, err error) {
	r = newRecords(node)
	r.directory = directory
	if lost, err = r.open(node); err != nil {
		_ = r.Close() // report the first error
		return nil, false, err
	}
	return r, lost, nil
}

func (r *records) open(node string) (lost bool, err error) {
	if r.lock, err = os.Open(r.directory); err != nil {
		return false, err
	}
	if syscall.Flock(int(r.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return false, fmt.Errorf("%s is in use: another node runs in that data directory", r.directory)
	}
	name, err := os.ReadFile(filepath.Join(r.directory, memberFile))
	member := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	data, err := os.ReadFile(r.path())
	switch {
	case len(data) == 0 && (err == nil || errors.Is(err, fs.ErrNotExist)):
		err = r.rewrite()
	case err == nil:
		if err = r.read(data); err != nil {
			return false, fmt.Errorf("the records in %s are damaged (%w): with other nodes, remove the directory and "+
				"start this node again, to join them; else restore a backup to an empty directory (docs/coordinator.md)",
				r.directory, err)
		}
		if r.file, err = os.OpenFile(r.path(), os.O_RDWR, 0); err == nil {
			err = r.append(nil) // what was written, but not acknowledged
		}
	}
	if owner := cmp.Or(strings.TrimSpace(string(name)), r.node); err == nil && (owner != node || r.node != node) {
		err = fmt.Errorf("%s holds the records of node %s, not of %s: give each node a directory of its own", r.directory,
			owner, node)
	}
	return member && !r.any(), err
}

// newRecords returns empty records in memory.
func newRecords(node string) *records {
	return &records{contents: contents{node: node, values: map[string][]byte{}}}
}

func (r *records) path() string { return filepath.Join(r.directory, recordsFile) }

// any reports whether there is anything from a cluster.
func (r *records) any() bool { return r.snapshot != nil || len(r.entries) > 0 }

// join notes that the node takes part in a cluster.
func (r *records) join() error {
	if r.directory == "" {
		return nil
	}
	return atomicfile.Write(filepath.Join(r.directory, memberFile), []byte(r.node+"\n"))
}

// read reads a file. Frames after the last seal were written, but not acknowledged: those that are whole are kept.
func (r *records) read(data []byte) error {
	sealed := int64(0)
	for at := 0; at < firstFrame; at += sealSpace {
		if seal := data[min(at, len(data)):]; len(seal) >= 20 &&
			binary.BigEndian.Uint32(seal[16:]) == crc32.Checksum(seal[:16], castagnoli) {
			if n := binary.BigEndian.Uint64(seal); n > r.seals {
				r.seals, sealed = n, int64(binary.BigEndian.Uint64(seal[8:]))
			}
		}
	}
	r.node, r.end, r.size = "", firstFrame, int64(len(data))
	for rest := data[min(firstFrame, len(data)):]; len(rest) >= frameHead; {
		size, sum := binary.BigEndian.Uint64(rest), binary.BigEndian.Uint32(rest[8:])
		if uint64(len(rest)-frameHead) < size || add(r.sum, rest[:8], rest[frameHead:frameHead+size]) != sum {
			break
		}
		var f frame
		if err := msgpack.Unmarshal(rest[frameHead:frameHead+size], &f); err != nil {
			return fmt.Errorf("byte %d: %w", r.end, err)
		}
		r.apply(&f)
		r.sum, r.end, rest = sum, r.end+frameHead+int64(size), rest[frameHead+size:]
	}
	switch {
	case sealed == 0:
		return fmt.Errorf("%s has no valid seal", r.path())
	case r.end < sealed:
		return fmt.Errorf("%s is intact up to byte %d of %d", r.path(), r.end, sealed)
	case r.snapshot != nil && len(r.entries) > 0 && r.entries[0].Index > r.snapshot.Snapshot.Index+1:
		return fmt.Errorf("%s has no entries between the snapshot and the log", r.path())
	}
	return nil
}

// add returns the checksum of frames with another one.
func add(sum uint32, size, content []byte) uint32 {
	return crc32.Update(crc32.Update(sum, castagnoli, size), castagnoli, content)
}

// apply changes the contents.
func (c *contents) apply(f *frame) {
	switch {
	case f.Snapshot != nil:
		c.snapshot = f
	case f.Key != "":
		c.values[f.Key] = f.Value
	case f.To > 0:
		c.delete(f.From, f.To)
	case f.Entry != nil:
		// A gap follows a snapshot that the leader has sent: the entries before it are in the snapshot.
		if n := len(c.entries); n > 0 && f.Entry.Index != c.entries[n-1].Index+1 {
			c.entries = nil
		}
		c.entries = append(c.entries, *f.Entry)
	default:
		c.node = f.Node
	}
}

// delete deletes the first entries, or the last ones.
func (c *contents) delete(from, to uint64) {
	c.entries = slices.DeleteFunc(c.entries, func(l raft.Log) bool { return from <= l.Index && l.Index <= to })
}

// frames returns the contents of a new file.
func (c *contents) frames() []*frame {
	all := []*frame{{Node: c.node}}
	if c.snapshot != nil {
		all = append(all, c.snapshot)
	}
	for _, key := range slices.Sorted(maps.Keys(c.values)) {
		all = append(all, &frame{Key: key, Value: c.values[key]})
	}
	for i := range c.entries {
		all = append(all, &frame{Entry: &c.entries[i]})
	}
	return all
}

// encodeFrames returns frames after others with a checksum, and the checksum of all.
func encodeFrames(sum uint32, frames ...*frame) (data []byte, all uint32, err error) {
	for _, f := range frames {
		content, err := msgpack.Marshal(f)
		if err != nil {
			return nil, 0, err
		}
		size := binary.BigEndian.AppendUint64(nil, uint64(len(content)))
		sum = add(sum, size, content)
		data = append(binary.BigEndian.AppendUint32(append(data, size...), sum), content...)
	}
	return data, sum, nil
}

// seal returns the seal of a file of that length.
func (r *records) seal(end int64) []byte {
	data := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, r.seals+1), uint64(end))
	return binary.BigEndian.AppendUint32(data, crc32.Checksum(data, castagnoli))
}

// write writes frames durably, and then changes the contents. The caller does not hold mu.
func (r *records) write(frames ...*frame) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken {
		return r.failure
	}
	if r.directory != "" {
		if r.failure = r.append(frames); r.failure != nil {
			return r.failure
		}
	}
	for _, f := range frames {
		r.apply(f)
	}
	return nil
}

func (r *records) append(frames []*frame) error {
	data, sum, err := encodeFrames(r.sum, frames...)
	if err != nil {
		return err
	}
	end, room := r.end+int64(len(data)), []byte(nil)
	if end > r.size {
		room = make([]byte, 64<<10)
	}
	if err := r.writeAt(append(data, room...), r.end); err != nil {
		return err
	}
	r.size = max(r.size, end+int64(len(room)))
	if err := r.writeAt(r.seal(end), int64(r.seals%2)*sealSpace); err != nil {
		r.broken = true // the seal may count
		return err
	}
	r.seals, r.end, r.sum = r.seals+1, end, sum
	return nil
}

func (r *records) writeAt(data []byte, at int64) error {
	if _, err := r.file.WriteAt(data, at); err != nil {
		return err
	}
	return unix.Fdatasync(int(r.file.Fd()))
}

// rewrite begins a new file with the contents. The caller holds mu.
func (r *records) rewrite() error {
	if r.directory == "" {
		return nil
	}
	data, sum, err := encodeFrames(0, r.frames()...)
	if err != nil {
		return err
	}
	start, end := make([]byte, firstFrame), firstFrame+int64(len(data))
	copy(start[r.seals%2*sealSpace:], r.seal(end))
	temporary := r.path() + atomicfile.Suffix
	file, err := os.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = file.Write(append(start, data...)); err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = os.Rename(temporary, r.path())
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	if r.file != nil {
		_ = r.file.Close() // it is gone
	}
	r.file, r.end, r.size, r.sum, r.seals = file, end, end, sum, r.seals+1
	r.failure = atomicfile.SyncDir(r.directory)
	r.broken = r.failure != nil
	return r.failure
}

// Close closes the file. In memory the records remain.
func (r *records) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.directory == "" {
		return nil
	}
	r.broken, r.failure = true, os.ErrClosed
	err := r.lock.Close()
	if r.file != nil {
		err = errors.Join(err, r.file.Close())
	}
	return err
}

// err returns the error of the last write.
func (r *records) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure
}

// FirstIndex implements [raft.LogStore].
func (r *records) FirstIndex() (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.entries) == 0 {
		return 0, nil
	}
	return r.entries[0].Index, nil
}

// LastIndex implements [raft.LogStore].
func (r *records) LastIndex() (uint64, error) {
	first, err := r.FirstIndex()
	return max(first+uint64(len(r.entries)), 1) - 1, err
}

// GetLog implements [raft.LogStore].
func (r *records) GetLog(index uint64, entry *raft.Log) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.entries); n > 0 && r.entries[0].Index <= index && index <= r.entries[n-1].Index {
		*entry = r.entries[index-r.entries[0].Index]
		return nil
	}
	return raft.ErrLogNotFound
}

// StoreLog implements [raft.LogStore].
func (r *records) StoreLog(entry *raft.Log) error { return r.write(&frame{Entry: entry}) }

// StoreLogs implements [raft.LogStore].
func (r *records) StoreLogs(entries []*raft.Log) error {
	var frames []*frame
	for _, entry := range entries {
		frames = append(frames, &frame{Entry: entry})
	}
	return r.write(frames...)
}

// DeleteRange implements [raft.LogStore].
func (r *records) DeleteRange(from, to uint64) error { return r.write(&frame{From: from, To: to}) }

// Set implements [raft.StableStore].
func (r *records) Set(key, value []byte) error {
	return r.write(&frame{Key: string(key), Value: value})
}

// Get implements [raft.StableStore].
func (r *records) Get(key []byte) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.values[string(key)], nil
}

// SetUint64 implements [raft.StableStore].
func (r *records) SetUint64(key []byte, value uint64) error {
	return r.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 implements [raft.StableStore].
func (r *records) GetUint64(key []byte) (uint64, error) {
	value, err := r.Get(key)
	if len(value) != 8 {
		return 0, err
	}
	return binary.BigEndian.Uint64(value), err
}

// List implements [raft.SnapshotStore].
func (r *records) List() ([]*raft.SnapshotMeta, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.snapshot == nil {
		return nil, nil
	}
	return []*raft.SnapshotMeta{r.snapshot.Snapshot}, nil
}

// Open implements [raft.SnapshotStore].
func (r *records) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.snapshot == nil || r.snapshot.Snapshot.ID != id {
		return nil, nil, fmt.Errorf("a newer snapshot has replaced %s", id)
	}
	return r.snapshot.Snapshot, io.NopCloser(bytes.NewReader(r.snapshot.State)), nil
}

// Create implements [raft.SnapshotStore].
func (r *records) Create(version raft.SnapshotVersion, index, term uint64, members raft.Configuration, since uint64,
	_ raft.Transport,
) (raft.SnapshotSink, error) {
	return &sink{records: r, meta: raft.SnapshotMeta{Version: version, ID: fmt.Sprintf("%d-%d", term, index),
		Index: index, Term: term, Configuration: members, ConfigurationIndex: since}}, nil
}

// sink is a snapshot to be.
type sink struct {
	bytes.Buffer
	records *records
	meta    raft.SnapshotMeta
}

// ID implements [raft.SnapshotSink].
func (s *sink) ID() string { return s.meta.ID }

// Cancel implements [raft.SnapshotSink].
func (s *sink) Cancel() error { return nil }

// Close makes the snapshot the records' own if it can be read, and if there is no later one.
func (s *sink) Close() error {
	if _, err := registry.Decode(bytes.NewReader(s.Bytes())); err != nil {
		return err
	}
	r := s.records
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken || r.snapshot != nil && r.snapshot.Snapshot.Index > s.meta.Index {
		return r.failure
	}
	s.meta.Size = int64(s.Len())
	before := r.snapshot
	r.snapshot = &frame{Snapshot: &s.meta, State: s.Bytes()}
	err := r.rewrite()
	if err != nil {
		r.snapshot = before
	}
	return err
}
