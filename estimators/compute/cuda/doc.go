// Package cuda is the compute backend of an NVIDIA GPU. It is built with the tag
// gpu; without it the package is empty. (The tag is not cuda: gorgonia.org/gorgonia has
// one of that name, which does not compile any more.)
//
// # The driver
//
// gorgonia.org/cu is the interface to NVIDIA's driver: one context (the device's
// primary one), one stream, and the kernels, which the driver compiles from the
// embedded PTX when the backend is opened. The program is linked with libcuda, an
// archive of jumps into the machine's own driver, so it is built without one and
// starts without one: [Devices] then says why there is no device. cuBLAS is loaded
// when a backend is opened.
//
// A driver's context belongs to a thread, and goroutines move between threads: each
// call of the driver is made with the goroutine locked to its thread and the context
// set, in do.
//
// # Order
//
// All work runs in the order of the one stream, and the host runs ahead of it. Memory
// that is released is handed out again at once: what uses it next is later in the
// stream than what used it before. The host waits in Download alone.
//
// # Memory
//
// A pool keeps what it has had from the driver, in sizes of which there are eight to
// each power of two: batches differ in length, and an update of another length finds
// its buffers there all the same. Only when the device is full does the pool give
// free buffers back. Uploads go through two page-locked buffers by turns, so that the
// copy of one overlaps the filling of the other, and no copy reads Go memory after
// Upload has returned.
//
// # Kernels
//
// kernels/*.cu, compiled to PTX by NVRTC (make ptx); both are in the repository, and
// a test compares them. A kernel is extern "C" __global__ void with parameters of
// eight bytes only: const double*, double*, const int*, long long, double (the driver
// copies eight bytes an argument). It uses threadIdx, blockIdx, blockDim, gridDim,
// __shared__ arrays of fixed size, __syncthreads and the functions of math.h; no
// atomics, for sums have a fixed order, and nothing of warps, for the emulator of the
// tests runs the same source on the host (package directory emulator). Products and
// sums may be contracted to fused ones on the device, so results agree with the
// processor's to rounding, not in bits.
//
// # Failures
//
// [Devices] and [Open] return errors. After that a device that fails panics with a
// [compute.Failure] around one of the error types of this package; compute.Catch
// turns it into an error. The backend is then of no use any more but to be closed.
package cuda
