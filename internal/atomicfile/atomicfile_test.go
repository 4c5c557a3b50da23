package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func contents(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func names(t *testing.T, directory string) []string {
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

func TestWriteReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, text := range []string{"a long first text", "short", ""} {
		if err := Write(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got := contents(t, path); got != text {
			t.Errorf("file holds %q, want %q", got, text)
		}
	}
	if left := names(t, filepath.Dir(path)); len(left) != 1 {
		t.Errorf("directory holds %q, want the file alone", left)
	}
}

// A full disk: /dev/full, put in the temporary file's place, refuses every write with ENOSPC.
func TestWriteToFullDiskKeepsTheOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := Write(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/full", path+Suffix); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("new")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Write to a full disk: %v, want %v", err, syscall.ENOSPC)
	}
	if got := contents(t, path); got != "old" {
		t.Errorf("after the failure the file holds %q", got)
	}
	if left := names(t, filepath.Dir(path)); len(left) != 1 {
		t.Errorf("directory holds %q, want the old file alone", left)
	}
}

func TestWriteErrors(t *testing.T) {
	directory := t.TempDir()
	if err := Write(filepath.Join(directory, "missing", "file"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Write into a missing directory: %v", err)
	}
	target := filepath.Join(directory, "target")
	if err := os.MkdirAll(filepath.Join(target, "occupied"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Write(target, []byte("x")); err == nil {
		t.Error("Write over a directory succeeded")
	}
	if left := names(t, directory); len(left) != 1 {
		t.Errorf("directory holds %q, want no temporary file", left)
	}
}

func TestClean(t *testing.T) {
	directory := t.TempDir()
	for _, name := range []string{"a", "a" + Suffix, "b" + Suffix} {
		if err := os.WriteFile(filepath.Join(directory, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := Clean(directory); err != nil {
		t.Fatal(err)
	}
	if left := names(t, directory); len(left) != 1 || left[0] != "a" {
		t.Errorf("directory holds %q, want a", left)
	}
	if err := Clean(filepath.Join(directory, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Clean of a missing directory: %v", err)
	}
}
