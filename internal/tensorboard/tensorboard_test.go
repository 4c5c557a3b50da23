package tensorboard

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// testdata/python.tfevents was written by TensorBoard 2.21.0's own record writer and protocol buffers.
func TestBytesAreTensorBoards(t *testing.T) {
	want, err := os.ReadFile("testdata/python.tfevents")
	if err != nil {
		t.Fatal(err)
	}
	at := time.UnixMilli(1593142952250)
	got := appendRecord(nil, versionEvent(at))
	got = appendRecord(got, startEvent(at, 300))
	got = appendRecord(got, scalarsEvent(at, 300, []Scalar{{Tag: "return/mean", Value: -1.5}, {Tag: "policy/kl"}}))
	if !bytes.Equal(got, want) {
		t.Errorf("wrote\n%x, want\n%x", got, want)
	}
}

// testdata/session.tfevents was written by TensorBoard 2.21.0's protocol buffers and its HParams plugin, with one
// hyperparameter in each session, since these are a map.
func TestSessionBytesAreTensorBoards(t *testing.T) {
	want, err := os.ReadFile("testdata/session.tfevents")
	if err != nil {
		t.Fatal(err)
	}
	at := time.UnixMilli(1593142952250)
	hyperparameters := []Hyperparameter{
		{"gamma", "discount factor", 0.995}, {"bootstrap", "at the limit", false}, {"env", "task", "x"},
	}
	got := appendRecord(nil, textEvent(at, 300, "settings", "```yaml\nenv: x\n```\n"))
	got = appendRecord(got, experimentEvent(at, 300, hyperparameters, []Metric{{"return/mean", "return", "Mean return"}}))
	for _, h := range hyperparameters {
		got = appendRecord(got, sessionEvent(at, 300, []Hyperparameter{h}))
	}
	got = appendRecord(got, scalarsEvent(at, 300, []Scalar{{Tag: "return/mean", Value: -1.5, Description: "Mean return"}}))
	if !bytes.Equal(got, want) {
		t.Errorf("wrote\n%x, want\n%x", got, want)
	}
}

// The description of a curve is in the first event of each file that has one.
func TestDescriptions(t *testing.T) {
	directory := t.TempDir()
	for start := range int64(2) {
		w := mustOpen(t, directory, 2*start)
		for step := range int64(2) {
			if err := w.Write(2*start+step, []Scalar{{Tag: "a/x", Value: 1, Description: "what it is"}}); err != nil {
				t.Fatal(err)
			}
		}
		file, err := os.ReadFile(w.file.Name())
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(file, []byte("what it is")); n != 1 {
			t.Errorf("start %d: the file has %d descriptions, want 1", start, n)
		}
	}
}

// point is one scalar as a reader sees it.
type point struct {
	step  int64
	tag   string
	value float32
}

// read is a plain reader of a directory: it reads every record of every file, in the order of names, without purging.
func read(t *testing.T, directory string) []point {
	t.Helper()
	entries, err := os.ReadDir(directory) // sorted by name
	if err != nil {
		t.Fatal(err)
	}
	var points []point
	for _, entry := range entries {
		file, err := os.ReadFile(filepath.Join(directory, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for len(file) > 0 {
			length := binary.LittleEndian.Uint64(file)
			points = append(points, pointsOf(t, file[12:12+length])...)
			file = file[12+length+4:]
		}
	}
	return points
}

// fields splits a message into its fields' numbers and raw values.
func fields(t *testing.T, message []byte, each func(number protowire.Number, kind protowire.Type, value []byte)) {
	t.Helper()
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			t.Fatalf("bad tag in %x", message)
		}
		size := protowire.ConsumeFieldValue(number, kind, message[n:])
		if size < 0 {
			t.Fatalf("bad field in %x", message)
		}
		each(number, kind, message[n:n+size])
		message = message[n+size:]
	}
}

func pointsOf(t *testing.T, event []byte) []point {
	t.Helper()
	var points []point
	var step int64
	fields(t, event, func(number protowire.Number, kind protowire.Type, value []byte) {
		switch number {
		case eventStep:
			v, _ := protowire.ConsumeVarint(value)
			step = int64(v)
		case eventSummary:
			summary, _ := protowire.ConsumeBytes(value)
			fields(t, summary, func(_ protowire.Number, _ protowire.Type, value []byte) {
				scalar, _ := protowire.ConsumeBytes(value)
				p := point{step: step}
				fields(t, scalar, func(number protowire.Number, kind protowire.Type, value []byte) {
					switch number {
					case valueTag:
						p.tag, _ = protowire.ConsumeString(value)
					case valueSimple:
						bits, _ := protowire.ConsumeFixed32(value)
						p.value = math.Float32frombits(bits)
					}
				})
				points = append(points, p)
			})
		}
	})
	return points
}

