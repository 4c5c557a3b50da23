//go:build cgo && !purego

#include "kernels.h"

#include <math.h>
#include <string.h>

#include <cblas.h>

// One binary runs on any x86-64: the loader picks the widest clone that the
// processor has.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define WIDE __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WIDE
#endif

#define ROWS(n) for (long i = 0; i < (n); i++)
#define COLS(k) for (long j = 0; j < (k); j++)

static long min(long x, long y) { return x < y ? x : y; }

WIDE void k_fill(double *x, long xs, long n, long k, double v) {
    ROWS(n) COLS(k) x[i * xs + j] = v;
}

// A shift of -0 adds nothing: x + -0 is x, also where x is -0.
WIDE void k_affine(double *d, long ds, double alpha, const double *x, long xs, double beta, double shift, long n, long k) {
    if (beta == 0)
        ROWS(n) COLS(k) d[i * ds + j] = alpha * x[i * xs + j] + shift;
    else
        ROWS(n) COLS(k) d[i * ds + j] = alpha * x[i * xs + j] + (beta * d[i * ds + j] + shift);
}

WIDE void k_mul(double *d, long ds, const double *w, long ws, long wc, const double *x, long xs, double beta, long n,
                long k) {
    if (beta == 0 && wc == 0)
        ROWS(n) {
            const double wi = w[i * ws];
            COLS(k) d[i * ds + j] = wi * x[i * xs + j];
        }
    else if (beta == 0)
        ROWS(n) COLS(k) d[i * ds + j] = w[i * ws + j] * x[i * xs + j];
    else if (beta == 1 && wc == 1)
        ROWS(n) COLS(k) d[i * ds + j] += w[i * ws + j] * x[i * xs + j];
    else
        ROWS(n) COLS(k) d[i * ds + j] = w[i * ws + j * wc] * x[i * xs + j] + beta * d[i * ds + j];
}

