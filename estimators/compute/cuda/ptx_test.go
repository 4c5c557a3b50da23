//go:build !gpu

package cuda_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../../.."

// fetched skips the test unless set-up has fetched a part of what builds for GPUs need.
func fetched(t *testing.T, path string) string {
	t.Helper()
	full, err := filepath.Abs(filepath.Join(root, ".deps", path))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(full); err != nil {
		t.Skipf("%s is not there: run scripts/setup.sh cuda ptx", path)
	}
	return full
}

func run(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	command := exec.Command(name, args...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return out
}

func kernels(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("kernels", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no %s: %v", pattern, err)
	}
	return files
}

// The PTX in the repository is what its sources compile to.
func TestPTXIsCurrent(t *testing.T) {
	compiler := fetched(t, "ptx")
	sources := kernels(t, "*.cu")
	for _, source := range sources {
		target := filepath.Join(t.TempDir(), "kernels.ptx")
		run(t, "python3", filepath.Join(root, "scripts/ptx.py"), compiler, source, target)
		want, err := os.ReadFile(target)
		if err != nil {
			t.Fatal(err)
		}
		committed := strings.TrimSuffix(source, ".cu") + ".ptx"
		if got, err := os.ReadFile(committed); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what %s compiles to (%v): run make ptx", committed, source, err)
		}
	}
	if all := kernels(t, "*.ptx"); len(all) != len(sources) {
		t.Errorf("%v are not all of %v", all, sources)
	}
	for _, header := range kernels(t, "*.h") {
		os.ReadFile(header) // a change of it runs this test again
	}
}

// Every generation of devices from Volta to Hopper can run it: the assembler makes
// machine code for them, as the driver will.
func TestPTXAssembles(t *testing.T) {
	compiler := fetched(t, "ptx")
	assemble := func(file, arch string) {
		run(t, filepath.Join(compiler, "bin/ptxas"), "-arch="+arch, "-o", filepath.Join(t.TempDir(), "kernels.cubin"),
			file)
	}
	for _, file := range kernels(t, "*.ptx") {
		os.ReadFile(file) // a change of it runs this test again
		for _, arch := range []string{"sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90"} {
			assemble(file, arch)
		}
	}
	for _, source := range kernels(t, "*.cu") { // compiled for the newest itself
		target := filepath.Join(t.TempDir(), "kernels.ptx")
		run(t, "python3", filepath.Join(root, "scripts/ptx.py"), compiler, source, target, "compute_90")
		assemble(target, "sm_90")
	}
}

// libcuda.a has a jump for each function of the driver that the program refers to.
func TestSymbols(t *testing.T) {
	fetched(t, "cuda")
	os.ReadFile("staging.go") // it alone refers to functions that gorgonia.org/cu does not
	got, err := os.ReadFile("libcuda/symbols.h")
	if err != nil {
		t.Fatal(err)
	}
	if want := run(t, filepath.Join(root, "scripts/cuda.sh"), "libcuda/symbols.sh"); !bytes.Equal(got, want) {
		t.Errorf("libcuda/symbols.h is not current: scripts/cuda.sh %s/libcuda/symbols.sh >symbols.h",
			"estimators/compute/cuda")
	}
}
