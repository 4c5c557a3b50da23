//go:build gpu

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// tags are those that the programs under test are built with.
const tags = "gpu"

// TestGPURunOutlivesItsDevice fails a device in the middle of an update, on the emulated driver, and goes on without it.
func TestGPURunOutlivesItsDevice(t *testing.T) {
	if os.Getenv("CUDA_EMULATOR") == "" {
		t.Skip("a real device does not fail on demand: run by scripts/cuda.sh --emulator")
	}
	for _, c := range []struct {
		name, failure, batch string
		want                 []string
	}{
		{"lost", "CUDA_EMULATOR_LOST_AFTER=1000", "800",
			[]string{"iteration 2: the GPU was lost", "the last checkpoint is intact", "--resume", "--device cpu"}},
		{"out of memory", "CUDA_EMULATOR_MEMORY=134217728", "40000",
			[]string{"out of memory", "asked for", "free of 128.0 MiB", "a batch of about", "--device cpu"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			directory := newDirectory(t)
			run := func(environment string, arguments ...string) *process {
				cmd := exec.Command(filepath.Join(programs, "learner"), append(arguments, "--run-dir", directory, "--listen", "127.0.0.1:0")...)
				cmd.Env = append(os.Environ(), environment)
				return startCommand(t, cmd)
			}
			run(c.failure, "--env", "Swimmer-v2", "--batch", c.batch, "--iterations", "3", "--device", "cuda").fail(c.want...)
			learner := run("", "--resume", "--device", "cpu")
			learner.Expect(`iteration done.* iteration=3 of=3`)
			learner.Succeed()
		})
	}
}

// TestGPUWorkerLosesItsDevice fails a worker's device: it gives the run back, says so and not how to resume what it removes, and
// another one goes on.
func TestGPUWorkerLosesItsDevice(t *testing.T) {
	if os.Getenv("CUDA_EMULATOR") == "" {
		t.Skip("a real device does not fail on demand: run by scripts/cuda.sh --emulator")
	}
	t.Parallel()
	c := newCluster(t)
	c.environment = append(c.environment, "CUDA_EMULATOR_LOST_AFTER=1000")
	e := &example{flags: "--env Swimmer-v2 --batch 800", iterations: 3}
	name := c.submit(e, "lost-gpu")
	worker := c.worker("", "--device", "cuda")
	worker.fail("iteration 2: the GPU was lost", "the run is given back, and another worker goes on from its last commit")
	if log := worker.Log(); !strings.Contains(log, "the run is given back") || strings.Contains(log, "--resume") {
		t.Errorf("the worker advises what is not possible:\n%s", log)
	}
	c.worker("", "--device", "cpu").Expect(`msg=taken .* epoch=2 "from iteration"=1`)
	if run := c.done(name); run.Epoch != 2 {
		t.Errorf("the run is done under epoch %d", run.Epoch)
	}
}

// TestGPUOfWrongNumber asks for a device that is not there.
func TestGPUOfWrongNumber(t *testing.T) {
	start(t, "learner", "--env", "Swimmer-v2", "--device", "cuda:99", "--run-dir", newDirectory(t)).fail("--device cuda:99", "there is no GPU 99")
}
