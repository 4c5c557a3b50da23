package main_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
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
		cmd := exec.Command(filepath.Join(programs, "study"), strings.Fields("gradient-quality --out out --env Hopper-v2 "+
			"--set batch=300 --set rank=8 --at 0,3 --sizes 100,200 --repeats 4 --reference 2000")...)
		cmd.Dir = directory
		return startCommand(t, cmd)
	}
	undisturbed, killed := t.TempDir(), t.TempDir()
	study(undisturbed).Succeed()

	for _, moment := range []string{"msg=training", `msg="measuring gradients" task=Hopper-v2 iteration=0`,
		`msg="measuring gradients" task=Hopper-v2 iteration=3`} {
		p := study(killed)
		p.Expect(moment)
		time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond) // a random moment, not a wait
		p.Kill()
	}
	measured := filepath.Join(killed, "out", "data", "Hopper-v2", "iteration-0.csv")
	before := modified(t, measured)
	study(killed).Succeed()

	if !modified(t, measured).Equal(before) {
		t.Errorf("%s was measured again", measured)
	}
	for _, name := range []string{"README.md", "accuracy.svg", "variance.png", "quality.csv", "contrasts.csv", "data/Hopper-v2/iteration-3.csv"} {
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

// A queue of runs made two at a time, killed with SIGKILL and interrupted, ends with what an undisturbed one publishes that
// makes one after the other.
func TestKilledQueue(t *testing.T) {
	t.Parallel()
	const queue = "- env: Hopper-v2\n  algorithm: npg\n  estimator: [mc, dbqpg]\n  seed: [1, 2]\n  iterations: 3\n  batch: 300\n  rank: 8\n"
	study := func(directory string, parallel string) *process {
		if err := os.WriteFile(filepath.Join(directory, "queue.yaml"), []byte(queue), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(filepath.Join(programs, "study"), "curves", "--out", "out", "--queue", "queue.yaml", "--parallel", parallel)
		cmd.Dir = directory
		return startCommand(t, cmd)
	}
	undisturbed, killed := t.TempDir(), t.TempDir()
	study(undisturbed, "1").Succeed()
	p := study(killed, "2")
	p.Expect("msg=training")
	p.Expect("msg=training")
	p.Kill()
	p = study(killed, "2")
	p.Expect("msg=written") // a run is complete, and others are under way
	p.MayFail()
	p.Signal(syscall.SIGINT)
	if status := p.Wait(); status != 130 {
		t.Errorf("interrupted, the study ended with status %d:\n%s", status, p.Log())
	}
	study(killed, "2").Succeed()

	tables, err := filepath.Glob(filepath.Join(undisturbed, "out", "data", "Hopper-v2", "*.csv"))
	if err != nil || len(tables) != 4 {
		t.Fatalf("published are %q, %v", tables, err)
	}
	for _, path := range tables {
		want, got := results(t, path), results(t, filepath.Join(killed, "out", "data", "Hopper-v2", filepath.Base(path)))
		if got != want {
			t.Errorf("%s of the study that was killed:\n%s\nof the other:\n%s", filepath.Base(path), got, want)
		}
	}
}

// results returns a run's published table without its last columns, the seconds.
func results(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(data)) {
		fields := strings.Split(line, ",")
		out.WriteString(strings.Join(fields[:len(fields)-2], ",") + "\n")
	}
	return out.String()
}
