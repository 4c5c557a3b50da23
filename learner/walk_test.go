package main_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
)

// The walk of docs/cluster.md comes to its end: both runs are done, one of them in a second epoch, and nothing that was
// started is left.
func TestWalk(t *testing.T) {
	t.Parallel()
	if _, err := buildNATS(); err != nil {
		t.Fatal(err)
	}
	directory := filepath.Join(t.TempDir(), "walk")
	cmd := exec.Command("../scripts/cluster.sh")
	cmd.Env = append(os.Environ(), "BIN="+programs, "DIR="+directory, "ITERATIONS=40", "BATCH=1000", fmt.Sprint("PORT=", freePorts(t, 7)))
	walk := startCommand(t, cmd)
	t.Cleanup(func() { // what it started ends with it
		walk.Signal(syscall.SIGTERM)
		walk.Wait()
	})
	walk.Succeed()
	for pattern, want := range map[string]int{
		`(?m)^walk/Swimmer-v2/npg-uapg-s[12] +done +40 +40000 .* [12] +20`: 2,
		`(?m)^walk/Swimmer-v2/npg-uapg-s[12] +done .* 2 +20`:               1,
		`(?m)^n[123] +leader`: 2,
	} {
		if n := len(regexp.MustCompile(pattern).FindAllString(walk.Log(), -1)); n != want {
			t.Errorf("%d lines match %s, want %d:\n%s", n, pattern, want, walk.Log())
		}
	}
}

// freePorts returns the first of some ports in a row of 127.0.0.1 that nobody listens on at the moment. They are below those
// that the system gives to whoever connects somewhere, so that they stay free while a server is away.
func freePorts(t *testing.T, count int) int {
	t.Helper()
next:
	for range 100 {
		first := 10_000 + rand.IntN(20_000)
		for port := first; port < first+count; port++ {
			listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				continue next
			}
			listener.Close()
		}
		return first
	}
	t.Fatalf("there are no %d free ports in a row", count)
	return 0
}
