package main_test

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/dbqpg/dbqpg/internal/natsserver"
	"github.com/dbqpg/dbqpg/internal/processtest"
)

// serverPort is the variable that makes the test's own program a NATS server on that port, 0 for a free one.
const serverPort = "LEARNER_TEST_SERVER_PORT"

func serveNATS(port string) (status int) {
	number, err := strconv.Atoi(port)
	if err == nil {
		var server *natsserver.Server
		if server, err = natsserver.Start(natsserver.Config{Port: number,
			Log: slog.New(slog.DiscardHandler)}); err == nil {
			defer server.Close()
			fmt.Println("ready", server.URL())
			stopped := make(chan os.Signal, 1)
			signal.Notify(stopped, os.Interrupt)
			<-stopped
			return 0
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// startServer starts a NATS server in a process of its own and returns it with its URL.
func startServer(t *testing.T, port string) (server *process, url string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverPort+"="+port)
	server = startCommand(t, cmd)
	return server, server.Expect(`^ready (nats://\S+)$`)[1]
}

// A NATS server that is killed, and comes back with an empty memory, is survived by learner and actors; the run ends
// with the same bits.
func TestServerLost(t *testing.T) {
	forEachExample(t, func(t *testing.T, e *example) {
		port := strconv.Itoa(processtest.Port(t))
		server, url := startServer(t, port)
		directory := newDirectory(t)
		learner := start(t, "learner", e.externally(directory, url, "--actors", "1")...)
		start(t, "actor", "--nats", url, "--slots", "1")
		for _, iteration := range []int{1, 2} {
			learner.iterations(iteration)
			server.Kill()
			learner.ExpectTimes(iteration, "lost the NATS server")
			server, _ = startServer(t, port)
		}
		learner.Succeed()
		e.requireReference(t, directory)
	})
}

// A server that isn't there is waited for; Ctrl-C ends that, and leaves no run behind.
func TestNoServer(t *testing.T) {
	t.Parallel()
	nobody := "nats://" + processtest.Address(t)
	directory := newDirectory(t)
	learner := start(t, "learner", examples[0].externally(directory, nobody)...)
	learner.Expect("no NATS server answers; trying again.*" + nobody)
	learner.Signal(syscall.SIGINT)
	if status := learner.Wait(); status != 130 {
		t.Errorf("it ended with status %d, want 130", status)
	}
	if _, err := os.Stat(directory); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the run directory: %v", err)
	}
}

// A second learner of a run is refused while the first answers. While the first hangs the second takes over, and the first
// stops and says so once it goes on. Nothing is lost: each has its own directory, and the one that was stopped can go on
// later, and take over in its turn.
func TestSuperseded(t *testing.T) {
	t.Parallel()
	e := examples[0]
	_, url := startServer(t, "0")
	first, second := newDirectory(t), newDirectory(t)
	superseded := start(t, "learner", e.externally(first, url, "--iterations", "1000000")...)
	superseded.MayFail()
	superseded.iterations(1)
	start(t, "learner", e.externally(newDirectory(t), url)...).fail("another learner trains", "--run-dir")
	superseded.Signal(syscall.SIGSTOP)
	start(t, "learner", e.externally(second, url)...).Succeed()
	superseded.Signal(syscall.SIGCONT)
	superseded.fail("another learner has taken over this run", "epoch 2")
	e.requireReference(t, second)

	done, err := readOutcome(first)
	if err != nil {
		t.Fatal(err)
	}
	again := start(t, "learner", "--run-dir", first, "--resume")
	again.iterations(int(done.state.Iteration) + 1)
	again.Signal(syscall.SIGINT)
	if status := again.Wait(); status != 130 {
		t.Errorf("it ended with status %d, want 130", status)
	}
	e.requireUndisturbed(t, first, committed(t, first))
}

// A directory has one learner at a time.
func TestLocked(t *testing.T) {
	t.Parallel()
	e := examples[1]
	directory := newDirectory(t)
	holder := start(t, "learner", e.arguments(directory, "--actors", "0")...)
	holder.Expect("msg=computing") // it has the directory
	for _, flag := range []string{"--resume", "--force"} {
		start(t, "learner", e.arguments(directory, flag)...).fail(directory, "another learner is using it")
	}
	holder.Kill()
	start(t, "learner", e.arguments(directory, "--resume", "--actors", "2")...).Succeed()
	e.requireReference(t, directory)
	if left, err := filepath.Glob(directory + ".*"); err != nil || len(left) > 0 {
		t.Errorf("left over: %q, %v", left, err)
	}
}
