package faultstest

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
)

// What was synced survives a power failure, and nothing else does: not the rest of that file, nor another file, nor its
// data under a new name.
func TestDisk(t *testing.T) {
	disk := NewDisk(t)
	path := func(name string) string { return filepath.Join(disk.Path, name) }
	if err := atomicfile.Write(path("synced"), []byte("first")); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path("synced"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteString(" second")
	err = errors.Join(err, file.Close(), os.WriteFile(path("new"), []byte("text"), 0o600),
		os.Rename(path("new"), path("renamed")))
	if err != nil {
		t.Fatal(err)
	}
	// it has the file system too
	elsewhere := exec.Command("unshare", "--mount", "sh", "-c", "echo ready; exec sleep 1000")
	said, err := elsewhere.StdoutPipe()
	if err == nil {
		err = elsewhere.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(said, make([]byte, len("ready"))); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = elsewhere.Process.Kill()
		_ = elsewhere.Wait()
	}()
	disk.Cut()
	if data, err := os.ReadFile(path("synced")); err != nil || string(data) != "first" {
		t.Errorf("synced holds %q, %v", data, err)
	}
	for _, name := range []string{"new", "renamed"} {
		if data, err := os.ReadFile(path(name)); len(data) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s holds %q, %v", name, data, err)
		}
	}
	if err := atomicfile.Write(path("later"), []byte("x")); err != nil {
		t.Errorf("with power again: %v", err)
	}
}
