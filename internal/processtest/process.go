package processtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/internal/pause"
)

// Patience is how long a test waits for an event, even on a heavily loaded machine.
const Patience = 3 * time.Minute

// Process is a running program. Its log is everything that it writes to standard output and standard error.
//
// A process that fails by itself ends its test, when the test next waits for something or at its end, unless the test
// has sent the process a signal, waits for its end, or has called [Process.MayFail].
type Process struct {
	Cmd  *exec.Cmd
	t    testing.TB
	test *company
	done chan struct{} // closed when it has ended and all lines have been read

	// Guarded by test.mu.
	lines   []string
	exited  bool
	mayFail bool
}

// company holds the processes of one test.
type company struct {
	mu        sync.Mutex
	processes []*Process
	change    chan struct{} // closed and replaced at each new line and at the end of each process
	ctx       context.Context
	cancel    context.CancelCauseFunc
}

var companies sync.Map // of testing.TB to *company

func companyOf(t testing.TB) *company {
	c, there := companies.LoadOrStore(t, &company{change: make(chan struct{})})
	if !there {
		t.Cleanup(func() { companies.Delete(t) })
	}
	return c.(*company)
}

// add makes a change and notifies those waiting for one.
func (c *company) add(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	close(c.change)
	c.change = make(chan struct{})
}

// failure returns an error for a process that has failed by itself, once, or nil if there is none. c.mu is held.
func (c *company) failure() error {
	for _, p := range c.processes {
		if p.failed() {
			p.mayFail = true
			return p.lastWords()
		}
	}
	return nil
}

// failed reports whether the process has failed by itself. test.mu is held.
func (p *Process) failed() bool { return p.exited && !p.mayFail && !p.Cmd.ProcessState.Success() }

func (p *Process) lastWords() error {
	const lines = 20
	return fmt.Errorf("%s ended by itself (%v); its last words:\n%s", p, p.Cmd.ProcessState,
		strings.Join(p.lines[max(0, len(p.lines)-lines):], "\n"))
}

// Start starts a program, which is killed at the end of the test. If the test fails, the log is shown.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{Cmd: cmd, t: t, test: companyOf(t), done: make(chan struct{})}
	output, input, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = input, input
	err = cmd.Start()
	input.Close()
	if err != nil {
		output.Close()
		t.Fatal(err)
	}
	p.test.add(func() { p.test.processes = append(p.test.processes, p) })
	go p.follow(output)
	t.Cleanup(func() {
		p.test.mu.Lock()
		failure := p.test.failure()
		for _, other := range p.test.processes {
			other.mayFail = true // others that it needs are being killed
		}
		p.test.mu.Unlock()
		if failure != nil {
			t.Error(failure)
		}
		p.Signal(syscall.SIGKILL)
		select {
		case <-p.done:
		case <-time.After(Patience):
			t.Errorf("%s was killed and has not ended within %v", p, Patience)
		}
		if t.Failed() {
			t.Logf("the log of %s:\n%s", p, p.Log())
		}
	})
	return p
}

// String returns the command line.
func (p *Process) String() string { return strings.Join(p.Cmd.Args, " ") }

func (p *Process) follow(output *os.File) {
	var reading sync.WaitGroup
	reading.Go(func() {
		defer output.Close()
		for lines := bufio.NewScanner(output); lines.Scan(); {
			p.test.add(func() { p.lines = append(p.lines, lines.Text()) })
		}
	})
	_ = p.Cmd.Wait() // ProcessState has the exit status
	reading.Wait()
	p.test.add(func() {
		if p.exited = true; p.failed() && p.test.cancel != nil {
			p.test.cancel(p.lastWords())
		}
	})
	close(p.done)
}

