package tensorboard

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
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
	got = appendRecord(got, startEvent(at))
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
	got := appendRecord(nil, textEvent(at, "settings", "```yaml\nenv: x\n```\n"))
	got = appendRecord(got, experimentEvent(at, hyperparameters, []Metric{{"return/mean", "return", "Mean return"}}))
	for _, h := range hyperparameters {
		got = appendRecord(got, sessionEvent(at, []Hyperparameter{h}))
	}
	got = appendRecord(got, scalarsEvent(at, 300,
		[]Scalar{{Tag: "return/mean", Value: -1.5, Description: "Mean return"}}))
	if !bytes.Equal(got, want) {
		t.Errorf("wrote\n%x, want\n%x", got, want)
	}
}

// The description of a curve is in the first event that has it.
func TestDescriptions(t *testing.T) {
	w := mustCreate(t, t.TempDir())
	for step := range int64(2) {
		if err := w.Write(time.Now(), step, []Scalar{{Tag: "a/x", Value: 1, Description: "what it is"}}); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(w.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(file, []byte("what it is")); n != 1 {
		t.Errorf("the file has %d descriptions, want 1", n)
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
		case 2: // step
			v, _ := protowire.ConsumeVarint(value)
			step = int64(v)
		case 5: // summary
			summary, _ := protowire.ConsumeBytes(value)
			fields(t, summary, func(_ protowire.Number, _ protowire.Type, value []byte) {
				scalar, _ := protowire.ConsumeBytes(value)
				p := point{step: step}
				fields(t, scalar, func(number protowire.Number, kind protowire.Type, value []byte) {
					switch number {
					case 1: // tag
						p.tag, _ = protowire.ConsumeString(value)
					case 2: // simple_value
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

func mustCreate(t *testing.T, directory string) *Writer {
	t.Helper()
	w, err := Create(directory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// Each start of a run writes a file of its own, more than once within a second, and removes the earlier ones.
func TestCreateReplaces(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "a [directory] with * in its name")
	if err := os.Mkdir(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	earlier := ""
	for start := range int64(5) {
		w := mustCreate(t, directory)
		var want []point
		for step := range start {
			if err := w.Write(time.Now(), step,
				[]Scalar{{Tag: "a/x", Value: float64(step)}, {Tag: "b/y", Value: -1}}); err != nil {
				t.Fatal(err)
			}
			want = append(want, point{step, "a/x", float32(step)}, point{step, "b/y", -1})
		}
		if got := read(t, directory); !slices.Equal(got, want) {
			t.Fatalf("files hold %v, want %v", got, want)
		}
		if w.file.Name() <= earlier {
			t.Errorf("%s does not sort after %s", w.file.Name(), earlier)
		}
		earlier = w.file.Name()
	}
}

func TestCreateLeavesOtherFilesAlone(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "progress.csv")
	if err := os.WriteFile(path, []byte("events"), 0o644); err != nil {
		t.Fatal(err)
	}
	mustCreate(t, directory)
	if data, err := os.ReadFile(path); err != nil || string(data) != "events" {
		t.Errorf("another file holds %q, %v", data, err)
	}
	if _, err := Create(filepath.Join(directory, "missing")); err == nil {
		t.Error("Create in a missing directory succeeded")
	}
}

// A clock set back, or a name from the future, must not put the new file before the old ones.
func TestNamesSortInOrderOfOpening(t *testing.T) {
	directory := t.TempDir()
	future := filepath.Join(directory, fmt.Sprintf("%s%010d.host", prefix, time.Now().Unix()+1000))
	if err := os.WriteFile(future, appendRecord(nil, versionEvent(time.Now())), 0o644); err != nil {
		t.Fatal(err)
	}
	w := mustCreate(t, directory)
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
	if err := w.Write(time.Now(), 7, []Scalar{{Tag: "x", Value: 1}}); err == nil {
		t.Error("Write to a full disk succeeded")
	}
}
