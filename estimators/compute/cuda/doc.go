// Package cuda is the compute backend for NVIDIA GPUs. It is built with the tag gpu;
// without it the package is empty. (The tag is not cuda because gorgonia.org/gorgonia has
// a tag of that name with which it no longer compiles.)
//
// # The driver
//
// gorgonia.org/cu is the interface to NVIDIA's driver: one context (the device's
// primary one), one stream, and the kernels, which the driver compiles from the
// embedded PTX when the backend is opened. The program is linked with libcuda, an archive
// of jumps into the installed driver, so it can be built and started without a driver:
// [Devices] then explains why there is no device. cuBLAS is loaded when a backend is
// opened.
//
// A driver's context belongs to a thread, and goroutines move between threads: each
// call of the driver is made with the goroutine locked to its thread and the context
// set, in do.
//
// # Order
//
// All work runs in the order of the single stream, and the host runs ahead of it. Released
// memory can be reused at once, because its next use is later in the stream than the
// previous one. The host waits only in Download.
//
// # Memory
//
// A pool keeps the memory allocated by the driver, in eight sizes per power of two: batches
// differ in length, and updates of different lengths can then share buffers. The pool
// returns free buffers to the driver only when the device is full. Uploads alternate
// between two page-locked buffers, so that one is copied while the other is filled, and no
// copy reads Go memory after Upload has returned.
//
// # Kernels
//
// The kernels are in kernels/*.cu and are compiled to PTX by NVRTC (make ptx); both are in
// the repository, and a test compares them. A kernel is an extern "C" __global__ void
// function whose parameters have eight bytes each: const double*, double*, const int*, long
// long, double (gorgonia.org/cu copies eight bytes per argument). It may use threadIdx,
// blockIdx, blockDim, gridDim, __shared__ arrays of fixed size, __syncthreads and the
// functions of math.h, but no atomics, because sums must have a fixed order, and no warp
// functions, because the emulator of the tests runs the same source on the host (directory
// emulator). The device may contract products and sums to fused operations, so results
// agree with those of the CPU up to rounding, not bit for bit.
//
// # Failures
//
// [Devices] and [Open] return errors. Afterwards, a failing device causes a panic with a
// [compute.Failure] that wraps an error type of this package; compute.Catch turns it into
// an error. The backend can then only be closed.
package cuda
