//go:build gpu

package cuda

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// No kernel reads shared memory that another thread may be writing: ThreadSanitizer says
// so, and finds it where a barrier is left out.
func TestRaces(t *testing.T) {
	onlyEmulated(t)
	source, err := os.ReadFile("emulator/races.cpp")
	if err != nil {
		t.Fatal(err)
	}
	if report, err := racing(t, "."); err != nil {
		t.Fatalf("%v\n%s", err, report)
	}

	barrier := regexp.MustCompile(`__syncthreads\(\);`)
	kernels, err := filepath.Glob("kernels/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"grid.h", "sketches.cu"} {
		folder := t.TempDir()
		write := func(path string, text []byte) {
			if err := os.MkdirAll(filepath.Join(folder, filepath.Dir(path)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, path), text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		write("emulator/races.cpp", source)
		for _, path := range kernels {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if filepath.Base(path) == name {
				text = barrier.ReplaceAll(text, nil)
			}
			write(path, text)
		}
		if report, err := racing(t, folder); err == nil || !strings.Contains(report, "data race") {
			t.Errorf("nothing is found in %s without its barriers", name)
		}
	}
}

// racing builds and runs the races.cpp of a folder like this one.
func racing(t *testing.T, folder string) (report string, err error) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "races")
	compiler := exec.Command("g++", "-std=c++17", "-O1", "-g", "-fsanitize=thread", "-w", "-x", "c++",
		filepath.Join(folder, "emulator", "races.cpp"), "-o", program, "-lpthread")
	if out, err := compiler.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := exec.Command(program)
	run.Env = append(os.Environ(), "TSAN_OPTIONS=halt_on_error=1")
	out, err := run.CombinedOutput()
	if strings.Contains(string(out), "unexpected memory mapping") {
		t.Skip("this kernel lays out memory in a way that g++'s ThreadSanitizer cannot cope " +
			"with (vm.mmap_rnd_bits above 28)")
	}
	return string(out), err
}
