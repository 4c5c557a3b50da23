package main_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/internal/processtest"
)

// patience is how long a test waits for what must happen, on a machine however loaded.
const patience = time.Minute

// programs is where TestMain builds the coordinator.
var programs string

func TestMain(m *testing.M) { os.Exit(processtest.Build(m, &programs, ".")) }

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(processtest.Context(t), patience)
	t.Cleanup(cancel)
	return ctx
}

// node is a coordinator process.
type node struct {
	*processtest.Process // its present life
	t                    testing.TB
	id                   string
	within               []string // a program and its arguments that run the node's, if any
	arguments            []string
	url                  string
	raft                 string
}

// serve starts a node; it listens on its addresses, ports of 127.0.0.1.
func serve(t testing.TB, id, directory, web, raft string, arguments ...string) *node {
	t.Helper()
	return serveWithin(t, nil, id, directory, web, raft, arguments...)
}

// serveWithin is serve with the program started by another program.
func serveWithin(t testing.TB, within []string, id, directory, web, raft string, arguments ...string) *node {
	t.Helper()
	n := &node{t: t, id: id, within: within, url: "http://" + web, raft: raft}
	n.arguments = append([]string{"serve", "--node-id", id, "--data-dir", directory, "--http", web, "--raft", raft},
		arguments...)
	n.start()
	return n
}

// start starts the process, again after its end.
func (n *node) start() {
	n.t.Helper()
	line := slices.Concat(n.within, []string{filepath.Join(programs, "coordinator")}, n.arguments)
	n.Process = processtest.Start(n.t, exec.Command(line[0], line[1:]...))
}

// stop ends the process as whoever stops it in peace does; it returns the exit status.
func (n *node) stop() int {
	n.t.Helper()
	n.Signal(syscall.SIGTERM)
	return n.Wait()
}

// holdAddresses returns addresses of 127.0.0.1 that are the test's: a node's peers know them before it listens, and
// it comes back there.
func holdAddresses(t testing.TB, n int) []string {
	t.Helper()
	var addresses []string
	for range n {
		addresses = append(addresses, processtest.Address(t))
	}
	return addresses
}

// serveThree starts a cluster of three.
func serveThree(t testing.TB, arguments ...string) []*node {
	t.Helper()
	return serveEach(t, make([][]string, 3), []string{t.TempDir(), t.TempDir(), t.TempDir()}, arguments...)
}

// serveEach starts a cluster of three, each node in a directory and started by another program, if any.
func serveEach(t testing.TB, within [][]string, directories []string, arguments ...string) []*node {
	t.Helper()
	addresses := holdAddresses(t, 6)
	peers := fmt.Sprintf("n1=%s,n2=%s,n3=%s", addresses[1], addresses[3], addresses[5])
	var nodes []*node
	for i, directory := range directories {
		nodes = append(nodes, serveWithin(t, within[i], fmt.Sprint("n", i+1), directory, addresses[2*i],
			addresses[2*i+1], append(arguments, "--peers", peers)...))
	}
	for _, n := range nodes {
		n.Expect("msg=ready")
	}
	return nodes
}

func newClient(t testing.TB, urls ...string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{URLs: urls, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// run runs a command of the program and returns what it writes and its exit status.
func run(t testing.TB, url, input string, arguments ...string) (output, complaint string, status int) {
	t.Helper()
	cmd := exec.CommandContext(deadline(t), filepath.Join(programs, "coordinator"), arguments...)
	cmd.Env = append(os.Environ(), "DBQPG_COORDINATOR="+url, "TZ=UTC")
	cmd.Stdin = strings.NewReader(input)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), complaints.String(), cmd.ProcessState.ExitCode()
}
