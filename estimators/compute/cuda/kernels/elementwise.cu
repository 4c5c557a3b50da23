// Elementwise operations: one load of each argument and one store an element, so they run
// at the speed of memory. dst may be an argument, for an element is read and written by
// the same thread.

#include "grid.h"

// k_affine sets d to alpha*x + beta*d + shift. What counts 0 times is not read; the stride
// of an x that is a single row is 0.
extern "C" __global__ void k_affine(double *d, long long ds, double alpha, const double *x, long long xs, double beta,
                                    double shift, long long n, long long k) {
    EACH_ROW(i, n) EACH_COL(j, k) {
        double v = shift;
        if (beta != 0) v += beta * d[i * ds + j];
        if (alpha != 0) v += alpha * x[i * xs + j];
        d[i * ds + j] = v;
    }
}

// k_mul sets d to w*x + beta*d. w's elements are wc apart: 1, or 0 where w is a column.
extern "C" __global__ void k_mul(double *d, long long ds, const double *w, long long ws, long long wc, const double *x,
                                 long long xs, double beta, long long n, long long k) {
    EACH_ROW(i, n) EACH_COL(j, k) {
        const double product = w[i * ws + j * wc] * x[i * xs + j];
        d[i * ds + j] = beta == 0 ? product : product + beta * d[i * ds + j];
    }
}

// k_divide_where sets d to a/b, but to 0 where x <= y; a NaN compares false.
extern "C" __global__ void k_divide_where(double *d, long long ds, const double *a, long long as, const double *b,
                                          long long bs, const double *x, long long xs, const double *y, long long ys,
                                          long long n, long long k) {
    EACH_ROW(i, n) EACH_COL(j, k) {
        d[i * ds + j] = x[i * xs + j] <= y[i * ys + j] ? 0 : a[i * as + j] / b[i * bs + j];
    }
}

// k_mirror copies the upper triangle of the square x to the lower one.
extern "C" __global__ void k_mirror(double *x, long long xs, long long n) {
    EACH_ROW(i, n) EACH_COL(j, i) x[i * xs + j] = x[j * xs + i];
}
