package bench_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/learner/bench"
)

// TestUpdatesOnly runs the command, small: its figures are nobody's business here, only that all are there.
func TestUpdatesOnly(t *testing.T) {
	cmd, out := bench.Command(), new(bytes.Buffer)
	cmd.SetOut(out)
	cmd.SetArgs([]string{"--updates-only", "--device", "cpu", "--rounds", "1", "--sizes", "2500", "--actors", "1"})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"update npg-mc", "update npg-uapg", "decomposition", "peak memory"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output has no %q:\n%s", want, out)
		}
	}
	if strings.Contains(out.String(), "bare mj_step") {
		t.Errorf("sampling was measured all the same:\n%s", out)
	}
}

func TestNothingToMeasure(t *testing.T) {
	cmd := bench.Command()
	cmd.SetArgs([]string{"--updates-only", "--sampling-only"})
	if err := cmd.ExecuteContext(t.Context()); err == nil {
		t.Error("a benchmark of nothing was run")
	}
}
