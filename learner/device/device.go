// Package device opens the device that a learner computes on: the CPU, or a GPU if the program was built with the tag
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

// Device is an open device.
type Device struct {
	compute.Backend
	// Close releases the device, whose buffers must no longer be used.
	Close func()

	because string
}

// Open returns the requested device. If a GPU was requested but is not available, the error says what to do; auto falls
// back to the CPU.
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

// Announce logs in one line which device is used and why.
func (d *Device) Announce(log *slog.Logger) {
	log.Info("computing", "on", d.Name(), "because", d.because)
}

// TooLarge reports whether an error means that a run is too large for the device's memory, even without other users, so
// that retrying on such a device is pointless.
func TooLarge(err error) bool {
	var memory interface{ TooLarge() bool }
	return errors.As(err, &memory) && memory.TooLarge()
}

// Advise adds advice to the error of a failed device: the clause goOn, unless it is "".
func Advise(err error, goOn string) error {
	var failure *compute.Failure
	if !errors.As(err, &failure) {
		return err
	}
	var outOfMemory interface{ Available() int64 }
	if errors.As(err, &outOfMemory) {
		err = fmt.Errorf("%w; a new run with a smaller --batch needs less memory", err)
	}
	if goOn == "" {
		return err
	}
	return fmt.Errorf("%w; %s", err, goOn)
}
