// Package failpoint lets tests kill or stop a process at a point of its work that they name. Without the variable it does
// nothing.
package failpoint

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// Variable is the one in the environment that says where: "kill@NAME:N" ends the process by SIGKILL the Nth time (from 1)
// that it hits the point of that name, "stop@NAME:N" stops it by SIGSTOP until somebody continues it.
const Variable = "DBQPG_TEST_FAILPOINT"

// point is what the variable asks for.
type point struct {
	signal syscall.Signal
	name   string
	left   atomic.Int64
}

var chosen = sync.OnceValue(func() *point { return parse(os.Getenv(Variable)) })

// parse returns nil for what asks for nothing.
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

// Hit is a point.
func Hit(name string) {
	if p := chosen(); p != nil && p.name == name && p.left.Add(-1) == 0 {
		_ = syscall.Kill(os.Getpid(), p.signal) // a signal to oneself
		if p.signal == syscall.SIGKILL {
			select {} // until it arrives
		}
	}
}
