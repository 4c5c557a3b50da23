//go:build gpu

package cuda

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"gorgonia.org/cu"
)

func TestDevices(t *testing.T) {
	devices, err := Devices()
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range devices {
		if d.Index != i || d.Name == "" || d.Memory <= 0 || d.Multiprocessors <= 0 || d.Capability.Major == 0 {
			t.Errorf("device %d: %+v", i, d)
		}
	}
}

const probe = "-probe"

// What Open says on machines that lack something, each in its own process: the driver
// is found once, before main.
func TestNoDevice(t *testing.T) {
	onlyEmulated(t)
	driverAlone := t.TempDir()
	if err := os.Symlink(filepath.Join(os.Getenv("CUDA_EMULATOR"), "libcuda.so.1"),
		filepath.Join(driverAlone, "libcuda.so.1")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ variable, want string }{
		"no library":      {"LD_LIBRARY_PATH=/nonexistent", "driver library cannot be loaded"},
		"no device":       {"CUDA_EMULATOR_DEVICES=0", "finds no device"},
		"no device, 100":  {"CUDA_EMULATOR_INIT=100", "finds no device"},
		"mismatch":        {"CUDA_EMULATOR_INIT=803", "restart the machine"},
		"unknown failure": {"CUDA_EMULATOR_INIT=999", "code 999"},
		"old driver":      {"CUDA_EMULATOR_DRIVER=10020", "too old (CUDA 10.2)"},
		"no cuBLAS":       {"LD_LIBRARY_PATH=" + driverAlone, "cuBLAS: it cannot be loaded"},
		"a device":        {"CUDA_EMULATOR_DEVICES=3", "<nil>"},
	} {
		child := exec.Command(os.Args[0], probe)
		child.Env = append(os.Environ(), c.variable)
		said, err := child.CombinedOutput()
		if err != nil || !strings.Contains(string(said), c.want) {
			t.Errorf("%s: %q (%v), want %q", name, said, err, c.want)
		}
	}
}

func TestOpenWrongDevice(t *testing.T) {
	for _, index := range []int{-1, 99} {
		var wrong *IndexError
		if _, err := Open(index); !errors.As(err, &wrong) || wrong.Index != index || wrong.Count < 1 {
			t.Errorf("device %d: %v", index, err)
		}
	}
}

func TestOpenOldDevice(t *testing.T) {
	onlyEmulated(t)
	t.Setenv("CUDA_EMULATOR_CAPABILITY", "6.1")
	var unavailable *UnavailableError
	if _, err := Open(0); !errors.As(err, &unavailable) || !strings.Contains(err.Error(), "6.1") {
		t.Error(err)
	}
}

func TestOpenRefusedPTX(t *testing.T) {
	onlyEmulated(t)
	t.Setenv("CUDA_EMULATOR_REFUSE_PTX", "ptxas application ptx input, line 10; fatal: Unsupported .version 9.9")
	var refused *PTXError
	_, err := Open(0)
	if !errors.As(err, &refused) || !strings.Contains(refused.Log, "Unsupported .version") ||
		!errors.Is(err, cu.InvalidPtx) {
		t.Fatal(err)
	}
	for _, part := range []string{"GPU 0", "emulated GPU", "12.9", "line 10"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

// What was had from the driver when Open fails goes back: here the last step fails.
func TestOpenWithoutMemory(t *testing.T) {
	onlyEmulated(t)
	t.Setenv("CUDA_EMULATOR_MEMORY", "1000000")
	var full *OutOfMemoryError
	if _, err := Open(0); !errors.As(err, &full) || full.Total != 1000000 || full.Asked != blasWorkspace {
		t.Fatal(err)
	}
	os.Unsetenv("CUDA_EMULATOR_MEMORY")
	b := opened(t)
	if _, active, _ := b.device.PrimaryCtxState(); active > 1 {
		t.Error("a context is left")
	}
}

// Goroutines move between threads; the context goes with them.
func TestThreads(t *testing.T) {
	b := opened(t)
	x := compute.NewBlock(b, 1, 1)
	b.Upload(x, []float64{0})
	var mutex sync.Mutex
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			runtime.LockOSThread() // and so each has its own
			defer runtime.UnlockOSThread()
			for range 10 {
				mutex.Lock()
				b.Upload(x, []float64{compute.ToSlice(b, x)[0] + 1})
				mutex.Unlock()
			}
		})
	}
	wait.Wait()
	if got := compute.ToSlice(b, x)[0]; got != 80 {
		t.Errorf("counted %v of 80", got)
	}
}

// A lost device is one typed failure, at this call or a later one, and from then on
// at every call. Closing is safe, and the next backend is as new.
func TestLostDevice(t *testing.T) {
	onlyEmulated(t)
	b := opened(t)
	x := compute.FromSlice(b, 1, 2, []float64{1, 2})
	t.Setenv("CUDA_EMULATOR_LOST_AFTER", "0")
	for range 2 {
		var lost *DeviceLostError
		if err := failure(func() { compute.Fill(b, x, 3); compute.ToSlice(b, x) }); !errors.As(err, &lost) ||
			lost.Call == "" {
			t.Fatal(err)
		}
	}
	b.Release(x.Buffer) // as deferred calls do
	b.Close()
	os.Unsetenv("CUDA_EMULATOR_LOST_AFTER")
	again := opened(t)
	y := compute.NewBlock(again, 1, 1)
	compute.Fill(again, y, 4)
	if got := compute.ToSlice(again, y)[0]; got != 4 {
		t.Error(got)
	}
}

// failure runs f and returns how its device failed.
func failure(f func()) (err error) {
	defer compute.Catch(&err)
	f()
	return nil
}
