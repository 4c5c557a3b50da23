package main_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/internal/pause"
	"github.com/dbqpg/dbqpg/internal/processtest"
	"github.com/dbqpg/dbqpg/sim/external/externaltest"
)

// writeTask writes a task file for toys.
func writeTask(t testing.TB, wrong string, k int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "task.yaml")
	if err := os.WriteFile(path, []byte(externaltest.Text(wrong, k)), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// onToys are the learner's arguments for a short run with a task file.
func onToys(task, directory string, more ...string) []string {
	return slices.Concat(strings.Fields(
		"--iterations 3 --evaluate-every 1 --batch 300 --rank 10 --hidden 8 "+
			"--listen 127.0.0.1:0 --run-dir "+directory+" --task "+task), more)
}

// A run with a task file ends with the same bits whoever plays: one environment in a process here, several to a
// process, an actor that has the file too, and an environment that crashes in between. It can be resumed without the
// file.
func TestTaskFile(t *testing.T) {
	t.Parallel()
	alone := newDirectory(t)
	start(t, "learner", onToys(writeTask(t, "", 1), alone, "--actors", "1")...).Succeed()
	want, err := readOutcome(alone)
	if err != nil {
		t.Fatal(err)
	}
	same := func(t *testing.T, directory string) {
		got, err := readOutcome(directory)
		if err != nil {
			t.Fatal(err)
		}
		requireOutcome(t, got, want)
	}
	t.Run("together", func(t *testing.T) {
		directory := newDirectory(t)
		start(t, "learner", onToys(writeTask(t, "", 3), directory, "--actors", "5", "--iterations", "1")...).Succeed()
		start(t, "learner", "--run-dir", directory, "--listen", "127.0.0.1:0", "--resume", "--iterations",
			"3").Succeed()
		same(t, directory)
		start(t, "learner", "evaluate", directory).fail(
			"Toys is not a built-in task: give the task file that its learner has, --task FILE")
		start(t, "learner", "evaluate", directory, "--episodes", "8", "--task",
			writeTask(t, "", 2)).Expect("mean return")
	})
	t.Run("elsewhere", func(t *testing.T) {
		directory, task := newDirectory(t), writeTask(t, "", 2)
		learner := start(t, "learner", onToys(task, directory, "--actors", "0")...)
		other := start(t, "actor", "--nats", learner.url())
		other.Expect("Toys is not a built-in task: give the task file that its learner has, --task FILE")
		other = start(t, "actor", "--nats", learner.url(), "--task", writeTask(t, "raise", 2))
		other.Expect("the task file for Toys differs from the learner's")
		start(t, "actor", "--nats", learner.url(), "--task", task)
		learner.Succeed()
		same(t, directory)
	})
	t.Run("crashing", func(t *testing.T) {
		directory := newDirectory(t)
		wrong := "crash once " + filepath.Join(t.TempDir(), "crashed")
		// The command's arguments are part of the task, so that only its progress is the same.
		learner := start(t, "learner", onToys(writeTask(t, wrong, 2), directory, "--actors", "2")...)
		learner.Expect(
			`an episode failed.*its process ended \(exit status 3\); its last words: Segmentation fault in gripper.c`)
		learner.Succeed()
		same(t, directory)
	})
}

// An environment that always fails ends the run, which says what its last words were.
func TestTaskFileFails(t *testing.T) {
	t.Parallel()
	for wrong, want := range map[string][]string{
		"crash": {"fails for the learner itself", "its process ended (exit status 3)",
			"Segmentation fault in gripper.c"},
		"raise":   {"fails for the learner itself", "ValueError: the gripper is lost"},
		"chatter": {"fails for the learner itself", "gripper 1.2, the friendly library", "standard output"},
		"exit": {"environment Toys: its process ended (exit status 3)",
			"ModuleNotFoundError: no module named grippers"},
	} {
		t.Run(wrong, func(t *testing.T) {
			t.Parallel()
			start(t, "learner", onToys(writeTask(t, wrong, 2), newDirectory(t), "--actors", "1")...).fail(want...)
		})
	}
}

// An environment that hangs doesn't outlive its actor, however that ends.
func TestTaskFileOfKilledActor(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pid")
	task := writeTask(t, "write "+path, 1)
	learner := start(t, "learner", onToys(task, newDirectory(t), "--actors", "0")...)
	actor := start(t, "actor", "--nats", learner.url(), "--task", task, "--slots", "1")
	var pid []byte
	for ctx := processtest.Context(t); len(pid) == 0; {
		pid, _ = os.ReadFile(path)
		if !pause.For(ctx, 10*time.Millisecond) {
			t.Fatal(context.Cause(ctx))
		}
	}
	actor.Kill()
	for ctx := processtest.Context(t); ; {
		status, err := os.ReadFile("/proc/" + string(pid) + "/stat")
		if err != nil || strings.Contains(string(status), ") Z ") {
			return
		}
		if !pause.For(ctx, 10*time.Millisecond) {
			t.Fatal(context.Cause(ctx))
		}
	}
}
