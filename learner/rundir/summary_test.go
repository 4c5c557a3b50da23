package rundir

import (
	"path/filepath"
	"strings"
	"testing"
)

// The summary of a run names what was reached, the directory, and commands that exist.
func TestSummary(t *testing.T) {
	s := testSettings(t, filepath.Join(t.TempDir(), "a run"))
	makeRun(t, s, 3)
	text, err := Summary(s.RunDir)
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
	if _, err := Summary(t.TempDir()); err == nil {
		t.Error("a directory without a run has a summary")
	}
}
