package device

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/internal/commandline"
	"github.com/dbqpg/dbqpg/sim/tasks"
)

// cores is read before anything raises GOMAXPROCS, as local actors do.
var cores = runtime.GOMAXPROCS(0)

// Cores returns the number of cores available to the program: GOMAXPROCS at its start.
func Cores() int { return cores }

// Processor returns the CPU's name if the system reports it, or else the architecture.
func Processor() string {
	if name := field("/proc/cpuinfo", "model name"); name != "" {
		return name
	}
	return runtime.GOARCH
}

// PeakMemory returns the process's peak resident size in bytes, or 0 if the system does not report it.
func PeakMemory() int64 {
	var kilobytes int64
	if _, err := fmt.Sscanf(field("/proc/self/status", "VmHWM"), "%d kB", &kilobytes); err != nil {
		return 0
	}
	return kilobytes << 10
}

// ProcessorTime returns the CPU time of the process so far, over all threads.
func ProcessorTime() time.Duration { return processorTime(syscall.RUSAGE_SELF) }

// ThreadTime is ProcessorTime of the calling thread alone.
func ThreadTime() time.Duration { return processorTime(syscall.RUSAGE_THREAD) }

func processorTime(who int) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(who, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// field returns the value of the first line "name: value" of a file, or "".
func field(path, name string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Machine describes the machine: processor, cores, operating system.
func Machine() string {
	return fmt.Sprintf("%s, %d of %d cores, %s/%s", Processor(), Cores(), runtime.NumCPU(), runtime.GOOS,
		runtime.GOARCH)
}

// Versions returns the versions of the software: commit, Go, MuJoCo, BLAS.
func Versions() string {
	return strings.Join([]string{commandline.Commit(), "Go " + strings.TrimPrefix(runtime.Version(), "go"),
		tasks.Engine(), cpu.BLAS()}, ", ")
}
