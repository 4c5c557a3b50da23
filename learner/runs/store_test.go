package runs

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
)

// stateOf returns a state all of whose numbers are its iteration.
func stateOf(iteration uint64, numbers int) *State {
	values := make([]float64, numbers)
	for i := range values {
		values[i] = float64(iteration)
	}
	return &State{Counters: Counters{Iteration: iteration, Steps: 10 * iteration}, Arrays: map[string][]float64{"x": values}}
}

func mustOpenStore(t *testing.T, directory string) (*Store, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	store, err := OpenStore(directory, exampleSettings(), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return store, &log
}

func mustSave(t *testing.T, store *Store, iterations ...uint64) {
	t.Helper()
	for _, i := range iterations {
		if err := store.Save(stateOf(i, 4)); err != nil {
			t.Fatal(err)
		}
	}
}

func expectLoad(t *testing.T, store *Store, iteration uint64) {
	t.Helper()
	state, err := store.Load()
	if err != nil {
		t.Fatal(err)
	}
	if want := stateOf(iteration, 4); !reflect.DeepEqual(state, want) {
		t.Errorf("loaded %+v, want %+v", state, want)
	}
}

func files(t *testing.T, directory string) []string {
	t.Helper()
	entries, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func expectFiles(t *testing.T, directory string, want ...string) {
	t.Helper()
	if got := files(t, directory); !slices.Equal(got, want) {
		t.Errorf("directory holds %q, want %q", got, want)
	}
}

func TestStoreKeepsTheNewestTwoAndTheBest(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "checkpoints")
	store, log := mustOpenStore(t, directory)
	if state, err := store.Load(); state != nil || err != nil {
		t.Errorf("an empty store loads %v, %v", state, err)
	}
	mustSave(t, store, 0, 1)
	if err := store.KeepBest(Best{Return: 3.5, Iteration: 1}); err != nil {
		t.Fatal(err)
	}
	mustSave(t, store, 2, 3, 99_999_999, 100_000_000)
	expectFiles(t, directory, "best.safetensors", "iteration-100000000.safetensors", "iteration-99999999.safetensors")
	store, _ = mustOpenStore(t, directory)
	expectLoad(t, store, 100_000_000)
	data, err := os.ReadFile(filepath.Join(directory, BestName))
	if err != nil {
		t.Fatal(err)
	}
	if best, _, err := Decode(data); err != nil || best.Iteration != 1 || *best.Best != (Best{Return: 3.5, Iteration: 1}) {
		t.Errorf("best is %+v, %v; want that of iteration 1, and to say so itself", best, err)
	}
	if log.Len() > 0 {
		t.Errorf("logged %s", log)
	}
}

func TestStoreKeepsWhatItIsTold(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "checkpoints")
	store, _ := mustOpenStore(t, directory)
	store.Keep(0, 3, 100)
	mustSave(t, store, 0, 1, 2, 3, 4, 5, 6)
	expectFiles(t, directory, "iteration-00000000.safetensors", "iteration-00000003.safetensors",
		"iteration-00000005.safetensors", "iteration-00000006.safetensors")
	if got, err := Iterations(directory); err != nil || !slices.Equal(got, []uint64{0, 3, 5, 6}) {
		t.Errorf("checkpoints of iterations %v, %v", got, err)
	}
	state, settings, err := Read(directory, 3)
	if err != nil || !reflect.DeepEqual(state, stateOf(3, 4)) || !maps.Equal(settings, exampleSettings()) {
		t.Errorf("read %+v, %v, %v", state, settings, err)
	}
	if _, _, err := Read(directory, 4); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read a checkpoint that is not there: %v", err)
	}
}

