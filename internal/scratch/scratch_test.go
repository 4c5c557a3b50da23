package scratch

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// What a killed process leaves is removed by the next, and nothing of those that live.
func TestNew(t *testing.T) {
	const child = "SCRATCH_TEST_CHILD"
	if os.Getenv(child) != "" {
		d, err := New("a")
		if err == nil {
			err = os.WriteFile(filepath.Join(d.Path, "file"), nil, 0o600)
		}
		if err != nil {
			panic(err)
		}
		os.Exit(0) // without Close
	}
	t.Setenv("TMPDIR", t.TempDir())
	living, err := New("a")
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(os.TempDir(), "dbqpg.b.1")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	count := func(want int) {
		t.Helper()
		if entries, err := os.ReadDir(os.TempDir()); err != nil || len(entries) != want {
			t.Errorf("there are %v, %v; want %d", entries, err, want)
		}
	}
	cmd := exec.Command(os.Args[0], "-test.run=TestNew")
	cmd.Env = append(os.Environ(), child+"=1")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	count(3)
	next, err := New("a")
	if err != nil {
		t.Fatal(err)
	}
	count(3)
	if living.Path == next.Path {
		t.Error("two have the same directory")
	}
	for _, d := range []*Directory{living, next} {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	count(1)
}

// Many that begin at once do not take each other's for left.
func TestTogether(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				d, err := New("a")
				if err != nil {
					t.Error(err)
					return
				}
				if err := os.WriteFile(filepath.Join(d.Path, "file"), nil, 0o600); err != nil {
					t.Error(err)
				}
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
