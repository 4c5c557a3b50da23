package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Device is the device that a learner is asked to compute on. The zero value is auto: the first GPU, or the CPU if
// there is none.
type Device struct {
	CPU  bool
	CUDA bool // GPU number GPU; an error if there is none
	GPU  int
}

// String returns the text that Set reads.
func (d Device) String() string {
	switch {
	case d.CPU:
		return "cpu"
	case d.CUDA:
		return fmt.Sprintf("cuda:%d", d.GPU)
	default:
		return "auto"
	}
}

// Set implements pflag.Value.
func (d *Device) Set(text string) error {
	index, numbered := strings.CutPrefix(text, "cuda:")
	switch {
	case text == "auto":
		*d = Device{}
		return nil
	case text == "cpu":
		*d = Device{CPU: true}
		return nil
	case text == "cuda":
		*d = Device{CUDA: true}
		return nil
	case numbered:
		if n, err := strconv.ParseUint(index, 10, 16); err == nil {
			*d = Device{CUDA: true, GPU: int(n)}
			return nil
		}
	}
	return fmt.Errorf("%q is not a device: must be auto, cpu, cuda or cuda:N, GPU number N counted from 0", text)
}

// Type implements pflag.Value.
func (d *Device) Type() string { return "device" }
