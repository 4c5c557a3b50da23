package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/coordinator/registry"
)

// ask runs a command of the coordinator and returns what it writes.
func (c *cluster) ask(arguments ...string) string {
	c.t.Helper()
	out, err := c.runCoordinator(arguments)
	if err != nil {
		c.t.Fatalf("coordinator %v: %v\n%s", arguments, err, out)
	}
	return out
}

// refused runs a command of the coordinator's that must fail, and returns what it says.
func (c *cluster) refused(arguments ...string) string {
	c.t.Helper()
	out, err := c.runCoordinator(arguments)
	if err == nil {
		c.t.Errorf("coordinator %v succeeds:\n%s", arguments, out)
	}
	return out
}

// runCoordinator runs a command of the coordinator's with the cluster's addresses, and returns what it says.
func (c *cluster) runCoordinator(arguments []string) (string, error) {
	cmd := exec.Command(filepath.Join(programs, "coordinator"), arguments...)
	cmd.Env = append(os.Environ(), "DBQPG_COORDINATOR="+c.url)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// What an operator asks of a run that a worker trains: a worker that is drained gives it up to another, its rows and
// its best policy are to be had, and once done it is extended to the same bits as if it had been submitted so.
func TestOperator(t *testing.T) {
	t.Parallel()
	e := examples[1]
	short := *e
	short.iterations--
	c := newCluster(t)
	first := c.worker("", "--worker-name", "first", "--lease-term", "1h")
	name := c.submit(&short, "steered")
	first.iterations(1)
	if out := c.ask("drain", "first"); out != "first gets no more runs; 1 given back\n" {
		t.Error(out)
	}
	first.Expect("no runs for this worker")
	c.worker("", "--worker-name", "second").Expect("msg=taken .* epoch=2 ")
	c.done(name)
	listed := c.ask("list", "steered")
	if want := strconv.Itoa(short.iterations) + "/" + strconv.Itoa(short.iterations); !strings.Contains(listed, want) {
		t.Errorf("no %s in\n%s", want, listed)
	}
	if out := c.ask("metrics", name); strings.Count(out, "\n") != 1+short.iterations ||
		!strings.HasPrefix(out, "iteration,") {
		t.Errorf("%s", out)
	}
	if out := c.ask("metrics", name, "--last", "1", "--json"); strings.Count(out, `"return_mean"`) != 1 {
		t.Errorf("%s", out)
	}
	if out := c.ask("logs", name); !regexp.MustCompile(
		`(?s)msg=taken .* epoch=1 .*msg="gave the run up.*msg=taken .* epoch=2 .*msg="the run is done"`).MatchString(
		out) {
		t.Errorf("%s", out)
	}
	to := filepath.Join(t.TempDir(), "best")
	c.ask("fetch", name, "--to", to)
	start(t, "learner", "evaluate", to, "--episodes", "2").Succeed()
	c.ask("fetch", name, "--to", to) // again

	// It overwrites no other run, and nothing else.
	mine := filepath.Join(t.TempDir(), "mine")
	if err := os.CopyFS(mine, os.DirFS(to)); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"checkpoints/iteration-00000003.safetensors", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(mine, file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if out := c.refused("fetch", name, "--to", mine); !strings.Contains(out,
			mine+" has "+file+", which is not of a fetched run: choose another --to") {
			t.Error(out)
		}
		if err := os.Remove(filepath.Join(mine, file)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(mine, "config.yaml"), []byte("env: Hopper-v5\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := c.refused("fetch", name, "--to", mine); !strings.Contains(out,
		mine+" is of another run: choose another --to") {
		t.Error(out)
	}

	c.ask("extend", name, strconv.Itoa(e.iterations))
	run := c.await(name, func(run *registry.Run) bool {
		return run.State == registry.Done && run.Iteration() > uint64(short.iterations)
	})
	c.requireReference(e, run, 3)
	if _, there := run.Summary["best_return"]; !there {
		t.Errorf("no best return in %v", run.Summary)
	}
	// Reset to an earlier iteration, it comes to the same again.
	for _, arguments := range [][]string{
		{"reset", "steered", "--to", "5"}, {"reset", name, "--to", "-3"}, {"reset", name, "--to", "99"},
	} {
		if out := c.refused(arguments...); strings.Contains(out, "queued") {
			t.Error(out)
		}
	}
	before := strconv.Itoa(e.iterations - 1)
	if out := c.ask("reset", name, "--to", before); out != name+" is queued, to go on from iteration "+before+"\n" {
		t.Error(out)
	}
	c.requireReference(e, c.done(name))
	if out := c.ask("logs", name); !strings.Contains(out, `epoch=4 "from iteration"=`+before) {
		t.Errorf("%s", out)
	}
}