// Eight running sums, so that the additions of a row do not wait for one another
// and the order does not depend on the width of the vectors.
static inline __attribute__((always_inline)) double dot_row(const double *x, const double *y, long k) {
    double s[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    long j = 0;
    for (; j + 8 <= k; j += 8)
        for (int l = 0; l < 8; l++) s[l] += x[j + l] * y[j + l];
    for (; j < k; j++) s[j & 7] += x[j] * y[j];
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

WIDE double k_dot(const double *x, long xs, const double *y, long ys, long n, long k) {
    if (xs == k && ys == k) return dot_row(x, y, n * k);
    double sum = 0;
    ROWS(n) sum += dot_row(x + i * xs, y + i * ys, k);
    return sum;
}

WIDE void k_row_dots(double *d, long ds, const double *a, long as, const double *b, long bs, double beta, long n, long k) {
    ROWS(n) {
        const double s = dot_row(a + i * as, b + i * bs, k);
        d[i * ds] = beta == 0 ? s : beta * d[i * ds] + s;
    }
}

WIDE void k_sum_rows(double *d, const double *x, long xs, long n, long k) {
    COLS(k) d[j] = 0;
    ROWS(n) COLS(k) d[j] += x[i * xs + j];
}

WIDE void k_col_dots(double *d, const double *x, long xs, const double *y, long ys, long n, long k) {
    COLS(k) d[j] = 0;
    ROWS(n) COLS(k) d[j] += x[i * xs + j] * y[i * ys + j];
}

// tanh x = t/(t+2) with t = exp(2|x|) - 1, which keeps full relative accuracy at
// small x. exp(y)-1 = 2^m (exp(r)-1) + (2^m - 1) with y = m ln 2 + r, |r| <= ln 2/2,
// and a Taylor polynomial of degree 13 (error below 1e-17) for exp(r)-1. There are
// no branches or calls, so the compiler makes vectors of it.
static inline __attribute__((always_inline)) double tanh_one(double x) {
    const double shifter = 0x1.8p52;
    double y = 2 * fabs(x);
    y = y > 44 ? 44 : y; // tanh is 1 to the last bit beyond 22; NaN passes
    const double shifted = y * 0x1.71547652b82fep0 + shifter;
    const double m = shifted - shifter;
    const double r = (y - m * 0x1.62e42fee00000p-1) - m * 0x1.a39ef35793c76p-33;
    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r * r + r;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023) << 52; // the low bits of shifted hold m
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    const double t = scale * p + (scale - 1);
    return copysign(t / (t + 2), x);
}

WIDE void k_tanh(double *z, long zs, const double *bias, long n, long k) {
    ROWS(n) COLS(k) z[i * zs + j] = tanh_one(z[i * zs + j] + bias[j]);
}

WIDE void k_tanh_grad(double *d, long ds, const double *h, long hs, long n, long k) {
    ROWS(n) COLS(k) d[i * ds + j] *= 1 - h[i * hs + j] * h[i * hs + j];
}

// The four cubic convolution weights (Keys 1981, a = -1/2) of the point z and the
// index of the first of their grid points.
typedef struct {
    long first;
    double w[4];
} stencil;

static inline __attribute__((always_inline)) double place(double z, double low, double step, long m, long *first) {
    double at = (z - low) / step;
    at = at < 1 ? 1 : at;
    at = at > m - 2 ? m - 2 : at;
    long cell = (long)at;
    cell = cell > m - 3 ? m - 3 : cell;
    cell = cell < 1 ? 1 : cell; // a NaN converts to anything; its weights are NaN wherever they go
    *first = cell - 1;
    return at - (double)cell;
}

static inline __attribute__((always_inline)) stencil weights(double z, double low, double step, long m) {
    stencil s;
    const double u = place(z, low, step, m, &s.first);
    s.w[0] = ((-0.5 * u + 1) * u - 0.5) * u;
    s.w[1] = (1.5 * u - 2.5) * u * u + 1;
    s.w[2] = ((-1.5 * u + 2) * u + 0.5) * u;
    s.w[3] = (0.5 * u - 0.5) * u * u;
    return s;
}

static inline __attribute__((always_inline)) stencil weight_grads(double z, double low, double step, long m) {
    stencil s;
    const double u = place(z, low, step, m, &s.first);
    s.w[0] = ((-1.5 * u + 2) * u - 0.5) / step;
    s.w[1] = (4.5 * u - 5) * u / step;
    s.w[2] = ((-4.5 * u + 4) * u + 0.5) / step;
    s.w[3] = (1.5 * u - 1) * u / step;
    return s;
}

WIDE void k_interpolate(double *d, long ds, const double *z, long zs, const double *table, long ts, double low,
                        double step, long m, long n, long r) {
    ROWS(n) {
        const stencil s = weights(z[i * zs], low, step, m);
        const double *t = table + s.first * ts;
        double *out = d + i * ds;
        COLS(r) out[j] = (s.w[0] * t[j] + s.w[1] * t[ts + j]) + (s.w[2] * t[2 * ts + j] + s.w[3] * t[3 * ts + j]);
    }
}

WIDE void k_interpolate_trans(double *d, long ds, const double *z, long zs, const double *x, long xs, double low,
                              double step, long m, long n, long r) {
    for (long g = 0; g < m; g++) COLS(r) d[g * ds + j] = 0;
    ROWS(n) {
        const stencil s = weights(z[i * zs], low, step, m);
        double *out = d + s.first * ds;
        const double *in = x + i * xs;
        for (int q = 0; q < 4; q++) COLS(r) out[q * ds + j] += s.w[q] * in[j];
    }
}

WIDE void k_interpolate_grad(double *d, long ds, const double *z, long zs, const double *table, long ts,
                             const double *c, long cs, double low, double step, long m, long n, long r) {
    ROWS(n) {
        const stencil s = weight_grads(z[i * zs], low, step, m);
        const double *t = table + s.first * ts;
        double sum = 0;
        for (int q = 0; q < 4; q++) sum += s.w[q] * dot_row(t + q * ts, c + i * cs, r);
        d[i * ds] = sum;
    }
}

WIDE void k_interpolate_gram(double *d, long ds, const double *zi, const double *zj, long zs, double low, double step,
                             long m, long n) {
    for (long g = 0; g < m; g++) COLS(m) d[g * ds + j] = 0;
    ROWS(n) {
        const stencil a = weights(zi[i * zs], low, step, m), b = weights(zj[i * zs], low, step, m);
        double *out = d + a.first * ds + b.first;
        for (int q = 0; q < 4; q++)
            for (int p = 0; p < 4; p++) out[q * ds + p] += a.w[q] * b.w[p];
    }
}

WIDE void k_interpolate_gram_grad(double *d, long ds, const double *zi, const double *zj, long zs, const double *table,
                                  long ts, double low, double step, long m, long n) {
    ROWS(n) {
        const stencil a = weight_grads(zi[i * zs], low, step, m), b = weights(zj[i * zs], low, step, m);
        const double *t = table + a.first * ts + b.first;
        double sum = 0;
        for (int q = 0; q < 4; q++)
            sum += a.w[q] * ((b.w[0] * t[q * ts] + b.w[1] * t[q * ts + 1]) +
                             (b.w[2] * t[q * ts + 2] + b.w[3] * t[q * ts + 3]));
        d[i * ds] += sum;
    }
}

// scratch holds a group's rows of d, with their signs, and of h, so that one matrix
// product makes the sum of their outer products.
void k_group_outer(double *dst, long dsts, const double *d, long ds, const double *h, long hs, const int32_t *order,
                   const int32_t *bounds, const double *signs, long lo, long hi, long dk, long hk, double *scratch) {
    for (long g = lo; g < hi; g++) {
        const long size = bounds[g + 1] - bounds[g];
        double *out = dst + (g - lo) * dsts;
        if (size == 0) {
            for (long j = 0; j < dk * hk; j++) out[j] = 0;
            continue;
        }
        double *dg = scratch, *hg = scratch + size * dk;
        for (long i = 0; i < size; i++) {
            const long row = order[bounds[g] + i];
            COLS(dk) dg[i * dk + j] = signs[row] * d[row * ds + j];
            memcpy(hg + i * hk, h + row * hs, (size_t)hk * sizeof(double));
        }
        scipy_cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, dk, hk, size, 1, dg, dk, hg, hk, 0, out, hk);
    }
}

