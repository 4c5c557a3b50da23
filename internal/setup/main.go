// Command setup fetches what the build needs besides Go modules into .deps, which git ignores: MuJoCo, OpenBLAS and
// Gymnasium's MJCF models and, if named, other parts (parts.go). They come out of wheels from PyPI, or from the mirror
// that PIP_INDEX_URL names, which are pinned by version and hash and only unpacked. It needs neither Python nor root,
// and does nothing if everything is in place.
//
//	go run ./internal/setup [PART...]
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "setup: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, names []string) error {
	if _, err := os.Stat("go.mod"); err != nil {
		return errors.New("run it in the root of a clone of the repository")
	}
	machine, known := machines[runtime.GOARCH]
	if runtime.GOOS != "linux" || !known {
		return fmt.Errorf("%s on %s is not supported: use Linux on x86_64 or aarch64", runtime.GOOS, runtime.GOARCH)
	}
	if err := checkCompiler(ctx); err != nil {
		return err
	}
	for _, name := range append([]string{"base"}, names...) {
		i := slices.IndexFunc(parts, func(p part) bool { return p.name == name })
		if i < 0 {
			return fmt.Errorf("there is no part %q", name)
		}
		if err := parts[i].fetch(ctx, ".", machine); err != nil {
			return fmt.Errorf("%s: %w", parts[i].what, err)
		}
	}
	return nil
}

// checkCompiler reports, before the download, what a build would lack: MuJoCo is called through cgo.
func checkCompiler(ctx context.Context) error {
	output, err := exec.CommandContext(ctx, "go", "env", "CC", "CGO_ENABLED").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	compiler, enabled, _ := strings.Cut(strings.TrimSpace(string(output)), "\n")
	command := strings.Fields(compiler)
	if len(command) == 0 {
		return errors.New("no C compiler is configured: install gcc (Debian, Ubuntu: apt install build-essential)")
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		return fmt.Errorf("compiler %s not found: install gcc (Debian, Ubuntu: apt install build-essential)",
			command[0])
	}
	preprocess := exec.CommandContext(ctx, command[0], append(command[1:], "-E", "-")...)
	preprocess.Stdin = strings.NewReader("#include <stdlib.h>\n")
	if preprocess.Run() != nil {
		return errors.New("headers of C not found: install libc6-dev (Debian, Ubuntu: apt install build-essential)")
	}
	if enabled != "1" {
		return errors.New("CGO_ENABLED is 0: set it to 1 (go env -w CGO_ENABLED=1), MuJoCo is called through cgo")
	}
	return nil
}

// machines maps Go's names of architectures to those in the names of wheels.
var machines = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}
