package offlinetest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// server is a process of the cluster.
type server struct {
	name    string
	log     string // path
	command *exec.Cmd
	ended   chan struct{}
}

// start starts a program; what it says goes to a file of its name.
func (c *Cluster) start(path string, args ...string) error {
	s := &server{name: filepath.Base(path), ended: make(chan struct{})}
	s.log = c.path(s.name + ".log")
	output, err := os.Create(s.log)
	if err != nil {
		return fmt.Errorf("offline: %w", err)
	}
	defer output.Close()
	s.command = exec.Command(path, args...)
	s.command.Stdout, s.command.Stderr = output, output
	s.command.Env = append(os.Environ(), "HOME="+c.directory)
	s.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt at the keyboard is the test's to answer
	if err := s.command.Start(); err != nil {
		return fmt.Errorf("offline: %w", err)
	}
	go func() {
		_ = s.command.Wait() // the state says how
		close(s.ended)
	}()
	c.servers = append(c.servers, s)
	return nil
}

// until asks until it gets no error, or a server has ended, or the context is over.
func (c *Cluster) until(ctx context.Context, what string, ask func(context.Context) error) error {
	for {
		failure := ask(ctx)
		if failure == nil {
			return nil
		}
		for _, s := range c.servers {
			select {
			case <-s.ended:
				return fmt.Errorf("offline: %s ended (%v) while waiting until %s", s.name, s.command.ProcessState, what)
			default:
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("offline: %w while waiting until %s: %w", ctx.Err(), what, failure)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Close ends all servers. Containers end with the process namespace.
func (c *Cluster) Close() {
	if c.stopped != nil {
		close(c.stopped)
	}
	for _, s := range c.servers {
		_ = s.command.Process.Kill()
		<-s.ended
	}
}

// fail closes a cluster that did not start, and adds the last lines of each server's log to the error.
func (c *Cluster) fail(err error) error {
	c.Close()
	for _, s := range c.servers {
		err = fmt.Errorf("%w\n== %s\n%s", err, s.name, tail(s.log))
	}
	return err
}

// tail returns the end of a file.
func tail(path string) []byte {
	data, err := os.ReadFile(path)
	if err != nil {
		return []byte(err.Error())
	}
	return data[max(0, len(data)-2000):]
}
