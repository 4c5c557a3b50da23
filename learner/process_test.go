package main_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen, on a machine however loaded.
const patience = 3 * time.Minute

// programs is where TestMain builds the learner and the actor.
var programs string

func TestMain(m *testing.M) {
	if port := os.Getenv(serverPort); port != "" {
		os.Exit(serveNATS(port))
	}
	os.Exit(buildAndTest(m))
}

func buildAndTest(m *testing.M) int {
	directory, err := os.MkdirTemp("", "dbqpg-learner-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(directory)
	programs = directory
	os.Setenv("TMPDIR", directory) // what killed processes leave behind goes with it
	build := exec.Command("go", "build", "-tags", tags, "-o", programs+string(filepath.Separator), ".", "../actor", "../coordinator")
	if output, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %v\n%s", build, err, output)
		return 1
	}
	return m.Run()
}

// process is a program at work. What it writes to its standard output and error is its log.
type process struct {
	t    testing.TB
	name string
	cmd  *exec.Cmd

	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed, and replaced, at each line and at the end
	ended bool          // all lines are there
}

// start starts one of the programs, which does not outlive the test.
func start(t testing.TB, program string, arguments ...string) *process {
	t.Helper()
	return startCommand(t, exec.Command(filepath.Join(programs, program), arguments...))
}

func startCommand(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, name: strings.Join(cmd.Args, " "), cmd: cmd, more: make(chan struct{})}
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
		p.kill()
		if t.Failed() {
			t.Logf("the log of %s:\n%s", p.name, p.log())
		}
	})
	return p
}

func (p *process) read(output *os.File) {
	defer output.Close()
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		p.add(func() { p.lines = append(p.lines, lines.Text()) })
	}
	p.add(func() { p.ended = true })
}

func (p *process) add(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.more)
	p.more = make(chan struct{})
}

// log is everything written so far.
func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// expect waits until the log has a line that matches the pattern, and returns the first such line's submatches.
func (p *process) expect(pattern string) []string {
	p.t.Helper()
	re, timeout := regexp.MustCompile(pattern), time.After(patience)
	for from := 0; ; {
		p.mu.Lock()
		fresh, more, ended := p.lines[from:], p.more, p.ended
		p.mu.Unlock()
		for _, line := range fresh {
			if found := re.FindStringSubmatch(line); found != nil {
				return found
			}
		}
		from += len(fresh)
		if ended {
			p.t.Fatalf("%s ended without a line that matches %q", p.name, pattern)
		}
		select {
		case <-more:
		case <-timeout:
			p.t.Fatalf("%s wrote no line that matches %q in %v", p.name, pattern, patience)
		}
	}
}

// iteration waits until the learner has done that iteration.
func (p *process) iteration(number int) {
	p.t.Helper()
	p.expect(fmt.Sprintf(`msg="iteration done" iteration=%d `, number))
}

// url is where actors reach the learner.
func (p *process) url() string {
	p.t.Helper()
	return p.expect(`--nats (nats://\S*\d)`)[1]
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// kill ends the process with SIGKILL, if it is still there, and waits until it is gone.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	p.wait()
}

// wait waits for the end and returns the exit status, -1 for a process that a signal ended.
func (p *process) wait() int {
	timer := time.AfterFunc(patience, func() {
		p.t.Errorf("%s has not ended in %v", p.name, patience)
		_ = p.cmd.Process.Kill() // it may have ended now
	})
	defer timer.Stop()
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Wait() // the exit status tells
	}
	for {
		p.mu.Lock()
		more, ended := p.more, p.ended
		p.mu.Unlock()
		if ended {
			return p.cmd.ProcessState.ExitCode()
		}
		<-more
	}
}

// succeed waits for the end, which must be a good one.
func (p *process) succeed() {
	p.t.Helper()
	if status := p.wait(); status != 0 {
		p.t.Fatalf("%s ended with status %d", p.name, status)
	}
}

// fail waits for the end, which must be an error, the last that the log has, that contains all the texts.
func (p *process) fail(texts ...string) {
	p.t.Helper()
	status := p.wait()
	_, message, found := strings.Cut("\n"+p.log(), "\nlearner: ")
	if status != 1 || !found {
		p.t.Fatalf("%s ended with status %d", p.name, status)
	}
	for _, text := range texts {
		if !strings.Contains(message, text) {
			p.t.Errorf("%s says\n%s\nwithout %q", p.name, message, text)
		}
	}
}
