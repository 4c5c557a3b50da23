package external

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// grace is how long a process may take to end once it has been told to.
const grace = 5 * time.Second

// process is a process of a task file's command.
type process struct {
	file    *File
	taken   []bool // which of its environments are in use; under the lock of its Environments
	opening sync.Once
	words   tail
	ended   chan struct{} // closed once it has, or could not be started
	status  error         // then: how
	cmd     *exec.Cmd
	in, out *pipe // to its standard input, from its standard output

	wire  *wire
	batch []*call // what it is being asked, by one of these who speaks with it for all
	steps []*call // those of batch that are steps

	mu       sync.Mutex
	speaking bool
	waiting  []*call // what it is asked next
	round    uint64  // counts answers
	coming   int     // how many of those answered last are about to ask again
	late     *time.Timer
	watching bool   // late is set
	watched  uint64 // the round when it was
	failure  error  // why no more is asked
}

// patience is how long those who wait do so for those who are coming, and at most twice that. A message for all costs
// less than one for each, and those who don't come are rare: they leave an episode before its end.
const patience = 5 * time.Millisecond

// call is a request to one environment: a reset, or a step if there is an action.
type call struct {
	index       int
	seed        uint32
	action      []float64
	observation []float64 // where the answer goes
	last        bool      // the step that reaches the time limit

	reward                float64
	terminated, truncated bool
	err                   error

	wake  chan bool // true: speak for all; false: answered
	round uint64    // in which it was answered, if it is coming; under mu
}

func newProcess(f *File) *process {
	p := &process{file: f, taken: make([]bool, f.Environments), ended: make(chan struct{}), wire: newWire(f), round: 1}
	p.late = time.AfterFunc(time.Hour, p.hurry)
	p.late.Stop()
	return p
}

// dead reports whether nothing more can be asked.
func (p *process) dead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failure != nil
}

// ask has a call answered. The last one to come speaks for all that wait.
func (p *process) ask(c *call) error {
	p.mu.Lock()
	p.waiting = append(p.waiting, c)
	if c.round == p.round {
		p.coming--
	}
	c.round = 0
	speaks := !p.speaking && p.coming == 0
	if speaks {
		p.take()
	}
	p.mu.Unlock()
	if speaks || <-c.wake {
		p.speak()
		p.answer(c)
	}
	return c.err
}

// take makes what waits the batch. p.mu is held.
func (p *process) take() {
	p.speaking = true
	p.batch, p.waiting = p.waiting, p.batch[:0]
}

// answer wakes those whose calls are answered, but for the one that spoke. Those that go on with their episode are
// coming.
func (p *process) answer(spoke *call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.speaking = false
	p.round++
	p.coming = 0
	for _, c := range p.batch {
		if c.err == nil && !c.terminated && !c.truncated && !c.last {
			c.round = p.round
			p.coming++
		}
		if c != spoke {
			c.wake <- false
		}
	}
	if p.coming == 0 {
		p.pass()
	} else if !p.watching {
		p.watch()
	}
}

// watch has those who are coming watched. p.mu is held.
func (p *process) watch() {
	p.watching, p.watched = true, p.round
	p.late.Reset(patience)
}

// pass has the first of those who wait speak. p.mu is held.
func (p *process) pass() {
	if len(p.waiting) > 0 {
		p.take()
		p.batch[0].wake <- true
	}
}

// hurry gives up on those who have been coming since the watch began. The timer isn't set anew for each answer: that
// wakes threads.
func (p *process) hurry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watching = false
	switch {
	case p.speaking || p.coming == 0:
	case p.round != p.watched:
		p.watch()
	default:
		p.round++
		p.coming = 0
		p.pass()
	}
}

// speak has the batch answered: a message for each reset, and one for all steps.
func (p *process) speak() {
	p.steps = p.steps[:0]
	for i, c := range p.batch {
		if c.action != nil {
			p.steps = append(p.steps, c)
		} else {
			p.play(p.batch[i : i+1])
		}
	}
	if len(p.steps) > 0 {
		p.play(p.steps)
	}
}

