package raftnode

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
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
// The file begins with a [seal], twice; frames follow. A frame is a length, a checksum of this and all frames before it,
// and a [frame]. A write appends frames, syncs them, and then writes and syncs the seal, which has their end. So a file
// that is damaged, or shorter than its seal says, is told from one whose last write a crash has interrupted. The term
// and the vote are in the seal, in place, since raft panics if a full disk has no room for them. A snapshot begins a new
// file.
type records struct {
	directory string // "": in memory only
	lock      *os.File

	mu      sync.Mutex
	file    *os.File
	size    int64  // of the file: room is made in advance, to save the disk's own records of it
	sum     uint32 // of the frames
	failure error  // of the last write
	broken  bool   // no further write will be tried
	seal
	snapshot *frame     // nil: none
	entries  []raft.Log // consecutive
}

const (
	recordsFile = "records"
	memberFile  = "member" // holds the node's name, once it has taken part in a cluster
	sealSpace   = 512      // a disk writes a sector as a whole
	firstFrame  = 2 * sealSpace
	frameHead   = 12       // bytes of its length and checksum
	room        = 64 << 10 // bytes by which the file grows
)

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
			err = errors.Join(r.file.Sync(), r.write(nil)) // what was not sealed is now
		}
	}
	if owner := cmp.Or(strings.TrimSpace(string(name)), r.Node); err == nil && (owner != node || r.Node != node) {
		err = fmt.Errorf("%s holds the records of node %s, not of %s: give each node a directory of its own", r.directory,
			owner, node)
	}
	return member && !r.any(), err
}

// newRecords returns empty records in memory.
func newRecords(node string) *records {
	return &records{seal: seal{Node: node, Values: map[string][]byte{}}}
}

func (r *records) path() string { return filepath.Join(r.directory, recordsFile) }

// any reports whether there is anything from a cluster.
func (r *records) any() bool { return r.snapshot != nil || len(r.entries) > 0 }

// join notes that the node takes part in a cluster.
func (r *records) join() error {
	if r.directory == "" {
		return nil
	}
	return atomicfile.Write(filepath.Join(r.directory, memberFile), []byte(r.Node+"\n"))
}

// read reads a file. Frames beyond the seal were written, but not acknowledged: those that are whole are kept.
func (r *records) read(data []byte) error {
	first, second := data[:min(sealSpace, len(data))], data[min(sealSpace, len(data)):min(firstFrame, len(data))]
	if !r.decode(first) && !r.decode(second) {
		return fmt.Errorf("%s has no valid seal", r.path())
	}
	sealed := r.End
	r.End, r.size = firstFrame, int64(len(data))
	for rest := data[min(firstFrame, len(data)):]; len(rest) >= frameHead; {
		size, sum := binary.BigEndian.Uint64(rest), binary.BigEndian.Uint32(rest[8:])
		if uint64(len(rest)-frameHead) < size || add(r.sum, rest[:8], rest[frameHead:frameHead+size]) != sum {
			break
		}
		var f frame
		if err := msgpack.Unmarshal(rest[frameHead:frameHead+size], &f); err != nil {
			return fmt.Errorf("byte %d: %w", r.End, err)
		}
		r.apply(&f)
		r.sum, r.End, rest = sum, r.End+frameHead+int64(size), rest[frameHead+size:]
	}
	switch {
	case r.End < sealed:
		return fmt.Errorf("%s is intact up to byte %d of %d", r.path(), r.End, sealed)
	case r.snapshot != nil && len(r.entries) > 0 && r.entries[0].Index > r.snapshot.Snapshot.Index+1:
		return fmt.Errorf("%s has no entries between the snapshot and the log", r.path())
	}
	return nil
}

// apply changes the snapshot or the log.
func (r *records) apply(f *frame) {
	switch {
	case f.Snapshot != nil:
		r.snapshot = f
	case f.Entry == nil:
		r.entries = slices.DeleteFunc(r.entries, func(l raft.Log) bool { return f.From <= l.Index && l.Index <= f.To })
	default:
		// A gap follows a snapshot that the leader has sent: the entries before it are in the snapshot.
		if n := len(r.entries); n > 0 && f.Entry.Index != r.entries[n-1].Index+1 {
			r.entries = nil
		}
		r.entries = append(r.entries, *f.Entry)
	}
}

// frames returns the frames of a new file.
func (r *records) frames() (all []*frame) {
	if r.snapshot != nil {
		all = append(all, r.snapshot)
	}
	for i := range r.entries {
		all = append(all, &frame{Entry: &r.entries[i]})
	}
	return all
}

// write writes frames and values durably, and then has the records contain them.
func (r *records) write(values map[string][]byte, frames ...*frame) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken {
		return r.failure
	}
	next := r.seal
	next.Values = maps.Clone(r.Values)
	maps.Copy(next.Values, values)
	if r.directory != "" {
		if r.failure = r.append(&next, frames); r.failure != nil {
			return r.failure
		}
	}
	r.seal = next
	for _, f := range frames {
		r.apply(f)
	}
	return nil
}

// append writes frames and then the seal.
func (r *records) append(next *seal, frames []*frame) error {
	data, sum, err := encodeFrames(r.sum, frames...)
	if err != nil {
		return err
	}
	next.End += int64(len(data))
	if next.End > r.size {
		data = append(data, make([]byte, room)...)
	}
	if err := r.writeAt(data, r.End); err != nil {
		return err
	}
	r.size = max(r.size, r.End+int64(len(data)))
	head, err := next.encode()
	if err != nil {
		return err
	}
	if err = r.writeAt(head, 0); err == nil {
		_, err = r.file.WriteAt(head, sealSpace) // synced by the next write
	}
	r.sum, r.broken = sum, err != nil // the seal may count
	return err
}

func (r *records) writeAt(data []byte, at int64) error {
	if len(data) == 0 {
		return nil
	}
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
	next := r.seal
	next.End = firstFrame + int64(len(data))
	head, err := next.encode()
	if err != nil {
		return err
	}
	temporary := r.path() + atomicfile.Suffix
	file, err := os.OpenFile(temporary, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = file.Write(slices.Concat(head, head, data)); err == nil {
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
	r.file, r.seal, r.size, r.sum = file, next, next.End, sum
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
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.entries); n > 0 {
		return r.entries[n-1].Index, nil
	}
	return 0, nil
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
func (r *records) StoreLog(entry *raft.Log) error { return r.write(nil, &frame{Entry: entry}) }

// StoreLogs implements [raft.LogStore].
func (r *records) StoreLogs(entries []*raft.Log) error {
	var frames []*frame
	for _, entry := range entries {
		frames = append(frames, &frame{Entry: entry})
	}
	return r.write(nil, frames...)
}

// DeleteRange implements [raft.LogStore].
func (r *records) DeleteRange(from, to uint64) error { return r.write(nil, &frame{From: from, To: to}) }

// Set implements [raft.StableStore].
func (r *records) Set(key, value []byte) error {
	return r.write(map[string][]byte{string(key): value})
}

// Get implements [raft.StableStore].
func (r *records) Get(key []byte) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Values[string(key)], nil
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
