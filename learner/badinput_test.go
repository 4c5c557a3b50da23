package main_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Bad settings are refused in one line that says what is wrong, before anything is written.
func TestBadSettings(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(config, []byte("env: Swimmer-v2\nlearning_rat: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		arguments string
		want      []string
	}{
		{"", []string{"--env: name the task to learn", "Swimmer-v5"}},
		{"--env Swimer-v2", []string{`unknown task "Swimer-v2"`, "did you mean Swimmer-v2?"}},
		{"--env Hopper-v2 --rank 900 --batch 800", []string{"--rank 900", "a batch may have only 800 steps"}},
		{"--env Swimmer-v2 --rank 9000", []string{"--rank 9000", "only 4868 parameters"}},
		{"--env Swimmer-v2 --algorithm ngp", []string{`"ngp"`, "did you mean npg?"}},
		{"--env Swimmer-v2 --gamma 2", []string{"--gamma 2", "at most 1"}},
		{"--env Swimmer-v2 --device gpu", []string{"--device", "auto, cpu, cuda or cuda:N"}},
		{"--env Swimmer-v2 --device cuda:99", []string{"--device cuda:99"}},
		{"--env Swimmer-v2 --iteration 5", []string{"unknown flag: --iteration", "did you mean --iterations?"}},
		{"--config " + config, []string{config + ", line 2: learning_rat", "did you mean learning_rate?"}},
		{"--config " + config + ".missing", []string{"no such file"}},
		{"--env Swimmer-v2 --nats 127.0.0.1:4222", []string{"--nats", "nats://127.0.0.1:4222"}},
		{"--env Swimmer-v2 --nats http://127.0.0.1:4222", []string{"http", "nats://"}},
		{"--env Swimmer-v2 --listen 127.0.0.1:http", []string{"--listen", "host:port"}},
		{"--env Swimmer-v2 --listen 192.0.2.1:0", []string{"192.0.2.1", "--credentials", "--insecure-listen"}},
		{"--env Swimmer-v2 --listen 192.0.2.1:0 --insecure-listen", []string{"192.0.2.1", "cannot listen"}},
		{"--env Swimmer-v2 --credentials nowhere", []string{"credentials in nowhere", "no such file"}},
		{"--env Swimmer-v2 --resume", []string{"--resume: there is no run in"}},
		{"Swimmer-v2", []string{"Swimmer-v2", "neither a flag nor a command", "--env Swimmer-v5"}},
		{"--env Swimmer-v2 --resume auto", []string{`"auto"`, "--resume=auto"}},
		{"bnech", []string{`unknown command "bnech"`, "did you mean bench?"}},
	} {
		t.Run(strings.ReplaceAll(c.arguments, string(filepath.Separator), "_"), func(t *testing.T) {
			cmd := exec.Command(filepath.Join(programs, "learner"), strings.Fields(c.arguments)...)
			cmd.Dir = t.TempDir()
			learner := startCommand(t, cmd)
			learner.fail(c.want...)
			if strings.Contains(learner.Log(), "\n") {
				t.Errorf("more than one line:\n%s", learner.Log())
			}
			if left, err := os.ReadDir(cmd.Dir); err != nil || len(left) > 0 {
				t.Errorf("left over: %v, %v", left, err)
			}
		})
	}
}

// An existing run is neither overwritten nor resumed without a flag that says so, and is resumed only with its own
// settings.
func TestRunThatIsThere(t *testing.T) {
	t.Parallel()
	e := examples[1]
	directory := newDirectory(t)
	run := func(arguments ...string) *process {
		return start(t, "learner", e.arguments(directory, arguments...)...)
	}
	run("--iterations", "2").Succeed()
	before := snapshot(t, directory)
	run().fail(directory+" already contains a run, which has completed 2 iterations", "--resume", "--force")
	run("--resume", "--seed", "13").fail("seed was 12 and is now 13", "--run-dir")
	run("--resume", "--gamma", "0.9", "--estimator", "dbqpg").fail("estimator was uapg and is now dbqpg",
		"gamma was 0.995 and is now 0.9")
	run("--resume", "--force").fail("--force and --resume")
	start(t, "learner", "--env", "Swimmer-v2", "--run-dir",
		filepath.Dir(directory)).fail("is not empty and contains no run")
	if after := snapshot(t, directory); !slices.Equal(after, before) {
		t.Errorf("what was refused has changed the run:\n%s\nit was\n%s", strings.Join(after, "\n"),
			strings.Join(before, "\n"))
	}
	run("--force").Succeed()
	e.requireReference(t, directory)
	if aside := snapshot(t, filepath.Join(filepath.Dir(directory), "."+filepath.Base(directory)+".1")); !slices.Equal(aside, before) {
		t.Errorf("moved aside:\n%s\nit was\n%s", strings.Join(aside, "\n"), strings.Join(before, "\n"))
	}
}

// snapshot describes every file under a directory.
func snapshot(t *testing.T, directory string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(directory, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(directory, path)
		files = append(files, fmt.Sprintf("%s: %d bytes, hash %x", name, len(data), sha256.Sum256(data)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A corrupt newest checkpoint is passed over, with a warning, for the one before; with none left the run is not lost in
// silence either.
func TestCorruptCheckpoint(t *testing.T) {
	t.Parallel()
	e := examples[1]
	directory := newDirectory(t)
	start(t, "learner", e.arguments(directory, "--iterations", "3")...).Succeed()
	damage := func(iteration int) {
		path := filepath.Join(directory, "checkpoints", fmt.Sprintf("iteration-%08d.safetensors", iteration))
		data, err := os.ReadFile(path)
		if err == nil {
			data[len(data)/2] ^= 1
			err = os.WriteFile(path, data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	damage(3)
	learner := start(t, "learner", e.arguments(directory, "--resume")...)
	learner.Expect("skipping a corrupt checkpoint.*iteration-00000003.*its checksum is wrong.*iteration-00000002")
	learner.Succeed()
	e.requireReference(t, directory)

	damage(e.iterations)
	damage(e.iterations - 1)
	start(t, "learner", e.arguments(directory, "--resume", "--iterations", "9")...).fail(
		"iteration-00000006.safetensors", "iteration-00000005.safetensors", "its checksum is wrong",
		"--force starts over and keeps these files aside")
}

// A disk that is full ends the run with an error that says so. What was saved is intact, and the run goes on once there
// is room.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	e := examples[1]
	directory := newDirectory(t)
	start(t, "learner", e.arguments(directory, "--iterations", "2")...).Succeed()
	// A file may have 100 blocks of 512 bytes: enough for the rows, not for a checkpoint.
	full := exec.Command("sh", slices.Concat(
		[]string{"-c", `ulimit -f 100; exec "$0" "$@"`, filepath.Join(programs, "learner")},
		e.arguments(directory, "--resume"))...)
	startCommand(t, full).fail("iteration 2: save the checkpoint of iteration 3", "file too large",
		"checkpoint 2 is safe", "--resume")
	if _, err := os.Stat(filepath.Join(directory, "checkpoints", "iteration-00000003.safetensors")); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("the checkpoint that could not be written: %v", err)
	}
	start(t, "learner", e.arguments(directory, "--resume")...).Succeed()
	e.requireReference(t, directory)
}
