//go:build gpu

package cuda

/*
#cgo LDFLAGS: -lcuda
#include "libcuda/libcuda.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"gorgonia.org/cu"
)

// The oldest driver and device on which the kernels run. oldestDriver is in the driver's
// notation: 1000*major + 10*minor.
const oldestDriver = 11000

var oldestDevice = Capability{7, 0}

// Capability is a device's compute capability.
type Capability struct{ Major, Minor int }

// String formats the capability, as in "9.0".
func (c Capability) String() string { return fmt.Sprintf("%d.%d", c.Major, c.Minor) }

func (c Capability) before(d Capability) bool {
	return c.Major < d.Major || c.Major == d.Major && c.Minor < d.Minor
}

// Info describes a device.
type Info struct {
	Index           int
	Name            string // such as "NVIDIA H200"
	Capability      Capability
	Memory          int64 // bytes
	Multiprocessors int
}

// Driver returns the CUDA version that the driver supports, as in "12.9", or "" without one.
func Driver() string {
	if v := cu.Version(); v > 0 {
		return fmt.Sprintf("%d.%d", v/1000, v%1000/10)
	}
	return ""
}

// Devices lists the machine's devices. If there are none, the error is an
// [*UnavailableError].
func Devices() ([]Info, error) {
	if err := unavailable(); err != nil {
		return nil, err
	}
	count, err := cu.NumDevices()
	if err != nil {
		return nil, explain("cuDeviceGetCount", err)
	}
	if count == 0 {
		return nil, noDevice
	}
	devices := make([]Info, count)
	for i := range devices {
		if devices[i], err = info(i); err != nil {
			return nil, err
		}
	}
	return devices, nil
}

var noDevice = &UnavailableError{"the driver finds no device",
	"look at nvidia-smi and at CUDA_VISIBLE_DEVICES, and give a container its GPU (--gpus all)"}

// unavailable returns the reason why the driver cannot be used, or nil.
func unavailable() error {
	const installDriver = "install NVIDIA's driver 450 or newer, and give a container its GPU (--gpus all)"
	var code C.int
	message := C.GoString(C.libcuda_problem(&code))
	switch {
	case code < 0:
		return &UnavailableError{"NVIDIA's driver library cannot be loaded (" + message + ")", installDriver}
	case code == 100:
		return noDevice
	case code == 803:
		return &UnavailableError{"the driver's library and its kernel module are of different versions (803)",
			"restart the machine after the driver's update"}
	case code != 0:
		return &UnavailableError{fmt.Sprintf("the driver fails to start (code %d)", code),
			"look at nvidia-smi and at the kernel's log (dmesg)"}
	case cu.Version() < oldestDriver:
		return &UnavailableError{"the driver is too old (CUDA " + Driver() + ")", installDriver}
	}
	return nil
}

func info(index int) (Info, error) {
	fail := func(call string, err error) (Info, error) { return Info{}, explain(call, err) }
	device, err := cu.GetDevice(index)
	if err != nil {
		return fail("cuDeviceGet", err)
	}
	name, err := device.Name()
	if err != nil {
		return fail("cuDeviceGetName", err)
	}
	memory, err := device.TotalMem()
	if err != nil {
		return fail("cuDeviceTotalMem", err)
	}
	var values [3]int
	for i, attribute := range []cu.DeviceAttribute{
		cu.ComputeCapabilityMajor, cu.ComputeCapabilityMinor, cu.MultiprocessorCount,
	} {
		if values[i], err = device.Attribute(attribute); err != nil {
			return fail("cuDeviceGetAttribute", err)
		}
	}
	return Info{index, name, Capability{values[0], values[1]}, memory, values[2]}, nil
}

// Backend implements [compute.Backend] on one device.
type Backend struct {
	info    Info
	device  cu.Device
	context cu.CUContext
	stream  cu.Stream
	kernels map[string]*kernel
	modules []cu.Module
	launcher
	pool
	staging
	blas
	numbers     [4]float64   // destination of the downloads of Dot and Extremes
	groups      deviceGroups // see onDevice
	mostWeights int          // if not 0, replaces the constant in tests
}

// Open returns a backend for the device with this index. The caller must close it.
func Open(index int) (*Backend, error) {
	devices, err := Devices()
	if err != nil {
		return nil, err
	}
	if index < 0 || index >= len(devices) {
		return nil, &IndexError{index, len(devices)}
	}
	if c := devices[index].Capability; c.before(oldestDevice) {
		return nil, &UnavailableError{
			fmt.Sprintf("GPU %d (%s) has compute capability %s", index, devices[index].Name, c),
			"the kernels need " + oldestDevice.String() + " or newer",
		}
	}
	b := &Backend{info: devices[index], kernels: map[string]*kernel{}}
	if err := b.tryOpen(); err != nil {
		b.Close()
		return nil, fmt.Errorf("GPU %d (%s): %w", index, devices[index].Name, err)
	}
	return b, nil
}

// tryOpen returns the failure that open panics with.
func (b *Backend) tryOpen() (err error) {
	defer func() {
		var failure *compute.Failure
		if errors.As(err, &failure) {
			err = failure.Err
		}
	}()
	defer compute.Catch(&err)
	b.open()
	return nil
}

func (b *Backend) open() {
	var err error
	if b.device, err = cu.GetDevice(b.info.Index); err != nil {
		fail(explain("cuDeviceGet", err))
	}
	if b.context, err = b.device.RetainPrimaryCtx(); err != nil {
		fail(explain("cuDevicePrimaryCtxRetain", err))
	}
	b.do("cuStreamCreate", func() (err error) {
		b.stream, err = cu.MakeStream(cu.NonBlocking)
		return err
	})
	b.prepare()
	b.openStaging()
	b.loadModules()
	b.openBLAS()
}

// Close releases all resources. The backend and its buffers must no longer be used. Errors
// are ignored, as they do not matter on a lost device.
func (b *Backend) Close() {
	if b.context == (cu.CUContext{}) {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if cu.SetCurrentContext(b.context) == nil {
		_ = b.stream.Synchronize()
		b.closeBLAS()
		b.closeStaging()
		b.closePool()
		for _, module := range b.modules {
			_ = module.Unload()
		}
		if b.stream != (cu.Stream{}) {
			_ = b.stream.Destroy()
		}
		_ = cu.SetCurrentContext(cu.CUContext{})
	}
	_ = b.device.ReleasePrimaryCtx()
	b.context = cu.CUContext{}
}

// Info describes the backend's device.
func (b *Backend) Info() Info { return b.info }

// Name implements [compute.Backend].
func (b *Backend) Name() string {
	return fmt.Sprintf("cuda:%d (%s, CUDA %s, cuBLAS %s)", b.info.Index, b.info.Name, Driver(), b.blasVersion)
}

// do makes calls of the driver in one thread with the context set. call names them in
// errors. A failure panics.
func (b *Backend) do(call string, f func() error) {
	runtime.LockOSThread()
	err := cu.SetCurrentContext(b.context)
	if err == nil {
		err = f()
	}
	runtime.UnlockOSThread()
	if err != nil {
		fail(explain(call, err))
	}
}

// fail panics with the failure of a device.
func fail(err error) { panic(&compute.Failure{Err: err}) }

// synchronize waits for the stream.
func (b *Backend) synchronize() { b.do("cuStreamSynchronize", b.stream.Synchronize) }