// Log returns everything written so far.
func (p *Process) Log() string {
	p.test.mu.Lock()
	defer p.test.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// MayFail permits the process to end with an error while the test waits for something else.
func (p *Process) MayFail() {
	p.test.add(func() { p.mayFail = true })
}

// Expect waits until the log has a line that matches the pattern, and returns the first such line's submatches.
func (p *Process) Expect(pattern string) []string {
	p.t.Helper()
	return p.ExpectTimes(1, pattern)
}

// ExpectTimes is Expect for the nth matching line, counted from 1.
func (p *Process) ExpectTimes(n int, pattern string) []string {
	p.t.Helper()
	found := p.find(n, pattern)
	if found == nil {
		p.t.Fatalf("%s ended (%v) without match %d of %q", p, p.Cmd.ProcessState, n, pattern)
	}
	return found
}

// Await is Expect for a process that may end without such a line; it then returns nil.
func (p *Process) Await(pattern string) []string {
	p.t.Helper()
	p.MayFail()
	return p.find(1, pattern)
}

// find waits for the nth line that matches, and returns its submatches, or nil if the process ends without it.
func (p *Process) find(n int, pattern string) (found []string) {
	p.t.Helper()
	re, from := regexp.MustCompile(pattern), 0
	p.await(fmt.Sprintf("write match %d of %q", n, pattern), func() bool {
		for ; from < len(p.lines) && n > 0; from++ {
			if submatches := re.FindStringSubmatch(p.lines[from]); submatches != nil {
				if n--; n == 0 {
					found = submatches
				}
			}
		}
		return n == 0 || p.exited
	})
	return found
}

// await waits for a condition on lines and ended processes. It ends the test if one of its processes fails meanwhile.
func (p *Process) await(what string, met func() bool) {
	p.t.Helper()
	late := time.After(Patience)
	for {
		p.test.mu.Lock()
		if met() {
			p.test.mu.Unlock()
			return
		}
		failure, change := p.test.failure(), p.test.change
		p.test.mu.Unlock()
		if failure != nil {
			p.t.Fatal(failure)
		}
		select {
		case <-change:
		case <-late:
			p.t.Fatalf("%s did not %s in %v", p, what, Patience)
		}
	}
}

// Signal sends a signal, unless the process has ended.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	p.test.add(func() {
		if !p.exited && s != syscall.SIGSTOP && s != syscall.SIGCONT {
			p.mayFail = true
		}
	})
	if err := p.Cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// Kill kills the process with SIGKILL and waits for its end. It fails the test if the process had already ended by
// itself, since the test would then show nothing.
func (p *Process) Kill() {
	p.t.Helper()
	p.Signal(syscall.SIGKILL)
	p.Wait()
	if !p.Killed() {
		p.t.Fatalf("%s was to be killed, but had ended before (%v)", p, p.Cmd.ProcessState)
	}
}

// Killed reports whether the process, which must have ended, was killed by SIGKILL.
func (p *Process) Killed() bool {
	status := p.Cmd.ProcessState.Sys().(syscall.WaitStatus)
	return status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end and returns the exit status, -1 if a signal ended the process.
func (p *Process) Wait() int {
	p.t.Helper()
	p.MayFail()
	p.await("end", func() bool { return p.exited })
	return p.Cmd.ProcessState.ExitCode()
}

// Succeed waits for the end and fails the test unless the exit status is 0.
func (p *Process) Succeed() {
	p.t.Helper()
	if status := p.Wait(); status != 0 {
		p.t.Fatalf("%s ended with status %d", p, status)
	}
}

// Context returns a context for a test's requests to its processes. It is cancelled as soon as one of them fails by
// itself, with that as its cause.
func Context(t testing.TB) context.Context {
	c := companyOf(t)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil || c.ctx.Err() != nil && !slices.ContainsFunc(c.processes, (*Process).failed) {
		c.ctx, c.cancel = context.WithCancelCause(t.Context())
	}
	return c.ctx
}

// AwaitOK polls the URL until a GET is answered with 200, since servers announce this by no event.
func AwaitOK(t testing.TB, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(Context(t), Patience)
	defer cancel()
	client := &http.Client{Transport: new(http.Transport)}
	defer client.CloseIdleConnections()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return
			}
			err = errors.New(response.Status)
		}
		if !pause.For(ctx, 20*time.Millisecond) {
			t.Fatalf("%s: %v (%v)", url, context.Cause(ctx), err)
		}
	}
}
