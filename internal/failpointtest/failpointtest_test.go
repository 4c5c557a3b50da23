package failpointtest

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]syscall.Signal{
		"kill@here:1": syscall.SIGKILL, "stop@here:20": syscall.SIGSTOP,
		"": 0, "kill": 0, "kill@here": 0, "kill@:1": 0, "kill@here:0": 0, "kill@here:x": 0, "sleep@here:1": 0,
		"@here:1": 0,
	} {
		p := parse(text)
		if got := p != nil; got != (want != 0) || got && (p.signal != want || p.name != "here") {
			t.Errorf("%q: %+v, want signal %v", text, p, want)
		}
	}
}

// The process dies the third time that it hits its point, and not at another.
func TestHit(t *testing.T) {
	if os.Getenv(Variable) != "" {
		for range 2 {
			Hit("here")
			Hit("there")
		}
		os.Stdout.WriteString("twice")
		Hit("here")
		os.Stdout.WriteString("thrice")
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=TestHit")
	cmd.Env = append(os.Environ(), Variable+"=kill@here:3")
	output, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL ||
		string(output) != "twice" {
		t.Errorf("%v, after %q", err, output)
	}
}
