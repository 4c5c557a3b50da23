// Package processtest builds programs for tests, runs them, and waits for lines of their logs.
//
//	var programs string
//
//	func TestMain(m *testing.M) { os.Exit(processtest.Build(m, &programs, ".")) }
//
//	func TestStops(t *testing.T) {
//		p := processtest.Start(t, exec.Command(filepath.Join(programs, "learner"), "--env", "Swimmer-v5"))
//		address := p.Expect(`listening on (\S+)`)[1]
//		...
//		p.Signal(syscall.SIGTERM)
//		p.Succeed()
//	}
//
// Nothing is timed: a test waits for events, for at most [Patience].
package processtest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"
)

// Build builds programs with go build's arguments (options, then packages), runs the package's tests, and returns the
// exit status. It sets directory to the programs' directory, which it removes afterwards. The programs have failpoints,
// unless -tags says otherwise.
func Build(m *testing.M, directory *string, arguments ...string) int {
	made, err := os.MkdirTemp("", "dbqpg-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(made)
	*directory = made
	os.Setenv("TMPDIR", made) // temporary files of killed processes are removed with it
	build := exec.Command("go", slices.Concat(
		[]string{"build", "-tags", "failpoint", "-o", made + string(filepath.Separator)}, arguments)...)
	if output, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %v\n%s", build, err, output)
		return 1
	}
	flag.Parse()
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		// processes wait for each other as much as they compute
		_ = flag.Set(parallel.Name, strconv.Itoa(2*runtime.GOMAXPROCS(0)))
	}
	return m.Run()
}
