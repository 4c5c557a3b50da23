package processtest

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func shell(t testing.TB, script string) *Process {
	return Start(t, exec.Command("sh", "-c", script))
}

// What both streams say is waited for line by line, also what was said long ago; the end is waited for with all that
// was said.
func TestProcess(t *testing.T) {
	p := shell(t, "trap 'echo caught >&2; exit 3' TERM; echo port 17; while true; do sleep 0.02; done")
	if found := p.Expect(`^port (\d+)$`); len(found) != 2 || found[1] != "17" {
		t.Error(found)
	}
	p.Signal(syscall.SIGTERM)
	p.ExpectTimes(1, "^caught$")
	p.ExpectTimes(2, "o|a")
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
	if status := killed.Wait(); status != -1 || !killed.Killed() {
		t.Errorf("status %d of a process that was killed", status)
	}
	killed.Kill() // it has died of this before
	shell(t, "echo done").Succeed()
}

// recorder is a test that records how it fails.
type recorder struct {
	testing.TB
	said     string
	cleanups []func()
}

func (r *recorder) Fatalf(format string, arguments ...any) {
	r.said += fmt.Sprintf(format, arguments...)
	runtime.Goexit()
}

func (r *recorder) Fatal(arguments ...any) { r.Fatalf("%s", fmt.Sprint(arguments...)) }
func (r *recorder) Error(arguments ...any) { r.said += fmt.Sprint(arguments...) }
func (r *recorder) Cleanup(cleanup func()) { r.cleanups = append(r.cleanups, cleanup) }
func (r *recorder) Logf(string, ...any)    {}
func (r *recorder) run(test func(*recorder)) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		test(r)
	}()
	<-ended
	for _, cleanup := range slices.Backward(r.cleanups) {
		cleanup()
	}
}

// A test that waits for what does not come ends with the process, one that wants success or a kill with its status, and
// whatever a test waits for ends when one of its processes fails, whose last words it tells.
func TestDisappointment(t *testing.T) {
	const words = "sh -c echo broken; exit 7 ended by itself (exit status 7); its last words:\nbroken"
	other := func(r *recorder) *Process { return shell(r, "echo starboard; exec sleep 1000") }
	broken := func(r *recorder) *Process { return shell(r, "echo broken; exit 7") }
	for name, c := range map[string]struct {
		want string // "": it does not fail
		test func(r *recorder)
	}{
		"no line": {`ended (exit status 7) without match 1 of "port"`,
			func(r *recorder) { broken(r).Expect("port") }},
		"too few lines": {`ended (exit status 7) without match 2 of "broken"`,
			func(r *recorder) { broken(r).ExpectTimes(2, "broken") }},
		"no success": {"ended with status 7", func(r *recorder) { broken(r).Succeed() }},
		"no kill": {"had ended before (exit status 7)",
			func(r *recorder) { p := broken(r); <-p.Done(); p.Kill() }},
		"another's line":   {words, func(r *recorder) { broken(r); other(r).Expect("port") }},
		"another's end":    {words, func(r *recorder) { p := other(r); broken(r); p.Wait() }},
		"nothing to await": {words, func(r *recorder) { p := other(r); <-broken(r).Done(); p.Expect("starboard") }},
		"context": {words, func(r *recorder) {
			ctx := Context(r)
			broken(r)
			<-ctx.Done()
			if err := context.Cause(ctx); err.Error() != words {
				r.Error(err)
			}
		}},
		"no answer": {words, func(r *recorder) {
			address := Address(r)
			broken(r)
			AwaitOK(r, "http://"+address)
		}},
		"may fail": {"", func(r *recorder) {
			p := broken(r)
			p.MayFail()
			<-p.Done()
			if err := Context(r).Err(); err != nil {
				r.Error(err)
			}
			p = broken(r)
			p.Await("port")
			if status := p.Wait(); status != 7 {
				r.Error(status)
			}
			other(r)
		}},
		"told to end": {"", func(r *recorder) {
			p := shell(r, "trap 'exit 3' TERM; echo ready; while true; do sleep 0.02; done")
			p.Expect("ready")
			p.Signal(syscall.SIGTERM)
			<-p.Done()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &recorder{TB: t}
			r.run(c.test)
			if (c.want == "") != (r.said == "") || !strings.Contains(r.said, c.want) {
				t.Errorf("it said %q, want %q", r.said, c.want)
			}
		})
	}
}
