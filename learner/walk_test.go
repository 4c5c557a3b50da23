package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/dbqpg/dbqpg/internal/processtest"
)

// The walk of docs/cluster.md comes to its end: both runs are done, one of them in a second epoch, and nothing that was
// started is left.
func TestWalk(t *testing.T) {
	t.Parallel()
	if _, err := buildNATS(); err != nil {
		t.Fatal(err)
	}
	directory := filepath.Join(t.TempDir(), "walk")
	var ports []string
	for range 7 {
		ports = append(ports, strconv.Itoa(processtest.Port(t)))
	}
	cmd := exec.Command("../scripts/cluster.sh")
	cmd.Env = append(os.Environ(), "BIN="+programs, "DIR="+directory, "ITERATIONS=40", "BATCH=1000", "PORTS="+strings.Join(ports, " "))
	walk := startCommand(t, cmd)
	t.Cleanup(func() { // what it started ends with it
		walk.Signal(syscall.SIGTERM)
		walk.Wait()
	})
	walk.Succeed()
	for pattern, want := range map[string]int{
		`(?m)^walk/Swimmer-v2/npg-uapg-s[12] +done +40/40 +41000 .* [12] +20`: 2,
		`(?m)^walk/Swimmer-v2/npg-uapg-s[12] +done .* 2 +20`:                  1,
		`(?m)^n[123] +leader`: 2,
	} {
		if n := len(regexp.MustCompile(pattern).FindAllString(walk.Log(), -1)); n != want {
			t.Errorf("%d lines match %s, want %d:\n%s", n, pattern, want, walk.Log())
		}
	}
}
