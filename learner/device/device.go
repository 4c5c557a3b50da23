// Package device opens what a learner computes on: the processors, or a GPU where the program was built with the tag
// gpu and the machine has one.
package device

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/learner/config"
	"github.com/dbqpg/dbqpg/learner/machine"
)

// Open returns the backend that is asked for, and a function that gives it back. It tells log in one line which it is
// and why. A GPU that was asked for and cannot be had is an error that says what to do; with auto it is the reason why
// the processors compute.
func Open(want config.Device, log *slog.Logger) (backend compute.Backend, closeDevice func(), err error) {
	because := "--device " + want.String()
	if !want.CPU {
		backend, closeDevice, err = openGPU(want.GPU)
	}
	switch {
	case want.CUDA && err != nil:
		return nil, nil, fmt.Errorf("--device %v: %w", want, err)
	case err != nil:
		because = "no GPU: " + err.Error()
	case backend != nil && !want.CUDA:
		because = "there is a GPU, and --device is auto"
	}
	if backend == nil {
		backend, closeDevice = cpu.New(machine.Cores()), func() {}
	}
	log.Info("computing", "on", backend.Name(), "because", because)
	return backend, closeDevice, nil
}

// Advise adds to the error of a failed device how to go on; command is what resumes the task. fits, asked when memory
// ran out, is how many steps of a batch fit into so many bytes, 0 if it cannot tell.
func Advise(err error, command string, fits func(bytes float64) int) error {
	var failure *compute.Failure
	if !errors.As(err, &failure) {
		return err
	}
	var outOfMemory interface{ Available() int64 }
	if errors.As(err, &outOfMemory) {
		// The pool rounds sizes up by at most an eighth; libraries and scratch take their share.
		const share, scratch = 0.85, 512 << 20
		if steps := fits(share * (float64(outOfMemory.Available()) - scratch)); steps > 0 {
			err = fmt.Errorf("%w; a batch of about %d steps would fit (a new run with --batch %d)", err, steps, steps)
		}
	}
	return fmt.Errorf("%w; the last checkpoint is intact: go on with %s, on another device with --device cpu or --device cuda:N", err, command)
}
