//go:build cgo && !purego

package cpu

/*
#include <cblas.h>
*/
import "C"

import "strings"

// BLAS returns the name and version of the library for matrix products, and the processor that its kernels are for:
// those of another round differently.
func BLAS() string {
	// "OpenBLAS 0.3.34 USE64BITINT DYNAMIC_ARCH NO_AFFINITY SkylakeX MAX_THREADS=64"
	words := strings.Fields(C.GoString(C.scipy_openblas_get_config()))
	return strings.Join(append(words[:min(len(words), 2)], C.GoString(C.scipy_openblas_get_corename())), " ")
}
