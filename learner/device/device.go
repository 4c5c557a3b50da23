// Package device opens what a learner computes on: the processors, or a GPU where the program was built with the tag
// gpu and the machine has one.
package device

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/cpu"
	"github.com/dbqpg/dbqpg/internal/config"
)

// Device is what computes.
type Device struct {
	compute.Backend
	// Close gives it back; its buffers must not be used any more.
	Close func()

	because string
}

// Open returns the device that is asked for. A GPU that was asked for and cannot be had is an error that says what to
// do; with auto the processors take its place.
func Open(want config.Device) (*Device, error) {
	if want.CPU {
		return processors("--device cpu"), nil
	}
	backend, closeGPU, err := openGPU(want.GPU)
	switch {
	case err == nil && want.CUDA:
		return &Device{backend, closeGPU, "--device " + want.String()}, nil
	case err == nil:
		return &Device{backend, closeGPU, "there is a GPU, and --device is auto"}, nil
	case want.CUDA:
		return nil, fmt.Errorf("--device %v: %w", want, err)
	default:
		return processors(err.Error()), nil
	}
}

func processors(because string) *Device { return &Device{cpu.New(Cores()), func() {}, because} }

// Announce tells log in one line what computes and why.
func (d *Device) Announce(log *slog.Logger) {
	log.Info("computing", "on", d.Name(), "because", d.because)
}

// TooLarge reports whether an error is of a device that ran out of memory, and would have on its own: whoever tries again on
// such a device comes no further.
func TooLarge(err error) bool {
	var memory interface{ TooLarge() bool }
	return errors.As(err, &memory) && memory.TooLarge()
}

// Advise adds to the error of a failed device how to go on, a clause, "" for none. fits, asked when memory ran out, is how many steps of a
// batch fit into so many bytes, 0 if it cannot tell.
func Advise(err error, goOn string, fits func(bytes float64) int) error {
	var failure *compute.Failure
	if !errors.As(err, &failure) {
		return err
	}
	var outOfMemory interface{ Available() int64 }
	if errors.As(err, &outOfMemory) {
		// The pool rounds sizes up by at most an eighth; libraries and scratch take their share.
		const share, scratch = 0.8, 64 << 20
		if steps := fits(share * (float64(outOfMemory.Available()) - scratch)); steps > 0 {
			err = fmt.Errorf("%w; a batch of about %d steps would fit (a new run with --batch %d)", err, steps, steps)
		}
	}
	if goOn == "" {
		return err
	}
	return fmt.Errorf("%w; %s", err, goOn)
}