func TestNewest(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "checkpoints")
	if _, ok, err := Newest(directory); ok || err != nil {
		t.Errorf("a missing directory has a newest checkpoint: %v, %v", ok, err)
	}
	store, _ := mustOpenStore(t, directory)
	mustSave(t, store, 9, 10)
	for _, name := range []string{"iteration-11.safetensors", "iteration-00000012.safetensors.tmp", "iteration-0000000x.safetensors"} {
		if err := os.WriteFile(filepath.Join(directory, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if iteration, ok, err := Newest(directory); iteration != 10 || !ok || err != nil {
		t.Errorf("newest is %d, %v, %v; want 10", iteration, ok, err)
	}
}

func TestOpenRemovesUnfinishedFiles(t *testing.T) {
	directory := t.TempDir()
	store, _ := mustOpenStore(t, directory)
	mustSave(t, store, 1)
	if err := os.WriteFile(store.path(2)+atomicfile.Suffix, []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	store, _ = mustOpenStore(t, directory)
	expectFiles(t, directory, "iteration-00000001.safetensors")
	expectLoad(t, store, 1)
}

// damage changes the file of an iteration.
func damage(t *testing.T, store *Store, iteration uint64, how func(data []byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(store.path(iteration))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(store.path(iteration), how(data), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestLoadFallsBack(t *testing.T) {
	for name, how := range map[string]func([]byte) []byte{
		"empty":                func([]byte) []byte { return nil },
		"cut short":            func(data []byte) []byte { return data[:len(data)/2] },
		"a bit changed":        func(data []byte) []byte { data[len(data)/2] ^= 1; return data },
		"of another iteration": func([]byte) []byte { return mustEncode(t, stateOf(3, 4), exampleSettings()) },
	} {
		t.Run(name, func(t *testing.T) {
			directory := t.TempDir()
			store, _ := mustOpenStore(t, directory)
			mustSave(t, store, 4, 5)
			damage(t, store, 5, how)
			store, log := mustOpenStore(t, directory)
			expectLoad(t, store, 4)
			if text := log.String(); !strings.Contains(text, "iteration-00000005") || !strings.Contains(text, "iteration-00000004") {
				t.Errorf("the warning is %q, want one that names both files", text)
			}
			// The run does iteration 5 again; the damaged file must not cost the good one its place.
			mustSave(t, store, 5)
			expectFiles(t, directory, "iteration-00000004.safetensors", "iteration-00000005.safetensors", "iteration-00000005.safetensors.corrupt")
			expectLoad(t, store, 5)
		})
	}
}

func TestLoadOfNothingButCorruptFiles(t *testing.T) {
	directory := t.TempDir()
	store, _ := mustOpenStore(t, directory)
	mustSave(t, store, 4, 5)
	before := files(t, directory)
	for _, i := range []uint64{4, 5} {
		damage(t, store, i, func(data []byte) []byte { return data[1:] })
	}
	_, err := store.Load()
	if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), store.path(4)) || !strings.Contains(err.Error(), store.path(5)) {
		t.Errorf("error %v, want one that names both files", err)
	}
	expectFiles(t, directory, before...)
}

func TestLoadRefusesOtherSettings(t *testing.T) {
	directory := t.TempDir()
	store, _ := mustOpenStore(t, directory)
	mustSave(t, store, 1)
	settings := exampleSettings()
	settings["batch"] = "16000"
	delete(settings, "seed")
	settings["rank"] = "30"
	other, err := OpenStore(directory, settings, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, err = other.Load()
	var mismatch *MismatchError
	if !errors.As(err, &mismatch) {
		t.Fatalf("error %v, want a MismatchError", err)
	}
	want := []Difference{{"batch", "15000", "16000"}, {"rank", "", "30"}, {"seed", "1", ""}}
	if !slices.Equal(mismatch.Differences, want) {
		t.Errorf("differences %v, want %v", mismatch.Differences, want)
	}
	text := "made with other settings: batch was 15000 and is now 16000, rank was not set and is now 30, seed was 1 and is now not set"
	if !strings.HasSuffix(err.Error(), text) || !strings.Contains(err.Error(), store.path(1)) {
		t.Errorf("error is %q, want the file's name and %q", err, text)
	}
	if _, checked := Peek(directory, settings); checked == nil || checked.Error() != err.Error() {
		t.Errorf("Check says %v, and Load %v", checked, err)
	}
	expectLoad(t, store, 1)
}

func TestCheckChangesNothing(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "checkpoints")
	if _, err := Peek(directory, exampleSettings()); err != nil {
		t.Errorf("a missing directory: %v", err)
	}
	store, _ := mustOpenStore(t, directory)
	mustSave(t, store, 4, 5)
	before := files(t, directory)
	damage(t, store, 5, func(data []byte) []byte { return data[1:] })
	if _, err := Peek(directory, exampleSettings()); err != nil {
		t.Errorf("one whole checkpoint of two: %v", err)
	}
	expectFiles(t, directory, before...)
	damage(t, store, 4, func(data []byte) []byte { return data[1:] })
	if _, err := Peek(directory, exampleSettings()); !errors.Is(err, ErrCorrupt) {
		t.Errorf("none whole: %v", err)
	}
	expectFiles(t, directory, before...)
}

func TestLoadRefusesAnotherVersion(t *testing.T) {
	directory := t.TempDir()
	store, _ := mustOpenStore(t, directory)
	mustSave(t, store, 1, 2)
	damage(t, store, 2, func(data []byte) []byte {
		return seal(bytes.Replace(data, []byte(format), []byte("dbqpg checkpoint 9"), 1))
	})
	if _, err := store.Load(); !errors.Is(err, ErrVersion) {
		t.Errorf("Load of another version's checkpoint: %v", err)
	}
	expectFiles(t, directory, "iteration-00000001.safetensors", "iteration-00000002.safetensors")
}

// A full disk: /dev/full in the temporary file's place refuses every write.
func TestSaveToFullDisk(t *testing.T) {
	directory := t.TempDir()
	store, _ := mustOpenStore(t, directory)
	mustSave(t, store, 1, 2)
	for _, path := range []string{store.path(3), filepath.Join(directory, BestName)} {
		if err := os.Symlink("/dev/full", path+atomicfile.Suffix); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Save(stateOf(3, 4)); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "checkpoint of iteration 3") {
		t.Errorf("Save to a full disk: %v", err)
	}
	if err := store.KeepBest(Best{Return: 3.5, Iteration: 1}); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "best checkpoint") {
		t.Errorf("KeepBest on a full disk: %v", err)
	}
	expectFiles(t, directory, "iteration-00000001.safetensors", "iteration-00000002.safetensors")
	expectLoad(t, store, 2)
}

func TestKeepBestBeforeSave(t *testing.T) {
	store, _ := mustOpenStore(t, t.TempDir())
	if err := store.KeepBest(Best{Return: 3.5, Iteration: 1}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("KeepBest without a checkpoint: %v", err)
	}
}
