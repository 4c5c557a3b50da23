//go:build gpu

package cuda

/*
#include <stdlib.h>
#include "cublas.h"
*/
import "C"

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// cuBLAS's matrices are column-major. A row-major matrix of stride s read as
// column-major with leading dimension s is its transpose, so row-major identities are
// transposed before cuBLAS computes them:
//
//	C = op(A) op(B)        is  C' = op(B)' op(A)': the factors change places
//	C = A A' or A'A        is  itself, of A's transpose and the other triangle
//
// The transposition flags are unchanged, except that of dsyrk, which is negated.

// blasWorkspace is the size of cuBLAS's workspace: a fixed workspace makes results
// reproducible, and NVIDIA recommends 32 MiB for its largest devices.
const blasWorkspace = 32 << 20

type blas struct {
	handle      C.cublas
	blasVersion string
	workspace   *buffer
}

// blasLibraries are tried in this order: the newest version that this package supports,
// any version, and the directories where toolkits install it without configuring the loader.
var blasLibraries = []string{"libcublas.so.13", "libcublas.so.12", "libcublas.so", "/usr/local/cuda/lib64/libcublas.so"}

func (b *Backend) openBLAS() {
	if err := loadBLAS(); err != nil {
		fail(err)
	}
	b.workspace = b.Alloc(blasWorkspace / float64Bytes).(*buffer)
	var opened C.cublas_opened
	b.callBLAS("cublasCreate", func() C.int {
		opened = C.cublas_open(unsafe.Pointer(b.stream.C()), C.address(b.workspace.address), blasWorkspace)
		b.handle = opened.handle
		return opened.status
	})
	v := int(opened.version)
	b.blasVersion = fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100)
}

// loadBLAS loads cuBLAS. It may be called repeatedly.
func loadBLAS() error {
	names := make([]*C.char, len(blasLibraries)+1)
	for i, name := range blasLibraries {
		names[i] = C.CString(name)
		defer C.free(unsafe.Pointer(names[i]))
	}
	var why [512]C.char
	if C.cublas_load(&names[0], &why[0], C.int(len(why))) != 0 {
		return &BLASError{"it cannot be loaded (" + C.GoString(&why[0]) + ")"}
	}
	return nil
}

func (b *Backend) closeBLAS() { C.cublas_close(b.handle) }

// first returns the address of the block's first element, for C.
func first(x compute.Block) C.address { return C.address(address(x)) }

// callBLAS makes a call of cuBLAS. The codes 13 (execution failed) and 14 (internal error)
// indicate a failing device.
func (b *Backend) callBLAS(call string, f func() C.int) {
	var status C.int
	b.do(call, func() error {
		status = f()
		return nil
	})
	switch status {
	case 0:
	case 1, 3:
		fail(&BLASError{fmt.Sprintf("%s returned %d (not initialised, or no memory for it)", call, int(status))})
	case 13, 14:
		fail(&DeviceLostError{call, fmt.Errorf("cuBLAS status %d", int(status))})
	default:
		fail(&CallError{call, fmt.Errorf("cuBLAS status %d", int(status))})
	}
}

// leading returns the block's leading dimension. The stride of a single row is arbitrary.
func leading(x compute.Block) C.int {
	if x.Rows <= 1 {
		return index(max(1, x.Cols))
	}
	return index(x.Stride)
}

// index converts a size to cuBLAS's 32 bits.
func index(n int) C.int {
	if n > math.MaxInt32 {
		panic(fmt.Sprintf("cuda: cuBLAS cannot count to %d", n))
	}
	return C.int(n)
}

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// dgemm sets c to alpha*op(a)*op(b) + beta*c, where op transposes if the flag is set.
// No dimension may be 0.
func (b *Backend) dgemm(transA, transB bool, alpha float64, x, y compute.Block, beta float64, c compute.Block) {
	inner := x.Cols
	if transA {
		inner = x.Rows
	}
	b.callBLAS("cublasDgemm", func() C.int {
		return C.cublas_dgemm(b.handle, flag(transB), flag(transA), index(c.Cols), index(c.Rows), index(inner),
			C.double(alpha), first(y), leading(y), first(x), leading(x),
			C.double(beta), first(c), leading(c))
	})
}

// dsyrk sets the lower or the upper triangle of c to alpha*x*x' + beta*c, or with
// trans to alpha*x'*x + beta*c. No dimension may be 0.
func (b *Backend) dsyrk(lower, trans bool, alpha float64, x compute.Block, beta float64, c compute.Block) {
	inner := x.Cols
	if trans {
		inner = x.Rows
	}
	b.callBLAS("cublasDsyrk", func() C.int {
		return C.cublas_dsyrk(b.handle, flag(!lower), flag(!trans), index(c.Rows), index(inner),
			C.double(alpha), first(x), leading(x), C.double(beta), first(c), leading(c))
	})
}
