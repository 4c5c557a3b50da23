// Elementwise operations: one load of each argument and one store an element, so they run
// at the speed of memory. dst may be an argument, for an element is read and written by
// the same thread.

#include "grid.h"

extern "C" __global__ void k_fill(double *x, long long xs, long long n, long long k, double v) {
    EACH_ROW(i, n) EACH_COL(j, k) x[i * xs + j] = v;
}

extern "C" __global__ void k_copy(double *d, long long ds, const double *x, long long xs, long long n, long long k) {
    EACH_ROW(i, n) EACH_COL(j, k) d[i * ds + j] = x[i * xs + j];
}

extern "C" __global__ void k_scale(double alpha, double *x, long long xs, long long n, long long k) {
    EACH_ROW(i, n) EACH_COL(j, k) x[i * xs + j] *= alpha;
}

extern "C" __global__ void k_axpy(double alpha, const double *x, long long xs, double *y, long long ys, long long n,
                                  long long k) {
    EACH_ROW(i, n) EACH_COL(j, k) y[i * ys + j] += alpha * x[i * xs + j];
}

// k_axpy_cols adds alpha_j times column j of x to column j of y.
extern "C" __global__ void k_axpy_cols(const double *alpha, const double *x, long long xs, double *y, long long ys,
                                       long long n, long long k) {
    EACH_ROW(i, n) EACH_COL(j, k) y[i * ys + j] += alpha[j] * x[i * xs + j];
}

extern "C" __global__ void k_affine(double *d, long long ds, double scale, const double *x, long long xs, double shift,
                                    long long n, long long k) {
    EACH_ROW(i, n) EACH_COL(j, k) d[i * ds + j] = scale * x[i * xs + j] + shift;
}

extern "C" __global__ void k_mul(double *d, long long ds, const double *a, long long as, const double *b, long long bs,
                                 long long n, long long k) {
    EACH_ROW(i, n) EACH_COL(j, k) d[i * ds + j] = a[i * as + j] * b[i * bs + j];
}

extern "C" __global__ void k_mul_add(double *d, long long ds, const double *a, long long as, const double *b,
                                     long long bs, long long n, long long k) {
    EACH_ROW(i, n) EACH_COL(j, k) d[i * ds + j] += a[i * as + j] * b[i * bs + j];
}

extern "C" __global__ void k_scale_rows(double *d, long long ds, const double *w, long long ws, const double *x,
                                        long long xs, long long n, long long k) {
    EACH_ROW(i, n) EACH_COL(j, k) d[i * ds + j] = w[i * ws] * x[i * xs + j];
}

// k_divide_where sets d to a/b where mask is positive and to 0 elsewhere, where b may be 0.
extern "C" __global__ void k_divide_where(double *d, long long ds, const double *a, long long as, const double *b,
                                          long long bs, const double *mask, long long ms, long long n, long long k) {
    EACH_ROW(i, n) EACH_COL(j, k) d[i * ds + j] = mask[i * ms + j] > 0 ? a[i * as + j] / b[i * bs + j] : 0;
}

// k_exceeds sets d to 0 where x <= factor*y; a NaN compares false, and exceeds.
extern "C" __global__ void k_exceeds(double *d, long long ds, const double *x, long long xs, const double *y,
                                     long long ys, double factor, long long n, long long k) {
    EACH_ROW(i, n) EACH_COL(j, k) d[i * ds + j] = x[i * xs + j] <= factor * y[i * ys + j] ? 0 : 1;
}

// k_add_at adds v to the element at x: a single thread.
extern "C" __global__ void k_add_at(double *x, double v) { *x += v; }

// k_mirror copies the upper triangle of the square x to the lower one.
extern "C" __global__ void k_mirror(double *x, long long xs, long long n) {
    EACH_ROW(i, n) EACH_COL(j, i) x[i * xs + j] = x[j * xs + i];
}
