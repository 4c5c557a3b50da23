//go:build cgo && !purego

package cpu

/*
#include <cblas.h>
#include <lapacke.h>
#include "kernels.h"
*/
import "C"

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/blas/gonum"
	"gonum.org/v1/gonum/lapack"
	lapackgonum "gonum.org/v1/gonum/lapack/gonum"
	"gonum.org/v1/gonum/lapack/lapack64"
)

const blasName = "OpenBLAS"

func init() {
	C.scipy_openblas_set_num_threads(1)
	blas64.Use(openBLAS{})
	lapack64.Use(openLAPACK{})
}

// openBLAS is gonum's BLAS with the time-consuming routines replaced. Where a size could
// be wrong, gonum's own checks run first: C would read beyond the end of a slice.
type openBLAS struct{ gonum.Implementation }

func trans(t blas.Transpose) uint32 {
	if t == blas.NoTrans {
		return C.CblasNoTrans
	}
	return C.CblasTrans
}

func uplo(u blas.Uplo) uint32 {
	if u == blas.Upper {
		return C.CblasUpper
	}
	return C.CblasLower
}

// fits panics unless a slice holds a rows × cols matrix of stride ld.
func fits(name string, rows, cols, ld int, x []float64) {
	if rows < 0 || cols < 0 || ld < max(1, cols) || (rows > 0 && cols > 0 && len(x) < (rows-1)*ld+cols) {
		panic("cpu: " + name + " is too short for its matrix")
	}
}

func shape(t blas.Transpose, rows, cols int) (int, int) {
	if t == blas.NoTrans {
		return rows, cols
	}
	return cols, rows
}

// Dgemm implements blas.Float64Level3.
func (o openBLAS) Dgemm(tA, tB blas.Transpose, m, n, k int, alpha float64, a []float64, lda int, b []float64, ldb int,
	beta float64, c []float64, ldc int) {
	if m == 0 || n == 0 || k == 0 {
		o.Implementation.Dgemm(tA, tB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
		return
	}
	ra, ca := shape(tA, m, k)
	rb, cb := shape(tB, k, n)
	fits("a", ra, ca, lda, a)
	fits("b", rb, cb, ldb, b)
	fits("c", m, n, ldc, c)
	C.k_gemm(trans(tA), trans(tB), C.long(m), C.long(n), C.long(k), C.double(alpha),
		ptr(a), C.long(lda), ptr(b), C.long(ldb), C.double(beta), ptr(c), C.long(ldc))
}

// Dsyrk implements blas.Float64Level3.
func (o openBLAS) Dsyrk(ul blas.Uplo, t blas.Transpose, n, k int, alpha float64, a []float64, lda int, beta float64,
	c []float64, ldc int) {
	if n == 0 || k == 0 {
		o.Implementation.Dsyrk(ul, t, n, k, alpha, a, lda, beta, c, ldc)
		return
	}
	ra, ca := shape(t, n, k)
	fits("a", ra, ca, lda, a)
	fits("c", n, n, ldc, c)
	C.scipy_cblas_dsyrk(C.CblasRowMajor, uplo(ul), trans(t), C.blasint(n), C.blasint(k), C.double(alpha),
		ptr(a), C.blasint(lda), C.double(beta), ptr(c), C.blasint(ldc))
}

// Dtrsm implements blas.Float64Level3.
func (o openBLAS) Dtrsm(side blas.Side, ul blas.Uplo, t blas.Transpose, d blas.Diag, m, n int, alpha float64,
	a []float64, lda int, b []float64, ldb int) {
	if m == 0 || n == 0 {
		return
	}
	order, cside := m, uint32(C.CblasLeft)
	if side == blas.Right {
		order, cside = n, C.CblasRight
	}
	cdiag := uint32(C.CblasNonUnit)
	if d == blas.Unit {
		cdiag = C.CblasUnit
	}
	fits("a", order, order, lda, a)
	fits("b", m, n, ldb, b)
	C.scipy_cblas_dtrsm(C.CblasRowMajor, cside, uplo(ul), trans(t), cdiag, C.blasint(m), C.blasint(n), C.double(alpha),
		ptr(a), C.blasint(lda), ptr(b), C.blasint(ldb))
}

// openLAPACK is gonum's LAPACK with the symmetric eigenproblem, the Cholesky
// factorisation and the routines that use it replaced.
type openLAPACK struct{ lapackgonum.Implementation }

// Dsyev implements lapack.Float64 by divide and conquer.
func (o openLAPACK) Dsyev(jobz lapack.EVJob, ul blas.Uplo, n int, a []float64, lda int, w, work []float64,
	lwork int) bool {
	if lwork == -1 || n == 0 {
		return o.Implementation.Dsyev(jobz, ul, n, a, lda, w, work, lwork)
	}
	fits("a", n, n, lda, a)
	fits("w", 1, n, n, w)
	for i := range n {
		for _, v := range a[i*lda : i*lda+n] {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return false // for some of these LAPACK does not return
			}
		}
	}
	job, half := C.char('V'), C.char('U')
	if jobz == lapack.EVNone {
		job = 'N'
	}
	if ul == blas.Lower {
		half = 'L'
	}
	return C.scipy_LAPACKE_dsyevd(C.LAPACK_ROW_MAJOR, job, half, C.int(n), ptr(a), C.int(lda), ptr(w)) == 0
}

// The upper triangle of a row-major symmetric matrix is the lower one of LAPACK's
// column-major matrix, so that no copy is needed.
func columnMajorHalf(ul blas.Uplo) C.char {
	if ul == blas.Upper {
		return 'L'
	}
	return 'U'
}

// Dpotrf implements lapack.Float64.
func (o openLAPACK) Dpotrf(ul blas.Uplo, n int, a []float64, lda int) bool {
	if n == 0 {
		return true
	}
	fits("a", n, n, lda, a)
	return C.scipy_LAPACKE_dpotrf(C.LAPACK_COL_MAJOR, columnMajorHalf(ul), C.int(n), ptr(a), C.int(lda)) == 0
}

// Dpotri implements lapack.Float64.
func (o openLAPACK) Dpotri(ul blas.Uplo, n int, a []float64, lda int) bool {
	if n == 0 {
		return true
	}
	fits("a", n, n, lda, a)
	return C.scipy_LAPACKE_dpotri(C.LAPACK_COL_MAJOR, columnMajorHalf(ul), C.int(n), ptr(a), C.int(lda)) == 0
}

// Dpocon implements lapack.Float64.
func (o openLAPACK) Dpocon(ul blas.Uplo, n int, a []float64, lda int, norm float64, work []float64,
	iwork []int) float64 {
	if n == 0 || math.IsNaN(norm) {
		return o.Implementation.Dpocon(ul, n, a, lda, norm, work, iwork)
	}
	fits("a", n, n, lda, a)
	var reciprocal C.double
	if C.scipy_LAPACKE_dpocon(C.LAPACK_COL_MAJOR, columnMajorHalf(ul), C.int(n), ptr(a), C.int(lda), C.double(norm),
		&reciprocal) != 0 {
		return 0
	}
	return float64(reciprocal)
}

// Dtrtri implements lapack.Float64.
func (o openLAPACK) Dtrtri(ul blas.Uplo, diag blas.Diag, n int, a []float64, lda int) bool {
	if n == 0 {
		return true
	}
	fits("a", n, n, lda, a)
	kind := C.char('N')
	if diag == blas.Unit {
		kind = 'U'
	}
	return C.scipy_LAPACKE_dtrtri(C.LAPACK_COL_MAJOR, columnMajorHalf(ul), kind, C.int(n), ptr(a), C.int(lda)) == 0
}
