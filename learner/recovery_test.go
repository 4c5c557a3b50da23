package main_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/faultstest"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
)

// One run's checkpoints are lost: it fails alone, with the reason, and the workers train the others. Reset, it is
// trained anew.
func TestLostCheckpoint(t *testing.T) {
	t.Parallel()
	e := examples[1]
	c := newCluster(t)
	lost := c.submit(e, "lost")
	c.worker("kill@committed:3").Wait()
	if err := os.RemoveAll(filepath.Join(c.checkpoints, "lost")); err != nil {
		t.Fatal(err)
	}
	healthy := c.submit(e, "healthy")
	workers := []*process{c.worker("", "--lease-term", "500ms"), c.worker("", "--lease-term", "500ms")}
	failed := c.await(lost, func(run *registry.Run) bool { return run.State == registry.Failed })
	if !strings.Contains(failed.Reason, failed.Checkpoint.Location) || !strings.Contains(failed.Reason, "missing") {
		t.Errorf("it failed because of %q", failed.Reason)
	}
	c.requireReference(e, c.done(healthy))
	c.command("reset", lost)
	c.requireReference(e, c.done(lost))
	for _, worker := range workers {
		worker.Signal(syscall.SIGTERM)
		worker.Succeed()
	}
}

// A coordinator that is restored from a backup finds its workers still training, beyond what it knows, or killed; the
// run goes on from its newest checkpoint.
func TestRestoredCoordinator(t *testing.T) {
	t.Parallel()
	rng, restores := faultstest.Rand(faultstest.Seed(t), 0), faultstest.Count(1, 50)
	e := examples[1]
	c := newCluster(t)
	for i := range restores {
		known := 1 + rng.IntN(2)
		c.restoreAndTrain(e, c.submit(e, fmt.Sprint("restored", i)), uint64(known), known+1+rng.IntN(4), i > 0 &&
			rng.IntN(2) == 0)
	}
	faultstest.Report(t, "%d backups restored up to four iterations later; runs went on from the "+
		"newest checkpoint, to the same bits", restores)
}

// restoreAndTrain has a coordinator restored from a backup that knows a run's first iterations, when more are
// committed. The worker goes on, or is killed, and another does.
func (c *cluster) restoreAndTrain(e *example, name string, known uint64, committed int, kill bool) {
	t := c.t
	t.Helper()
	worker := c.worker(fmt.Sprint("stop@acknowledged:", committed+1))
	c.await(name, func(run *registry.Run) bool { return run.Iteration() >= known })
	var backup bytes.Buffer
	if err := c.client.Backup(t.Context(), &backup); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "backup")
	if err := os.WriteFile(file, backup.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	worker.awaitStop()
	c.coordinator.Kill()
	c.flags[2] = filepath.Join(t.TempDir(), "data")
	c.coordinator = start(t, "coordinator", append(c.flags, "--restore", file)...)
	c.coordinator.Expect("msg=ready")
	done := 0
	if kill {
		worker.Kill()
		done = strings.Count(worker.Log(), `msg="iteration done"`)
		worker = c.worker("")
	} else {
		worker.Signal(syscall.SIGCONT)
		worker.Expect("gave the run up|is no longer this worker's") // the latter where it had nothing left to train
	}
	c.requireReference(e, c.done(name))
	if done += strings.Count(worker.Log(), `msg="iteration done"`); done > e.iterations+1 {
		t.Errorf("%d iterations were done, of %d", done, e.iterations)
	}
	worker.Signal(syscall.SIGTERM)
	worker.Succeed()
}

