package runs

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/internal/config"
)

// The summary of a run names what was reached, the directory, and commands that exist.
func TestSummary(t *testing.T) {
	s := testSettings(t, filepath.Join(t.TempDir(), "a run"))
	s.Iterations = 3
	makeRun(t, s, 3)
	text, err := Summary(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"3 iterations and 45000 environment steps; last return ", "best evaluation ", "It is in " + s.RunDir + ". Next:",
		"go run ./learner evaluate '" + s.RunDir + "'\n", "go run ./learner export '" + s.RunDir + "' --to policy\n",
		"--run-dir '" + s.RunDir + "' --resume --iterations 6\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in%s", want, text)
		}
	}
	t.Log(text)
	s.Length = config.Length{Steps: 40_000}
	if text, err := Summary(s); err != nil || !strings.Contains(text, "--resume --steps 80000\n") {
		t.Errorf("%v, and no --steps in%s", err, text)
	}
	s.RunDir = t.TempDir()
	if _, err := Summary(s); err == nil {
		t.Error("a directory without a run has a summary")
	}
}
