package bundle_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/dbqpg/dbqpg/internal/download"
	"github.com/dbqpg/dbqpg/internal/web/bundle"
)

// fetch fetches packages, or skips the test where they cannot be had.
func fetch(t *testing.T, packages []bundle.Package) {
	t.Helper()
	if err := bundle.Fetch(t.Context(), bundle.Cache(), packages...); errors.Is(err, download.ErrUnavailable) {
		t.Skipf("%v: the network is needed once, for go run ./internal/web/build --fetch", err)
	} else if err != nil {
		t.Fatal(err)
	}
}

// The files that are committed are those that the sources make.
func TestBuiltFilesAreOfTheSources(t *testing.T) {
	fetch(t, bundle.Libraries)
	files, err := bundle.Build()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(bundle.Built())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if files[e.Name()] == nil {
			t.Errorf("dist/%s is made of nothing: run make web", e.Name())
		}
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(bundle.Built(), name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("dist/%s is not what the sources make (%v): run make web", name, err)
		}
	}
}

// The sources have no errors of types.
func TestTypes(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the type checker is fetched for Linux on x86_64 only")
	}
	fetch(t, append(bundle.Libraries, bundle.Checkers...))
	checker := filepath.Join(bundle.Cache(), "node_modules", "@typescript", "native-preview-linux-x64", "lib", "tsgo")
	if output, err := exec.Command(checker, "--pretty", "false", "--project", bundle.Sources()).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}
