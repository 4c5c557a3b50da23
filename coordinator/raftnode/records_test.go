package raftnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/faultstest"
)

// reopen closes records and reads them again.
func reopen(t *testing.T, r *records) *records {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	again, _, err := openRecords(r.directory, r.Node)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// requireEqual fails unless two records have the same contents.
func requireEqual(t *testing.T, got, want *records) {
	t.Helper()
	a, sum, err1 := encodeFrames(0, got.frames()...)
	b, wanted, err2 := encodeFrames(0, want.frames()...)
	if err1 != nil || err2 != nil || sum != wanted || !bytes.Equal(a, b) || got.Node != want.Node ||
		!maps.EqualFunc(got.Values, want.Values, bytes.Equal) {
		t.Fatalf("seal %+v, %d entries, want %+v, %d (%v, %v)", got.seal, len(got.entries), want.seal, len(want.entries),
			err1, err2)
	}
}

// After any writes the file has the contents that memory has.
func TestRecordsOnDisk(t *testing.T) {
	rng := faultstest.Rand(faultstest.Seed(t), 0)
	disk, _, err := openRecords(t.TempDir(), "n1")
	if err != nil {
		t.Fatal(err)
	}
	memory := newRecords("n1")
	both := func(do func(*records) error) {
		t.Helper()
		if err := errors.Join(do(disk), do(memory)); err != nil {
			t.Fatal(err)
		}
	}
	next := uint64(1)
	for range 300 {
		first, _ := memory.FirstIndex()
		last, _ := memory.LastIndex()
		switch rng.IntN(8) {
		case 0:
			both(func(r *records) error { return r.SetUint64(keyTerm, next) })
		case 1:
			if last > first+1 { // the leader has others
				next = first + 1 + rng.Uint64N(last-first)
				both(func(r *records) error { return r.DeleteRange(next, last) })
			}
		case 2:
			if last == 0 {
				break
			}
			if rng.IntN(3) == 0 { // the leader's snapshot, beyond this node's log
				last, next = last+10, last+11
			}
			both(func(r *records) error { return takeSnapshot(r, last) })
			both(func(r *records) error { return r.DeleteRange(first, max(last, 3)-3) })
		case 3:
			disk = reopen(t, disk)
			requireEqual(t, disk, memory)
		default:
			var entries []*raft.Log
			for range 1 + rng.IntN(4) {
				entries = append(entries, &raft.Log{Index: next, Term: 3, Data: fmt.Appendf(nil, "%d", rng.Uint64()),
					AppendedAt: time.Unix(int64(next), 5).UTC()})
				next++
			}
			both(func(r *records) error { return r.StoreLogs(entries) })
		}
	}
	disk = reopen(t, disk)
	defer disk.Close()
	requireEqual(t, disk, memory)
	for index := range next + 2 {
		var a, b raft.Log
		if err1, err2 := disk.GetLog(index, &a), memory.GetLog(index, &b); !errors.Is(err1, err2) || a.Index != b.Index {
			t.Errorf("entry %d: %+v, %v, want %+v, %v", index, a, err1, b, err2)
		}
	}
}

// takeSnapshot has records keep a snapshot up to an index.
func takeSnapshot(r *records, index uint64) error {
	sink, err := r.Create(raft.SnapshotVersionMax, index, 3, servers("n1"), 1, nil)
	if err != nil {
		return err
	}
	state := registry.New()
	state.Index = index
	return snapshot{state}.Persist(sink)
}

// full returns a directory of a node that has answered some commands, before and after a snapshot, and its records.
func full(t *testing.T) (data []byte, want *records) {
	t.Helper()
	directory := t.TempDir()
	n := open(t, directory)
	for i := range 60 {
		if r, err := n.Propose(deadline(t), submit(fmt.Sprint("e", i), 1)); err != nil || r.Refusal != nil {
			t.Fatal(r, err)
		}
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(directory, recordsFile))
	if err != nil {
		t.Fatal(err)
	}
	return data[:n.records.End], n.records
}

// Of records in which any bit is another, or whose end is missing, nothing is lost in silence: they are refused, or are
// all there.
func TestDamagedRecords(t *testing.T) {
	rng := faultstest.Rand(faultstest.Seed(t), 0)
	data, want := full(t)
	if want.snapshot == nil || len(want.entries) == 0 {
		t.Fatal("no snapshot or no entries: the test shows nothing")
	}
	flips, refused := faultstest.Count(300, 10_000), 0
	directory := t.TempDir()
	for i := range flips {
		damaged := bytes.Clone(data)
		var what string
		switch at := rng.IntN(len(data)); i % 8 {
		case 0:
			damaged, what = damaged[:at], fmt.Sprintf("cut at byte %d", at)
		case 1: // in the seals
			at %= firstFrame
			fallthrough
		default:
			damaged[at] ^= 1 << rng.IntN(8)
			what = fmt.Sprintf("byte %d is %d in place of %d", at, damaged[at], data[at])
		}
		if err := os.WriteFile(filepath.Join(directory, recordsFile), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		r, _, err := openRecords(directory, "n1")
		switch {
		case len(damaged) == 0:
			_ = r.Close() // TestLostRecords
		case err == nil:
			requireEqual(t, r, want)
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		case !strings.Contains(err.Error(), "the records in "+directory+" are damaged"):
			t.Fatalf("%s: %v", what, err)
		default:
			refused++
		}
	}
	if refused < flips/2 {
		t.Errorf("%d of %d files are refused", refused, flips)
	}
	faultstest.Report(t, "%d damaged files, %d refused, all others with the same contents", flips, refused)
}

// A write that a crash has cut short is as if it had not been begun.
func TestUnfinishedWrite(t *testing.T) {
	data, want := full(t)
	directory := t.TempDir()
	rest, _, err := encodeFrames(want.sum, &frame{Entry: &raft.Log{Index: 1 << 40}})
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(rest) {
		whole := append(bytes.Clone(data), rest[:n]...)
		if err := os.WriteFile(filepath.Join(directory, recordsFile), whole, 0o600); err != nil {
			t.Fatal(err)
		}
		r, _, err := openRecords(directory, "n1")
		if err != nil {
			t.Fatalf("%d of %d bytes: %v", n, len(rest), err)
		}
		requireEqual(t, r, want)
		r = reopen(t, r)
		requireEqual(t, r, want)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A lone node whose records are gone says so, and stops; so does one in another node's directory.
func TestLostRecords(t *testing.T) {
	directory := t.TempDir()
	n := open(t, directory)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	refused := func(id, want string, restore *registry.State) {
		t.Helper()
		l := listen(t)
		n, err := Open(context.Background(), Config{ID: id, DataDir: directory, Listener: l, Restore: restore,
			Peers: []Peer{{id, l.Addr().String()}}, Log: slog.New(slog.DiscardHandler), Timing: timing})
		if err == nil {
			_ = n.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", id, err, want)
		}
	}
	refused("n2", "holds the records of node n1, not of n2", nil)
	file := filepath.Join(directory, recordsFile)
	for _, lose := range []func() error{
		func() error { return os.Remove(file) },
		func() error { return os.Truncate(file, 0) },
	} {
		if err := lose(); err != nil {
			t.Fatal(err)
		}
		refused("n1", "the records of n1 in "+directory+" are gone", nil)
		refused("n1", "the records of n1 in "+directory+" are gone", registry.New())
		refused("n2", "holds the records of node n1, not of n2", nil)
	}
}

// While entries are written, LastIndex never goes back.
func TestLastIndexBesideWrites(t *testing.T) {
	const entries = 2000
	r := newRecords("n1")
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := range uint64(entries) {
			if err := r.StoreLog(&raft.Log{Index: i + 1}); err != nil {
				t.Error(err)
			}
			if i%100 == 99 {
				if err := r.DeleteRange(1, i); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for last := uint64(0); last < entries; {
		index, err := r.LastIndex()
		if err != nil || index < last {
			t.Fatalf("%d after %d: %v", index, last, err)
		}
		last = index
	}
	writing.Wait()
}
