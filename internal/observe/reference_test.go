package observe_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/dbqpg/dbqpg/internal/observe"
)

var update = flag.Bool("update", false, "write docs/metrics.md again")

// The reference is what the tables say.
func TestReference(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "metrics.md")
	want := observe.Reference()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s is not what the tables say (%v): write it again with go test ./internal/observe -update", path, err)
	}
}
