//go:build gpu

package cuda

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// The tests run on a GPU, or on the emulated one of scripts/cuda.sh --emulator.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == probe { // of a test's child process
		b, err := Open(0)
		fmt.Print(err)
		if err == nil {
			b.Close()
		}
		os.Exit(0)
	}
	if _, err := Devices(); err != nil {
		fmt.Printf("%v\nwithout a GPU: scripts/cuda.sh --emulator go test -tags gpu ./estimators/compute/cuda/...\n",
			err)
		os.Exit(1)
	}
	if folder := os.Getenv("CUDA_EMULATOR"); folder != "" {
		for _, library := range []string{"libcuda.so.1", "libcublas.so.12"} {
			os.ReadFile(filepath.Join(folder, library)) // so go test runs the tests again when the emulator changes
		}
	}
	os.Exit(m.Run())
}

// onlyEmulated skips a test whose failures a GPU does not have on demand.
func onlyEmulated(t *testing.T) {
	t.Helper()
	if os.Getenv("CUDA_EMULATOR") == "" {
		t.Skip("needs the emulator's failures on demand: scripts/cuda.sh --emulator")
	}
}

// opened returns a backend that is closed with the test, with buffers of exact size.
func opened(t testing.TB) *Backend {
	t.Helper()
	b, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	b.exact = true
	t.Cleanup(b.Close)
	return b
}
