package processtest

import (
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

func shell(t testing.TB, script string) *Process {
	return Start(t, exec.Command("sh", "-c", script))
}

// What both streams say is waited for line by line, also what was said long ago; the end is waited for with all that was said.
func TestProcess(t *testing.T) {
	p := shell(t, "trap 'echo caught >&2; exit 3' TERM; echo port 17; while true; do sleep 0.02; done")
	if found := p.Expect(`^port (\d+)$`); len(found) != 2 || found[1] != "17" {
		t.Error(found)
	}
	p.Signal(syscall.SIGTERM)
	p.Expect("^caught$")
	p.Expect("^port")
	if status := p.Wait(); status != 3 || p.Log() != "port 17\ncaught" {
		t.Errorf("status %d, log %q", status, p.Log())
	}
	p.Signal(syscall.SIGTERM) // nobody is there
	if status := p.Wait(); status != 3 {
		t.Errorf("status %d when asked again", status)
	}
	killed := shell(t, "exec sleep 1000")
	killed.Kill()
	if status := killed.Wait(); status != -1 {
		t.Errorf("status %d of a process that was killed", status)
	}
	shell(t, "echo done").Succeed()
}

// recorder is a test that records its end.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Fatalf(format string, arguments ...any) {
	r.said = fmt.Sprintf(format, arguments...)
	runtime.Goexit()
}

// A test that waits for what does not come ends with the process, and one that wants success with its status.
func TestDisappointment(t *testing.T) {
	for want, wait := range map[string]func(p *Process){
		`ended without a line that matches "port"`: func(p *Process) { p.Expect("port") },
		"ended with status 7":                      (*Process).Succeed,
	} {
		r := &recorder{TB: t}
		p := shell(r, "echo starboard; exit 7")
		done := make(chan struct{})
		go func() {
			defer close(done)
			wait(p)
		}()
		<-done
		if !strings.Contains(r.said, want) {
			t.Errorf("%q, want %q", r.said, want)
		}
	}
}
