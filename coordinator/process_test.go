package main_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/client"
)

// patience is how long a test waits for what must happen, on a machine however loaded.
const patience = time.Minute

// program is the coordinator that TestMain builds.
var program string

func TestMain(m *testing.M) { os.Exit(buildAndTest(m)) }

func buildAndTest(m *testing.M) int {
	directory, err := os.MkdirTemp("", "dbqpg-coordinator-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(directory)
	program = filepath.Join(directory, "coordinator")
	build := exec.Command("go", "build", "-o", program, ".")
	if output, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %v\n%s", build, err, output)
		return 1
	}
	return m.Run()
}

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// node is a coordinator process.
type node struct {
	t         testing.TB
	id        string
	within    []string // a program and its arguments that run the node's, if any
	arguments []string
	url       string
	raft      string
	cmd       *exec.Cmd

	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed, and replaced, at each line and at the end
	ended bool
	read  sync.WaitGroup // of the log
}

// serve starts a node; it listens on its addresses, ports of 127.0.0.1.
func serve(t testing.TB, id, directory, web, raft string, arguments ...string) *node {
	t.Helper()
	return serveWithin(t, nil, id, directory, web, raft, arguments...)
}

// serveWithin is serve by another program.
func serveWithin(t testing.TB, within []string, id, directory, web, raft string, arguments ...string) *node {
	t.Helper()
	n := &node{t: t, id: id, within: within, url: "http://" + web, raft: raft}
	n.arguments = append([]string{"serve", "--node-id", id, "--data-dir", directory, "--http", web, "--raft", raft}, arguments...)
	n.start()
	t.Cleanup(func() {
		n.kill()
		if t.Failed() {
			t.Logf("%s:\n%s", id, n.log())
		}
	})
	return n
}

// start starts the process, again after a kill.
func (n *node) start() {
	n.t.Helper()
	line := slices.Concat(n.within, []string{program}, n.arguments)
	n.cmd = exec.Command(line[0], line[1:]...)
	output, input, err := os.Pipe()
	if err != nil {
		n.t.Fatal(err)
	}
	n.cmd.Stdout, n.cmd.Stderr = input, input
	n.mu.Lock()
	n.lines, n.more, n.ended = nil, make(chan struct{}), false
	n.mu.Unlock()
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	input.Close()
	n.read.Go(func() { n.readLog(output) })
}

func (n *node) readLog(output io.ReadCloser) {
	defer output.Close()
	lines := bufio.NewScanner(output)
	for more := true; more; {
		more = lines.Scan()
		n.mu.Lock()
		if more {
			n.lines = append(n.lines, lines.Text())
		} else {
			n.ended = true
		}
		close(n.more)
		n.more = make(chan struct{})
		n.mu.Unlock()
	}
}

func (n *node) log() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.lines, "\n")
}

// expect waits until a line of the log matches.
func (n *node) expect(pattern string) {
	n.t.Helper()
	expression, timeout := regexp.MustCompile(pattern), time.After(patience)
	for {
		n.mu.Lock()
		more, ended, found := n.more, n.ended, expression.MatchString(strings.Join(n.lines, "\n"))
		n.mu.Unlock()
		if found {
			return
		}
		if ended {
			n.t.Fatalf("%s ended without %q:\n%s", n.id, pattern, n.log())
		}
		select {
		case <-more:
		case <-timeout:
			n.t.Fatalf("%s does not say %q:\n%s", n.id, pattern, n.log())
		}
	}
}

// kill ends the process without warning.
func (n *node) kill() { n.signal(syscall.SIGKILL) }

// signal sends a signal and waits for the end; it returns the exit status.
func (n *node) signal(s os.Signal) int {
	_ = n.cmd.Process.Signal(s) // it may have ended already
	return n.wait()
}

// wait waits for the end; it returns the exit status.
func (n *node) wait() int {
	_ = n.cmd.Wait()
	n.read.Wait()
	return n.cmd.ProcessState.ExitCode()
}

// freeAddresses returns addresses of 127.0.0.1 that nobody listens on at the moment.
func freeAddresses(t testing.TB, n int) []string {
	t.Helper()
	var addresses []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses
}

// serveThree starts a cluster of three.
func serveThree(t testing.TB) []*node {
	t.Helper()
	addresses := freeAddresses(t, 6)
	peers := fmt.Sprintf("n1=%s,n2=%s,n3=%s", addresses[1], addresses[3], addresses[5])
	var nodes []*node
	for i := range 3 {
		nodes = append(nodes, serve(t, fmt.Sprint("n", i+1), t.TempDir(), addresses[2*i], addresses[2*i+1], "--peers", peers))
	}
	for _, n := range nodes {
		n.expect("msg=ready")
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
	cmd := exec.CommandContext(deadline(t), program, arguments...)
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