// A name that is used again is another run's: nothing of the old one is resumed or overwritten.
func TestNameUsedAgain(t *testing.T) {
	t.Parallel()
	e := examples[1]
	c := newCluster(t)
	name := c.submit(e, "mid", registry.Override{Name: "learning_rate", Values: []string{"0.001"}})
	zombie := c.worker("stop@finishing:1")
	zombie.awaitStop()
	old, err := c.client.Run(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	c.command("cancel", "mid")
	c.command("remove", "mid")
	before := c.files(old.Checkpoint.Location)
	c.submit(e, "mid")
	second := c.worker("stop@acknowledged:3", "--lease-term", "1h")
	second.awaitStop()
	zombie.Signal(syscall.SIGCONT)
	zombie.Expect("gave the run up|is no longer this worker's")
	if now, err := c.client.Run(t.Context(), name); err != nil || now.State != registry.Running {
		t.Errorf("the run is %+v, %v, after another's worker said that it is done", now, err)
	}
	second.Signal(syscall.SIGCONT)
	c.requireReference(e, c.done(name))
	if after := c.files(old.Checkpoint.Location); after != before {
		t.Errorf("the files of the removed run were\n%s\nand are\n%s", before, after)
	}
}

// files lists the files of the epoch that a checkpoint is of, with their sizes.
func (c *cluster) files(location string) (list string) {
	c.t.Helper()
	err := filepath.WalkDir(filepath.Join(c.checkpoints, filepath.FromSlash(filepath.Dir(filepath.Dir(location)))),
		func(name string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			info, err := entry.Info()
			if err == nil {
				list += fmt.Sprintln(name, info.Size(), info.ModTime().UnixNano())
			}
			return err
		})
	if err != nil {
		c.t.Error(err)
	}
	return list
}

// command executes a coordinator's command.
func (c *cluster) command(arguments ...string) string {
	c.t.Helper()
	output, err := exec.Command(filepath.Join(programs, "coordinator"),
		append(arguments, "--coordinator", c.url)...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("coordinator %s: %v\n%s", strings.Join(arguments, " "), err, output)
	}
	return string(output)
}

// TensorBoard's files in the store are as far as the commits while a run is being trained.
func TestEventsAreLive(t *testing.T) {
	t.Parallel()
	e := examples[1]
	c := newCluster(t)
	name := c.submit(e, "live")
	worker := c.worker("stop@acknowledged:4", "--lease-term", "1h")
	run := c.await(name, func(run *registry.Run) bool { return run.Iteration() == 3 })
	worker.awaitStop()
	files, err := filepath.Glob(filepath.Join(c.checkpoints,
		filepath.FromSlash(filepath.Dir(filepath.Dir(run.Checkpoint.Location))), "events.out.tfevents.*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("event files: %q, %v", files, err)
	}
	first, err := os.ReadFile(files[0])
	if err != nil || bytes.Count(first, []byte("return/mean")) < 3 {
		t.Errorf("%d bytes of events, %v, without the returns of three iterations", len(first), err)
	}
}

// What killed workers leave in the temporary directory the next one removes, and nothing of those that live.
func TestTemporaryFiles(t *testing.T) {
	t.Parallel()
	e := examples[1]
	c := newCluster(t)
	temporary := t.TempDir()
	c.environment = []string{"TMPDIR=" + temporary}
	c.submit(e, "first")
	c.worker("kill@stored:2", "--lease-term", "1h").Wait()
	left, _ := os.ReadDir(temporary)
	if len(left) == 0 {
		t.Fatal("a killed worker leaves nothing: the test shows nothing")
	}
	second := c.submit(e, "second")
	living := c.worker("stop@stored:2", "--lease-term", "1h")
	living.awaitStop()
	for _, entry := range left {
		if _, err := os.Stat(filepath.Join(temporary, entry.Name())); err == nil {
			t.Errorf("%s of the killed worker is still there", entry.Name())
		}
	}
	third := c.worker("")
	third.Expect("waiting for runs")
	third.Signal(syscall.SIGTERM)
	third.Succeed()
	living.Signal(syscall.SIGCONT)
	c.requireReference(e, c.done(second))
	living.Signal(syscall.SIGTERM)
	living.Succeed()
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// A run goes on with the settings that it began with, whatever the presets of this build say, and with what an earlier
// build's worker left, which wrote no commits.jsonl.
func TestRunOfEarlierBuild(t *testing.T) {
	t.Parallel()
	e := examples[1]
	c := newCluster(t)
	name := c.submit(e, "earlier", registry.Override{Name: "damping", Values: []string{"0.5"}})
	directory := newDirectory(t)
	start(t, "learner", e.arguments(directory, "--iterations", "2")...).Succeed()
	run, err := c.client.Take(t.Context(), registry.Take{Learner: "earlier", TTL: 3600})
	if err != nil {
		t.Fatal(err)
	}
	location := name + "/epoch-1/checkpoints/" + runs.FileName(2)
	if err := os.CopyFS(filepath.Join(c.checkpoints, filepath.FromSlash(name), "epoch-1"),
		os.DirFS(directory)); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(c.checkpoints, filepath.FromSlash(location)))
	if err != nil {
		t.Fatal(err)
	}
	hold := registry.Hold{Run: name, Epoch: run.Epoch}
	commit := registry.Commit{Hold: hold, Checkpoint: registry.Checkpoint{Iteration: 2,
		SHA256: fmt.Sprintf("%x", sha256.Sum256(data)), Location: location}}
	if _, err := c.client.Commit(t.Context(), commit); err != nil {
		t.Fatal(err)
	}
	if _, err := c.client.End(t.Context(), registry.End{Hold: hold, State: registry.Queued}); err != nil {
		t.Fatal(err)
	}
	c.worker("")
	c.requireReference(e, c.done(name), 2)
}

// The policies of runs that have ended do not stay on the NATS server that all share.
func TestPoliciesOfEndedRuns(t *testing.T) {
	t.Parallel()
	e := examples[1]
	c := newCluster(t)
	_, nats := startServer(t, "0")
	done, cancelled, failed := c.submit(e, "done"), c.submit(e, "cancelled"),
		c.submit(examples[0], "failed", registry.Override{Name: "learning_rate", Values: []string{"1e300"}})
	worker := c.worker("", "--nats", nats)
	c.done(done)
	c.await(cancelled, func(run *registry.Run) bool { return run.Iteration() >= 1 })
	conn, err := bus.Connect(t.Context(), nats, bus.ConnConfig{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	policies, err := conn.Store(proto.PolicyBucket)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := policies.Get(t.Context(), cancelled); err != nil {
		t.Errorf("the policy of a run that is being trained: %v", err)
	}
	c.command("cancel", "cancelled")
	c.await(failed, func(run *registry.Run) bool { return run.State == registry.Failed })
	worker.Signal(syscall.SIGTERM)
	worker.Succeed()
	for _, run := range []string{done, cancelled, failed} {
		if policy, _, err := policies.Get(t.Context(), run); !errors.Is(err, bus.ErrNotFound) {
			t.Errorf("of %s there is a policy of %d bytes, %v", run, len(policy), err)
		}
	}
}

// A store that hangs costs a run's worker, not the run.
func TestHangingStore(t *testing.T) {
	t.Parallel()
	e := examples[1]
	c := newCluster(t)
	name := c.submit(e, "hanging")
	worker := c.worker("stop@taken:1", "--lease-term", "500ms")
	worker.awaitStop()
	directory := filepath.Join(c.checkpoints, filepath.FromSlash(name), "epoch-1")
	if err := os.MkdirAll(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	// whose opening waits for a reader
	if err := syscall.Mkfifo(filepath.Join(directory, "config.yaml.tmp"), 0o600); err != nil {
		t.Fatal(err)
	}
	worker.Signal(syscall.SIGCONT)
	worker.MayFail()
	worker.fail("the store of checkpoints", "config.yaml")
	c.worker("")
	c.requireReference(e, c.done(name))
}