func mustOpen(t *testing.T, directory string, next int64) *Writer {
	t.Helper()
	w, err := Open(directory, next)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func mustWrite(t *testing.T, w *Writer, from, to int64) {
	t.Helper()
	for step := from; step < to; step++ {
		if err := w.Write(step, []Scalar{{Tag: "a/x", Value: float64(step)}, {Tag: "b/y", Value: -float64(step)}}); err != nil {
			t.Fatal(err)
		}
	}
}

func expectSteps(t *testing.T, directory string, from, to int64) {
	t.Helper()
	var want []point
	for step := from; step < to; step++ {
		want = append(want, point{step, "a/x", float32(step)}, point{step, "b/y", -float32(step)})
	}
	if got := read(t, directory); !slices.Equal(got, want) {
		t.Fatalf("files hold %v, want %v", got, want)
	}
}

// A run is killed and resumed again and again, with half a record at the end of its file or without, more than once
// within a second, and each time at an earlier step than it had reached: every step is there once, in order.
func TestResume(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	directory := filepath.Join(t.TempDir(), "a [directory] with * in its name")
	if err := os.Mkdir(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	var next int64
	for range 20 {
		next = max(0, next-rng.Int64N(3))
		w := mustOpen(t, directory, next)
		expectSteps(t, directory, 0, next)
		reached := next + rng.Int64N(5)
		mustWrite(t, w, next, reached)
		expectSteps(t, directory, 0, reached)
		record := appendRecord(nil, scalarsEvent(time.Now(), reached, []Scalar{{Tag: "a/x", Value: 1}}))
		if _, err := w.file.Write(record[:rng.IntN(len(record))]); err != nil {
			t.Fatal(err)
		}
		next = reached
	}
}

func TestOpenLeavesOtherFilesAlone(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "progress.csv")
	if err := os.WriteFile(path, []byte("events"), 0o644); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, directory, 0)
	if data, err := os.ReadFile(path); err != nil || string(data) != "events" {
		t.Errorf("another file holds %q, %v", data, err)
	}
	if _, err := Open(filepath.Join(directory, "missing"), 0); err == nil {
		t.Error("Open in a missing directory succeeded")
	}
}

// A clock set back, or a name from the future, must not put the new file before the old ones.
func TestNamesSortInOrderOfOpening(t *testing.T) {
	directory := t.TempDir()
	future := filepath.Join(directory, fmt.Sprintf("%s%010d.host", prefix, time.Now().Unix()+1000))
	if err := os.WriteFile(future, appendRecord(nil, versionEvent(time.Now())), 0o644); err != nil {
		t.Fatal(err)
	}
	w := mustOpen(t, directory, 0)
	if w.file.Name() <= future {
		t.Errorf("%s sorts before %s", w.file.Name(), future)
	}
}

func TestWriteToFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	w := &Writer{file: full}
	defer w.Close()
	if err := w.Write(7, []Scalar{{Tag: "x", Value: 1}}); err == nil {
		t.Error("Write to a full disk succeeded")
	}
}

func FuzzKeep(f *testing.F) {
	file := appendRecord(nil, versionEvent(time.Unix(1, 0)))
	for step := range int64(4) {
		file = appendRecord(file, scalarsEvent(time.Unix(1, 0), step, []Scalar{{Tag: "x", Value: 1}}))
	}
	f.Add(file, int64(2))
	f.Add(file[:len(file)-3], int64(9))
	f.Add(appendRecord(nil, []byte{0xff}), int64(9))
	f.Add(bytes.Repeat([]byte{0xff}, 64), int64(0))
	f.Fuzz(func(t *testing.T, file []byte, next int64) {
		kept := keep(file, next)
		if kept > len(file) {
			t.Fatalf("keeps %d bytes of %d", kept, len(file))
		}
		if again := keep(file[:kept], next); again != kept {
			t.Errorf("keeps %d bytes, then %d of those", kept, again)
		}
		// The same data behind valid checksums reach the events' own decoder.
		record := appendRecord(nil, file)
		if kept := keep(record, next); kept != 0 && kept != len(record) {
			t.Errorf("keeps %d bytes of one record of %d", kept, len(record))
		}
	})
}
