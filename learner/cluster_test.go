package main_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/failpointtest"
	"github.com/dbqpg/dbqpg/internal/processtest"
)

// leaseTerm is the workers' in these tests.
const leaseTerm = "1s"

// cluster is a coordinator with workers' flags.
type cluster struct {
	t           *testing.T
	coordinator *process
	flags       []string // of the coordinator
	url         string
	checkpoints string
	environment []string // of the workers
	client      *client.Client
}

// newCluster starts a coordinator in a process of its own.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	return newClusterOver(t, "http", nil)
}

// newClusterOver does so with more flags; secured is the client's, for https.
func newClusterOver(t *testing.T, scheme string, secured *tls.Config, more ...string) *cluster {
	t.Helper()
	web := processtest.Address(t) // workers know it before it listens, and it comes back there
	c := &cluster{t: t, url: scheme + "://" + web, checkpoints: filepath.Join(t.TempDir(), "checkpoints")}
	if err := os.Mkdir(c.checkpoints, 0o755); err != nil {
		t.Fatal(err)
	}
	c.flags = append([]string{"serve", "--data-dir", filepath.Join(t.TempDir(), "data"), "--checkpoints", c.checkpoints,
		"--http", web, "--raft", processtest.Address(t)}, more...)
	c.startCoordinator()
	var err error
	if c.client, err = client.New(client.Config{URLs: []string{c.url}, TLS: secured,
		Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.client.Close)
	return c
}

func (c *cluster) startCoordinator() {
	c.t.Helper()
	c.coordinator = start(c.t, "coordinator", c.flags...)
	c.coordinator.Expect("msg=ready")
}

// worker starts a worker; fail says where a failpoint ends or stops it.
func (c *cluster) worker(fail string, more ...string) *process {
	c.t.Helper()
	arguments := append([]string{"worker", "--coordinator", c.url, "--checkpoints", c.checkpoints,
		"--lease-term", leaseTerm, "--actors", "1"}, more...)
	if !strings.Contains(strings.Join(more, " "), "--nats") {
		arguments = append(arguments, "--listen", "127.0.0.1:0")
	}
	cmd := exec.Command(filepath.Join(programs, "learner"), arguments...)
	cmd.Env = slices.Concat(os.Environ(), c.environment, []string{failpointtest.Variable + "=" + fail})
	p := startCommand(c.t, cmd)
	if fail != "" {
		p.MayFail()
	}
	return p
}

// submit submits the sweep of one example, under a name, with overridden settings beside.
func (c *cluster) submit(e *example, name string, more ...registry.Override) (run string) {
	c.t.Helper()
	spec := registry.Spec{Name: name, Algorithms: []string{"npg"}, Estimators: []string{"uapg"}, Seeds: []uint64{1}}
	spec.Overrides = append(spec.Overrides, more...)
	spec.Overrides = append(spec.Overrides, registry.Override{Name: "iterations",
		Values: []string{fmt.Sprint(e.iterations)}})
	fields := strings.Fields(e.flags)
	for i := 0; i < len(fields); i += 2 {
		switch setting, value := strings.ReplaceAll(fields[i][2:], "-", "_"), fields[i+1]; setting {
		case "env":
			spec.Tasks = []string{value}
		case "algorithm":
			spec.Algorithms = []string{value}
		case "seed":
			if _, err := fmt.Sscan(value, &spec.Seeds[0]); err != nil {
				c.t.Fatal(err)
			}
		default:
			spec.Overrides = append(spec.Overrides, registry.Override{Name: setting, Values: []string{value}})
		}
	}
	if _, err := c.client.Submit(processtest.Context(c.t), spec); err != nil {
		c.t.Fatal(err)
	}
	return spec.Expand()[0].Name
}

// await waits until a run is as wanted.
func (c *cluster) await(name string, wanted func(*registry.Run) bool) *registry.Run {
	c.t.Helper()
	return c.awaitFor(patience, name, wanted)
}

func (c *cluster) awaitFor(patience time.Duration, name string, wanted func(*registry.Run) bool) *registry.Run {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(processtest.Context(c.t), patience)
	defer cancel()
	for index := uint64(0); ; {
		runs, err := c.client.Runs(ctx, client.Query{After: index, Wait: 10 * time.Second})
		if err != nil {
			c.t.Fatalf("%s: %v", name, err)
		}
		index = runs.Index
		for _, run := range runs.Runs {
			if run.Name == name && wanted(&run) {
				return &run
			}
		}
	}
}

func (c *cluster) done(name string) *registry.Run {
	c.t.Helper()
	return c.await(name, c.isDone)
}

func (c *cluster) isDone(run *registry.Run) bool {
	if run.State == registry.Failed {
		c.t.Fatalf("%s failed: %s", run.Name, run.Reason)
	}
	return run.State == registry.Done
}

// requireReference fails unless the run that the coordinator has as done is the undisturbed run, bit by bit. epochs are
// how often a cluster's runs were taken, if the run is the last taken, and that is known.
func (c *cluster) requireReference(e *example, run *registry.Run, epochs ...uint64) {
	c.t.Helper()
	if run.Iteration() != uint64(e.iterations) || len(epochs) > 0 && run.Epoch != epochs[0] {
		c.t.Errorf("%s ended in epoch %d at iteration %d, want %d and %d", run.Name, run.Epoch, run.Iteration(), epochs,
			e.iterations)
	}
	location := filepath.Join(c.checkpoints, filepath.FromSlash(run.Checkpoint.Location))
	e.requireReference(c.t, filepath.Dir(filepath.Dir(location)))
	directories, err := filepath.Glob(filepath.Join(c.checkpoints, filepath.FromSlash(run.Name), "epoch-*"))
	if err != nil || len(directories) > 3 { // the last three commits are kept, which may be of as many epochs
		c.t.Errorf("directories of epochs: %q, %v", directories, err)
	}
}

// awaitStop waits until a failpoint has stopped the process.
func (p *process) awaitStop() {
	p.t.Helper()
	if err := unix.Waitid(unix.P_PID, p.Cmd.Process.Pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err != nil {
		p.t.Fatalf("%s does not stop: %v", p, err)
	}
}
