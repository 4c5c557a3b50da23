package main_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/processtest"
)

// TestSizes measures what processes and runs take, for docs/results/performance.md, and writes a table to the file that
// DBQPG_TEST_FIGURES names.
func TestSizes(t *testing.T) {
	path := os.Getenv("DBQPG_TEST_FIGURES")
	if path == "" {
		t.Skip("it takes minutes: DBQPG_TEST_FIGURES=FILE measures, and writes its table there")
	}
	c := newCluster(t)
	idle := peak(t, c.coordinator)
	program, err := buildNATS()
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "nats.conf")
	text := fmt.Sprintf("max_payload: 8MB\njetstream { store_dir: %q, max_mem: 256MB, max_file: 1MB }\n",
		filepath.Join(t.TempDir(), "store"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	nats := startCommand(t, exec.Command(program, "-c", config, "-a", "127.0.0.1", "-p", "-1"))
	url := "nats://" + nats.Expect(`Listening for client connections on (\S+)`)[1]
	var table strings.Builder
	fmt.Fprintln(&table, "| task | slots | iterations | worker (MiB) | actor (MiB) | worker (core-s an iteration) | "+
		"actor (core-s an iteration) | a checkpoint (kB) | the run (kB) | scratch at most (kB) |")
	fmt.Fprintln(&table, "|---|---|---|---|---|---|---|---|---|---|")
	for _, task := range []string{"Swimmer-v2", "HalfCheetah-v2", "Humanoid-v2", "HumanoidStandup-v2"} {
		for _, of := range []struct{ slots, iterations int }{{1, 15}, {4, 15}, {4, 1}} {
			fmt.Fprintln(&table, c.sizes(url, task, of.slots, of.iterations))
		}
	}
	nats.Signal(syscall.SIGTERM)
	nats.Wait()
	fmt.Fprintf(&table, "\nNATS server after all of that: %d MiB, %.0f s of processors\n", peakAtEnd(nats),
		processors(nats))
	for i := range 10 {
		spec := registry.Spec{Name: fmt.Sprintf("many%d", i), Tasks: []string{"Swimmer-v2"},
			Algorithms: []string{"npg"}, Estimators: []string{"uapg"}}
		for seed := range uint64(1000) {
			spec.Seeds = append(spec.Seeds, seed+1)
		}
		if _, err := c.client.Submit(processtest.Context(t), spec); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Fprintf(&table, "Coordinator: %d MiB without a run, %d MiB with 10,000\n", idle, peak(t, c.coordinator))
	if err := os.WriteFile(path, []byte(table.String()), 0o666); err != nil {
		t.Fatal(err)
	}
}

// sizes trains a run with a new worker and a new actor, and returns its row of the table.
func (c *cluster) sizes(nats, task string, slots, iterations int) string {
	c.t.Helper()
	scratch := c.t.TempDir()
	c.environment = []string{"TMPDIR=" + scratch}
	worker := c.worker("", "--nats", nats, "--actors", "0", "--device", "cpu")
	actor := start(c.t, "actor", "--nats", nats, "--slots", strconv.Itoa(slots))
	spec := registry.Spec{Name: fmt.Sprintf("%s-%d-%d", task, slots, iterations), Tasks: []string{task},
		Algorithms: []string{"npg"}, Estimators: []string{"uapg"},
		Seeds: []uint64{1}, Overrides: []registry.Override{
			{Name: "iterations", Values: []string{strconv.Itoa(iterations)}}}}
	if _, err := c.client.Submit(processtest.Context(c.t), spec); err != nil {
		c.t.Fatal(err)
	}
	name, most, done := spec.Expand()[0].Name, make(chan int64), make(chan bool)
	go func() {
		ticker, peak := time.NewTicker(100*time.Millisecond), int64(0)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				peak = max(peak, bytesIn(scratch))
			case <-done:
				most <- peak
				return
			}
		}
	}()
	run := c.awaitFor(time.Hour, name, c.isDone)
	close(done)
	for _, p := range []*process{worker, actor} {
		p.Signal(syscall.SIGTERM)
		p.Wait()
	}
	checkpoint := filepath.FromSlash(run.Checkpoint.Location)
	if !filepath.IsAbs(checkpoint) {
		checkpoint = filepath.Join(c.checkpoints, checkpoint)
	}
	kB := func(path string) int64 { return (bytesIn(path) + 500) / 1000 }
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %.1f | %.1f | %d | %d | %d |", task, slots, iterations,
		peakAtEnd(worker), peakAtEnd(actor),
		processors(worker)/float64(iterations), processors(actor)/float64(iterations), kB(checkpoint),
		kB(filepath.Dir(filepath.Dir(checkpoint))), (<-most+500)/1000)
}

// bytesIn returns the sum of the sizes of the files in a directory, or of one file. Files come and go meanwhile.
func bytesIn(path string) (sum int64) {
	_ = filepath.WalkDir(path, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if info, err := entry.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil
	})
	return sum
}

// peak returns the most MiB of memory that a process has had so far.
func peak(t *testing.T, p *process) int {
	t.Helper()
	return (processtest.Memory(t, p.Cmd.Process.Pid, "VmHWM") + 1<<19) >> 20
}

// peakAtEnd returns that of a process that has ended.
func peakAtEnd(p *process) int {
	return int(p.Cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss+512) / 1024
}

// processors returns the processors' seconds that a process took.
func processors(p *process) float64 {
	return (p.Cmd.ProcessState.UserTime() + p.Cmd.ProcessState.SystemTime()).Seconds()
}
