package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Device is what a learner is asked to compute on. The zero value is auto: the first GPU, or else the processors.
type Device struct {
	CPU  bool // the processors
	CUDA bool // GPU number GPU, or an error
	GPU  int
}

// DeviceHelp is the usage of a flag that takes a [Device].
const DeviceHelp = "what computes: cpu, cuda or cuda:N (the N-th GPU from 0 on); auto is the first GPU, or else the cpu"

// ParseDevice reads auto, cpu, cuda or cuda:N.
func ParseDevice(text string) (Device, error) {
	index, cuda := strings.CutPrefix(text, "cuda:")
	switch {
	case text == "auto":
		return Device{}, nil
	case text == "cpu":
		return Device{CPU: true}, nil
	case text == "cuda":
		return Device{CUDA: true}, nil
	case cuda:
		if n, err := strconv.ParseUint(index, 10, 16); err == nil {
			return Device{CUDA: true, GPU: int(n)}, nil
		}
	}
	return Device{}, fmt.Errorf("%q is not a device: must be auto, cpu, cuda or cuda:N, the N-th GPU from 0 on", text)
}

// String is what [ParseDevice] reads.
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
func (d *Device) Set(text string) (err error) {
	parsed, err := ParseDevice(text)
	if err == nil {
		*d = parsed
	}
	return err
}

// Type implements pflag.Value.
func (d *Device) Type() string { return "device" }
