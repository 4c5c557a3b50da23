package main_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A study killed with SIGKILL while it trains and while it measures, and started again each time, ends with the same
// bytes as one never stopped, page and figure included. What it measured before a kill it does not measure again.
func TestKilledStudy(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	study := func(directory string) *process {
		cmd := exec.Command(filepath.Join(programs, "learner"), strings.Fields("study gradient-quality --out out --env Hopper-v2 "+
			"--set batch=300 --set rank=8 --at 0,3 --sizes 100,200 --repeats 4 --reference 2000")...)
		cmd.Dir = directory
		return startCommand(t, cmd)
	}
	undisturbed, killed := t.TempDir(), t.TempDir()
	study(undisturbed).Succeed()

	for _, moment := range []string{"msg=training", `msg="measuring gradients" run=s1 iteration=0`, `msg="measuring gradients" run=s1 iteration=3`} {
		p := study(killed)
		p.Expect(moment)
		time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond) // a random moment, not a wait
		p.Kill()
	}
	units, err := filepath.Glob(filepath.Join(killed, "out", "units", "s1", "*", "*.safetensors"))
	if err != nil || len(units) == 0 {
		t.Fatalf("no unit was measured before the last kill: %v", err)
	}
	written := map[string]time.Time{}
	for _, path := range units {
		written[path] = modified(t, path)
	}
	study(killed).Succeed()

	for path, at := range written {
		if !modified(t, path).Equal(at) {
			t.Errorf("%s was measured again", path)
		}
	}
	for _, name := range []string{"README.md", "gradient-quality.svg", "gradient-quality.png", "quality.csv", "gradients.csv"} {
		want, err := os.ReadFile(filepath.Join(undisturbed, "out", name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(killed, "out", name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s of the study that was killed:\n%.3000s\nof the other:\n%.3000s", name, got, want)
		}
	}
}

func modified(t *testing.T, path string) time.Time {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}
