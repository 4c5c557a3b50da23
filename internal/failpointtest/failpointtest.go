// Package failpointtest implements the failpoints of package failpoint, for programs built with the tag failpoint.
// Tests set its environment variables; without them it does nothing.
package failpointtest

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// Variable names the environment variable of the failpoint: "kill@NAME:N" kills the process with SIGKILL at its Nth
	// hit of NAME, counted from 1; "stop@NAME:N" stops it with SIGSTOP.
	Variable = "DBQPG_TEST_FAILPOINT"
	// SkewVariable names the environment variable of the clock's skew, a duration such as -1h that is added to the
	// machine's clock.
	SkewVariable = "DBQPG_TEST_SKEW"
)

// point is the parsed Variable.
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
		_ = syscall.Tgkill(os.Getpid(), syscall.Gettid(), p.signal) // stops this thread before it goes on
		runtime.UnlockOSThread()
		if p.signal == syscall.SIGKILL {
			select {} // until the signal arrives
		}
	}
}

var skew = sync.OnceValue(func() time.Duration {
	d, _ := time.ParseDuration(os.Getenv(SkewVariable)) // 0 if unset
	return d
})

// Now returns time.Now plus the skew.
func Now() time.Time { return time.Now().Add(skew()) }
