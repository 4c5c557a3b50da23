//go:build gpu

package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/coordinator/registry"
)

// tags are the build tags of the programs under test.
const tags = "failpoint,gpu"

// needEmulator skips a test on a real device, which neither fails on demand nor has so little memory.
func needEmulator(t *testing.T) {
	t.Helper()
	if os.Getenv("CUDA_EMULATOR") == "" {
		t.Skip("a real device does not fail on demand, and has more memory than a test fills: run " +
			"by scripts/cuda.sh --emulator")
	}
}

// newEmulatedCluster returns a cluster whose workers' emulated device fails as a variable says.
func newEmulatedCluster(t *testing.T, failure string) *cluster {
	t.Helper()
	needEmulator(t)
	t.Parallel()
	c := newCluster(t)
	c.environment = append(c.environment, failure)
	return c
}

// TestGPURunOutlivesItsDevice fails a device in the middle of an update, on the emulated driver, and goes on without
// it.
func TestGPURunOutlivesItsDevice(t *testing.T) {
	needEmulator(t)
	for _, c := range []struct {
		name, failure, batch string
		want                 []string
	}{
		{"lost", "CUDA_EMULATOR_LOST_AFTER=600", "800",
			[]string{"iteration 1: the GPU was lost", "the last checkpoint is intact", "--resume", "--device cpu"}},
		{"out of memory", "CUDA_EMULATOR_MEMORY=134217728", "40000",
			[]string{"out of memory", "asked for", "free of 128.0 MiB", "a smaller --batch", "--device cpu"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			directory := newDirectory(t)
			run := func(environment string, arguments ...string) *process {
				cmd := exec.Command(filepath.Join(programs, "learner"),
					append(arguments, "--run-dir", directory, "--listen", "127.0.0.1:0")...)
				cmd.Env = append(os.Environ(), environment)
				return startCommand(t, cmd)
			}
			run(c.failure, "--env", "Swimmer-v2", "--batch", c.batch, "--iterations", "3", "--device",
				"cuda").fail(c.want...)
			learner := run("", "--resume", "--device", "cpu")
			learner.Expect(`iteration done.* iteration=2 of=3`)
			learner.Succeed()
		})
	}
}

// TestGPUWorkerLosesItsDevice fails a worker's device: it gives the run back, says so and not how to resume what it
// removes, and another one goes on.
func TestGPUWorkerLosesItsDevice(t *testing.T) {
	c := newEmulatedCluster(t, "CUDA_EMULATOR_LOST_AFTER=600")
	e := &example{flags: "--env Swimmer-v2 --batch 800", iterations: 3}
	name := c.submit(e, "lost-gpu")
	worker := c.worker("", "--device", "cuda")
	worker.fail("iteration 1: the GPU was lost",
		"the run is given back, and another worker goes on from its last commit")
	if log := worker.Log(); !strings.Contains(log, "the run is given back") || strings.Contains(log, "--resume") {
		t.Errorf("the worker advises what is not possible:\n%s", log)
	}
	c.worker("", "--device", "cpu").Expect(`msg=taken .* epoch=2 "from iteration"=1`)
	if run := c.done(name); run.Epoch != 2 {
		t.Errorf("the run is done under epoch %d", run.Epoch)
	}
}

// TestGPUWorkerGoesOnBeyondTooLargeRun gives a worker a run that its device has not the memory for: the run fails, and
// the coordinator knows why; the same worker trains the next.
func TestGPUWorkerGoesOnBeyondTooLargeRun(t *testing.T) {
	c := newEmulatedCluster(t, "CUDA_EMULATOR_MEMORY=134217728")
	large := c.submit(&example{flags: "--env Swimmer-v2 --batch 40000", iterations: 3}, "large")
	small := c.submit(&example{flags: "--env Swimmer-v2 --batch 800", iterations: 3}, "small")
	worker := c.worker("", "--device", "cuda")
	c.done(small)
	failed, err := c.client.Run(t.Context(), large)
	if err != nil || failed.State != registry.Failed || failed.Epoch != 1 {
		t.Fatalf("%+v, %v", failed, err)
	}
	for _, want := range []string{
		"iteration 0: the GPU is out of memory", "asked for", "free of 128.0 MiB", "a smaller --batch needs less memory",
		"smaller batch, or retry it",
	} {
		if !strings.Contains(failed.Reason, want) {
			t.Errorf("it failed because of %q, which lacks %q", failed.Reason, want)
		}
	}
	if log := worker.Log(); strings.Contains(log, "given back") {
		t.Errorf("the run was given back:\n%s", log)
	}
}

// TestGPURunThatLosesDevices has every worker lose its device in the same iteration: after some the run has failed, and
// says why.
func TestGPURunThatLosesDevices(t *testing.T) {
	c := newEmulatedCluster(t, "CUDA_EMULATOR_LOST_AFTER=100")
	name := c.submit(&example{flags: "--env Swimmer-v2 --batch 800", iterations: 3}, "poisoned")
	for range registry.MaxLosses - 1 {
		c.worker("", "--device", "cuda").fail("the GPU was lost", "the run is given back")
	}
	c.worker("", "--device", "cuda").fail("the GPU was lost",
		"the run has failed, for it has cost as many workers in a row")
	run, err := c.client.Run(t.Context(), name)
	if err != nil || run.State != registry.Failed || run.Epoch != registry.MaxLosses ||
		!strings.Contains(run.Reason, "5 workers in a row ended without a commit") ||
		!strings.Contains(run.Reason, "with: iteration 0: the GPU was lost") {
		t.Errorf("%+v, %v", run, err)
	}
}

// TestGPUOfWrongNumber asks for a device that is not there.
func TestGPUOfWrongNumber(t *testing.T) {
	start(t, "learner", "--env", "Swimmer-v2", "--device", "cuda:99", "--run-dir",
		newDirectory(t)).fail("--device cuda:99", "there is no GPU 99")
}