// play has one reset, or some steps, answered.
func (p *process) play(calls []*call) {
	reset := calls[0].action == nil
	if reset {
		p.wire.reset(calls[0])
	} else {
		p.wire.step(calls)
	}
	limit := time.Duration(len(calls)) * p.file.Limits.Step
	err := p.exchange(limit)
	switch {
	case err != nil:
	case reset:
		err = p.wire.observed(calls[0])
	default:
		err = p.wire.stepped(calls)
	}
	if err = p.judge(err, limit); err != nil {
		for _, c := range calls {
			c.err = err
		}
	}
}

// exchange sends the request that is written and reads the answer.
func (p *process) exchange(limit time.Duration) error {
	if err := p.failed(); err != nil {
		return err
	}
	deadline := time.Now().Add(limit)
	p.in.deadline, p.out.deadline = deadline, deadline
	return p.wire.exchange(p.in, p.out)
}

// judge returns the error of an exchange. Unless it is a refusal, the process is ended.
func (p *process) judge(err error, limit time.Duration) error {
	if err == nil {
		return nil
	}
	var refusal *refusal
	if errors.As(err, &refusal) {
		return err
	}
	if failure := p.failed(); failure != nil {
		return failure
	}
	return p.fail(err, limit)
}

func (p *process) failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failure
}

// fail ends the process, for a reason that becomes the error of all that is asked from now on.
func (p *process) fail(reason error, limit time.Duration) error {
	switch {
	case errors.Is(reason, os.ErrDeadlineExceeded):
		reason = fmt.Errorf("its process hung and was killed: no answer within %v", limit)
	case errors.Is(reason, io.EOF) || errors.Is(reason, io.ErrUnexpectedEOF) || errors.Is(reason, syscall.EPIPE):
		select {
		case <-p.ended:
			reason = fmt.Errorf("its process ended (%w)", p.status)
		case <-time.After(min(grace, p.file.Limits.Step)):
			reason = errors.New("its process closed its standard output")
		}
	}
	_ = p.cmd.Process.Kill() // unless it has ended
	<-p.ended
	if words := p.words.String(); words != "" {
		reason = fmt.Errorf("%w; its last words: %s", reason, words)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failure = reason
	return reason
}

// open starts the process, unless it was, and has it make its environments.
func (p *process) open() error {
	p.opening.Do(func() {
		if err := p.start(); err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.failure = fmt.Errorf("cannot start its command: %w", err)
			return
		}
		p.wire.hello(p.file.Environments)
		err := p.exchange(p.file.Limits.Start)
		if err == nil {
			err = p.wire.greeted(p.file)
		}
		err = p.judge(err, p.file.Limits.Start)
		if err != nil && p.failed() == nil { // it has refused
			_ = p.fail(err, 0)
		}
	})
	return p.failed()
}

// start starts the process, as the first of a group.
func (p *process) start() error {
	in, theirIn, err := newPipe(true)
	if err != nil {
		return err
	}
	out, theirOut, err := newPipe(false)
	if err != nil {
		return errors.Join(err, theirIn.Close(), in.Close())
	}
	p.in, p.out = in, out
	p.cmd = exec.Command(p.file.Command[0], p.file.Command[1:]...)
	p.cmd.Dir, p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = p.file.Directory, theirIn, theirOut, &p.words
	p.cmd.WaitDelay = grace // for its standard error, which what it has started may hold
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // with whose end it would be killed
		defer runtime.UnlockOSThread()
		defer close(p.ended)
		err := p.cmd.Start()
		theirIn.Close()
		theirOut.Close()
		started <- err
		if err == nil {
			p.status = p.wait()
		}
	}()
	return <-started
}

// wait returns how the process has ended. Nothing that it has started is left.
func (p *process) wait() error {
	pid := p.cmd.Process.Pid
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL) // as long as its number is taken, it is its group's
	if err := p.cmd.Wait(); err != nil {
		return err
	}
	return errors.New("exit status 0")
}

// close ends the process.
func (p *process) close() error {
	p.late.Stop()
	if p.in == nil {
		return nil
	}
	p.in.Close()
	select {
	case <-p.ended:
	case <-time.After(grace):
		if p.cmd.Process != nil {
			_ = p.cmd.Process.Kill() // unless it has ended
		}
		<-p.ended
	}
	return p.out.Close()
}

// tail keeps the end of its input.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// maxWords bounds a process's last words, and the text of an error.
const maxWords = 2000

func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, text...)
	t.text = slices.Delete(t.text, 0, max(0, len(t.text)-maxWords))
	return len(text), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(t.text), "?"))
}
