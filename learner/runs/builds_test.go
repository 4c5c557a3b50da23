package runs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/internal/progress"
)

// A build is recorded from the first iteration that it trains on, once.
func TestTrainedBy(t *testing.T) {
	directory := t.TempDir()
	for _, step := range []struct {
		iteration uint64
		program   string
		want      string
	}{
		{0, "a", "[{0 a m}]"},
		{0, "b", "[{0 b m}]"}, // the first has committed nothing
		{5, "b", "[{0 b m}]"},
		{7, "c", "[{0 b m} {7 c m}]"},
		{7, "d", "[{0 b m} {7 d m}]"},
		{9, "b", "[{0 b m} {7 d m} {9 b m}]"},
		{7, "b", "[{0 b m}]"}, // from an older checkpoint
	} {
		if err := TrainedBy(directory, Build{step.iteration, step.program, "m"}); err != nil {
			t.Fatal(err)
		}
		builds, err := Builds(directory)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(builds); got != step.want {
			t.Errorf("after %s at %d: %s, want %s", step.program, step.iteration, got, step.want)
		}
	}
	if builds, err := Builds(t.TempDir()); builds != nil || err != nil {
		t.Errorf("of an earlier program's run: %v, %v", builds, err)
	}
	if err := os.WriteFile(filepath.Join(directory, progress.BuildsName), []byte("- iteration: x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := TrainedBy(directory, Build{}); err == nil || !strings.Contains(err.Error(), progress.BuildsName) {
		t.Errorf("a damaged record: %v", err)
	}
}
