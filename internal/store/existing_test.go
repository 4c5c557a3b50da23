package store_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/dbqpg/dbqpg/internal/store"
)

// Who only reads makes no directory.
func TestOpenExisting(t *testing.T) {
	there := t.TempDir()
	if _, err := store.OpenExisting(t.Context(), there); err != nil {
		t.Error(err)
	}
	missing := filepath.Join(there, "missing")
	if _, err := store.OpenExisting(t.Context(), missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that there is not: %v", err)
	}
	if left, err := os.ReadDir(there); err != nil || len(left) > 0 {
		t.Errorf("it has made %v, %v", left, err)
	}
}
