package processtest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Earlier returns the directory of programs as they were at an earlier commit: packages, such as ./learner. They are
// built once and kept under .deps. In a clone without that commit the test is skipped.
func Earlier(t testing.TB, commit string, packages ...string) string {
	t.Helper()
	run := func(directory, program string, arguments ...string) (string, error) {
		cmd := exec.Command(program, arguments...)
		cmd.Dir = directory
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	root, err := run("", "git", "rev-parse", "--show-toplevel")
	if err == nil {
		_, err = run(root, "git", "cat-file", "-e", commit)
	}
	if err != nil {
		t.Skipf("the earlier programs are those of commit %s, which is not in this clone's "+
			"history: git fetch --unshallow", commit)
	}
	source := filepath.Join(root, ".deps", "earlier", commit)
	programs := filepath.Join(source, "bin")
	if err := os.MkdirAll(source, 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Open(source)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil { // other tests may be building them
		t.Fatal(err)
	}
	if _, err := os.Stat(programs); err == nil {
		return programs
	}
	must := func(directory, program string, arguments ...string) {
		t.Helper()
		if out, err := run(directory, program, arguments...); err != nil {
			t.Fatalf("build commit %s: %s %q: %v\n%s", commit, program, arguments, err, out)
		}
	}
	must(root, "sh", "-c", `git archive "$0" | tar -x -C "$1"`, commit, source)
	assets, err := filepath.Glob(filepath.Join(root, "sim", "tasks", "assets", "*.xml"))
	for _, asset := range assets { // which are fetched, not in the repository
		data, unread := os.ReadFile(asset)
		err = errors.Join(err, unread, os.WriteFile(
			filepath.Join(source, "sim", "tasks", "assets", filepath.Base(asset)), data, 0o644))
	}
	if err := errors.Join(err, os.Symlink(filepath.Join(root, ".deps"), filepath.Join(source, ".deps"))); err != nil &&
		!errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	must(source, "go", slices.Concat([]string{"build", "-o", "building/"}, packages)...)
	if err := os.Rename(filepath.Join(source, "building"), programs); err != nil {
		t.Fatal(err)
	}
	return programs
}
