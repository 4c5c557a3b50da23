package processtest

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Patience is how long a test waits for what must happen, on a machine however loaded.
const Patience = 3 * time.Minute

// Process is a program at work. What it writes to its standard output and error is its log.
type Process struct {
	Cmd *exec.Cmd
	t   testing.TB

	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed, and replaced, at each line and at the end
	ended bool          // all lines are there
}

// Start starts a program, which does not outlive the test. If that fails, it shows the log.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{Cmd: cmd, t: t, more: make(chan struct{})}
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
	go p.read(output)
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("the log of %s:\n%s", p, p.Log())
		}
	})
	return p
}

// String is the command line.
func (p *Process) String() string { return strings.Join(p.Cmd.Args, " ") }

func (p *Process) read(output *os.File) {
	defer output.Close()
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		p.add(func() { p.lines = append(p.lines, lines.Text()) })
	}
	p.add(func() { p.ended = true })
}

func (p *Process) add(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.more)
	p.more = make(chan struct{})
}

// Log is everything written so far.
func (p *Process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// Expect waits until the log has a line that matches the pattern, and returns the first such line's submatches.
func (p *Process) Expect(pattern string) []string {
	p.t.Helper()
	found := p.Await(pattern)
	if found == nil {
		p.t.Fatalf("%s ended without a line that matches %q", p, pattern)
	}
	return found
}

// Await is Expect, but for a process that ends without such a line, where it returns nil.
func (p *Process) Await(pattern string) []string {
	p.t.Helper()
	re, timeout := regexp.MustCompile(pattern), time.After(Patience)
	for from := 0; ; {
		p.mu.Lock()
		fresh, more, ended := p.lines[from:], p.more, p.ended
		p.mu.Unlock()
		for _, line := range fresh {
			if found := re.FindStringSubmatch(line); found != nil {
				return found
			}
		}
		if ended {
			return nil
		}
		from += len(fresh)
		select {
		case <-more:
		case <-timeout:
			p.t.Fatalf("%s wrote no line that matches %q in %v", p, pattern, Patience)
		}
	}
}

// Signal sends a signal, unless the process has ended.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.Cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// Kill ends the process with SIGKILL, if it is still there, and waits until it is gone.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	p.Wait()
}

// Wait waits for the end and returns the exit status, -1 for a process that a signal ended.
func (p *Process) Wait() int {
	timer := time.AfterFunc(Patience, func() {
		p.t.Errorf("%s has not ended in %v", p, Patience)
		_ = p.Cmd.Process.Kill() // it may have ended now
	})
	defer timer.Stop()
	if p.Cmd.ProcessState == nil {
		_ = p.Cmd.Wait() // the exit status tells
	}
	for {
		p.mu.Lock()
		more, ended := p.more, p.ended
		p.mu.Unlock()
		if ended {
			return p.Cmd.ProcessState.ExitCode()
		}
		<-more
	}
}

// Succeed waits for the end, which must be a good one.
func (p *Process) Succeed() {
	p.t.Helper()
	if status := p.Wait(); status != 0 {
		p.t.Fatalf("%s ended with status %d", p, status)
	}
}