WIDE void k_group_sum(double *dst, long dsts, const double *x, long xs, const int32_t *order, const int32_t *bounds,
                      const double *signs, long lo, long hi, long k) {
    for (long g = lo; g < hi; g++) {
        double *out = dst + (g - lo) * dsts;
        COLS(k) out[j] = 0;
        for (long i = bounds[g]; i < bounds[g + 1]; i++) {
            const long row = order[i];
            const double sign = signs[row];
            COLS(k) out[j] += sign * x[row * xs + j];
        }
    }
}

// OpenBLAS multiplies small matrices as they lie, without packing them first: on AVX-512, 512 x 64 by 64 x 64 so at 100 in
// place of 68 GFLOP/s. It does so up to a million multiplications, and fastest with blocks such as these; the transpose of b
// it reads slowly. Wide rows are too far apart for that, and few are soon done.
#define SMALL 1000000
#define MOST_ROWS 512
#define MOST_COLS 128
#define MOST_TERMS 72
#define WIDEST 256
#define FEW 16

// part returns the length of equal parts of n, none longer than most, in multiples of 8.
static long part(long n, long most) {
    const long parts = (n + most - 1) / most;
    return min(((n + parts - 1) / parts + 7) / 8 * 8, most);
}

void k_gemm(enum CBLAS_TRANSPOSE ta, enum CBLAS_TRANSPOSE tb, long m, long n, long k, double alpha, const double *a, long as,
            const double *b, long bs, double beta, double *c, long cs) {
    static _Thread_local double transposed[WIDEST * WIDEST];
    if (ta == CblasNoTrans && tb == CblasTrans && m >= 4 * FEW && n <= WIDEST && k <= WIDEST) {
        for (long l = 0; l < k; l++)
            for (long j = 0; j < n; j++)
                transposed[l * n + j] = b[j * bs + l];
        b = transposed, bs = n, tb = CblasNoTrans;
    }
    long rows = m, cols = n, terms = k;
    if (tb == CblasNoTrans && m * n * k > SMALL && m >= FEW && FEW <= n && n <= WIDEST) {
        cols = part(n, MOST_COLS), terms = part(k, MOST_TERMS);
        rows = part(m, min(MOST_ROWS, SMALL / (cols * terms) / 8 * 8));
    }
    for (long i = 0; i < m; i += rows)
        for (long j = 0; j < n; j += cols)
            for (long l = 0; l < k; l += terms)
                scipy_cblas_dgemm(CblasRowMajor, ta, tb, min(rows, m - i), min(cols, n - j), min(terms, k - l), alpha,
                                  a + (ta == CblasTrans ? l * as + i : i * as + l), as,
                                  b + (tb == CblasTrans ? j * bs + l : l * bs + j), bs, l ? 1 : beta, c + i * cs + j, cs);
}
