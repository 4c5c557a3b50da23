// Package failpoint lets tests kill or stop a process at a named point of its work, put its clock forward or back, and have it be of
// another release. Unless the environment variables are set it does nothing.
package failpoint

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// Variable is the environment variable that says where: "kill@NAME:N" kills the process with SIGKILL the Nth time (from 1)
// that it hits the point of that name; "stop@NAME:N" stops it with SIGSTOP until it is continued.
const Variable = "DBQPG_TEST_FAILPOINT"

// point is the parsed variable.
type point struct {
	signal syscall.Signal
	name   string
	left   atomic.Int64
}

var chosen = sync.OnceValue(func() *point { return parse(os.Getenv(Variable)) })

// parse returns nil for an invalid or empty text.
func parse(text string) *point {
	action, rest, _ := strings.Cut(text, "@")
	name, count, _ := strings.Cut(rest, ":")
	number, err := strconv.ParseInt(count, 10, 64)
	signals := map[string]syscall.Signal{"kill": syscall.SIGKILL, "stop": syscall.SIGSTOP}
	if err != nil || number < 1 || name == "" || signals[action] == 0 {
		return nil
	}
	p := &point{signal: signals[action], name: name}
	p.left.Store(number)
	return p
}

// Hit marks the point of that name.
func Hit(name string) {
	if p := chosen(); p != nil && p.name == name && p.left.Add(-1) == 0 {
		runtime.LockOSThread()
		_ = syscall.Tgkill(os.Getpid(), syscall.Gettid(), p.signal) // this thread goes no further before it is stopped
		runtime.UnlockOSThread()
		if p.signal == syscall.SIGKILL {
			select {} // until it arrives
		}
	}
}
