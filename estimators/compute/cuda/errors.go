//go:build gpu

package cuda

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gorgonia.org/cu"
)

// UnavailableError explains why there is no device to compute on.
type UnavailableError struct {
	Reason string // the problem
	Remedy string // its remedy
}

// Error implements error.
func (e *UnavailableError) Error() string { return "no GPU: " + e.Reason + "; " + e.Remedy }

// IndexError reports a device number that does not exist.
type IndexError struct {
	Index int // requested device
	Count int // number of devices
}

// Error implements error.
func (e *IndexError) Error() string {
	if e.Count == 1 {
		return fmt.Sprintf("there is no GPU %d: this machine has one, number 0", e.Index)
	}
	return fmt.Sprintf("there is no GPU %d: this machine has %d, numbers 0 to %d", e.Index, e.Count, e.Count-1)
}

// OutOfMemoryError reports an allocation for which the device has no room, even after the
// pool has released its free buffers. Sizes are in bytes.
type OutOfMemoryError struct {
	Asked int64 // size of this allocation
	InUse int64 // in use by this backend's buffers
	Free  int64 // on the device
	Total int64 // on the device
}

// Error implements error.
func (e *OutOfMemoryError) Error() string {
	return fmt.Sprintf("the GPU is out of memory: %s asked for, %s free of %s, %s in use here; "+
		"use smaller batches, a GPU with more memory, or end what else runs on this one",
		size(e.Asked), size(e.Free), size(e.Total), size(e.InUse))
}

// TooLarge reports whether an empty device would have no room either: buffers can use at most nine tenths of a device,
// since the driver and libraries also need memory.
func (e *OutOfMemoryError) TooLarge() bool {
	const share = 0.9
	return float64(e.InUse+e.Asked) > share*float64(e.Total)
}

// Available returns the total number of bytes that this backend's buffers could have.
func (e *OutOfMemoryError) Available() int64 { return e.InUse + e.Free }

// size formats a number of bytes in a suitable unit.
func size(bytes int64) string {
	switch {
	case bytes >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(bytes)/(1<<30))
	case bytes >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// DeviceLostError reports a failure after which this program can no longer use the device: a
// hardware error, a reset, or a kernel that accessed memory out of bounds. Launches are
// asynchronous, so the failure may have been caused by an earlier call.
type DeviceLostError struct {
	Call string // the call that reported the failure
	Err  error  // the driver's code
}

// Error implements error.
func (e *DeviceLostError) Error() string {
	return fmt.Sprintf("the GPU was lost: %v in %s; look for Xid lines in the kernel's log (dmesg)", e.Err, e.Call)
}

// Unwrap returns the driver's code.
func (e *DeviceLostError) Unwrap() error { return e.Err }

// CallError reports any other failure of the driver or of cuBLAS.
type CallError struct {
	Call string
	Err  error
}

// Error implements error.
func (e *CallError) Error() string {
	return fmt.Sprintf("the GPU's driver refused %s: %v", e.Call, e.Err)
}

// Unwrap returns the driver's code.
func (e *CallError) Unwrap() error { return e.Err }

// PTXError reports that the driver cannot compile the kernels.
type PTXError struct {
	Module string // the module of the kernels
	Device string // name and compute capability
	Driver string // the CUDA version that the driver supports
	Log    string // messages of the driver's compiler
	Err    error
}

// Error implements error.
func (e *PTXError) Error() string {
	log := e.Log
	if log == "" {
		log = "no message"
	}
	return fmt.Sprintf("the driver (CUDA %s) cannot compile the kernels %s for %s: %v: %s; "+
		"they need compute capability 7.0 or newer and a driver for CUDA 11.0 or newer",
		e.Driver, e.Module, e.Device, e.Err, strings.TrimSpace(log))
}

// Unwrap returns the driver's code.
func (e *PTXError) Unwrap() error { return e.Err }

// BLASError reports that cuBLAS is missing or does not work.
type BLASError struct {
	Reason string
}

// Error implements error.
func (e *BLASError) Error() string {
	return "cuBLAS: " + e.Reason + "; install the CUDA toolkit 12 or 13 (or the PyPI package nvidia-cublas-cu12) " +
		"and put the folder with libcublas.so.12 or .13 on LD_LIBRARY_PATH"
}

// lost lists the codes after which a context cannot be used.
var lost = []error{
	cu.IllegalAddress, cu.LaunchFailed, cu.LaunchTimeout, cu.HardwareStackError, cu.IllegalInstruction,
	cu.MisalignedAddress, cu.InvalidAddressSpace, cu.InvalidPc, cu.Assert, cu.EccUncorrectable,
	cu.NvlinkUncorrectable, cu.ContextIsDestroyed, cu.Deinitialized, cu.Unknown,
}

// explain wraps the driver's code, or nil, of one call.
func explain(call string, err error) error {
	isCode := func(code error) bool { return errors.Is(err, code) }
	switch {
	case err == nil:
		return nil
	case slices.ContainsFunc(lost, isCode):
		return &DeviceLostError{call, err}
	}
	return &CallError{call, err}
}
