//go:build cgo && !purego

package cpu

/*
#include <cblas.h>
*/
import "C"

import "strings"

// BLAS names the library behind the products, and its version.
func BLAS() string {
	// "OpenBLAS 0.3.34 USE64BITINT DYNAMIC_ARCH NO_AFFINITY SkylakeX MAX_THREADS=64"
	words := strings.Fields(C.GoString(C.scipy_openblas_get_config()))
	return strings.Join(words[:min(len(words), 2)], " ")
}
