// Cubic convolution on a grid (Keys 1981, a = -1/2). Whatever is gathered (values and
// derivatives at the points) reads its four grid points directly. Sums over the points,
// which would scatter, write the rows of W in full, zeros included, and leave the sum to
// a matrix product: its order is fixed, and a product of dense matrices is what the device
// is fastest at.

#include "grid.h"

// The four grid points about a position: the first of them, and their weights.
struct stencil {
    long long first;
    double w[4];
};

// place sets first, and returns the position between the second point and the third, in
// [0, 1]. Positions too far out move to the ends of the grid.
static __device__ double place(double z, double low, double step, long long m, long long *first) {
    double at = (z - low) / step;
    at = at < 1 ? 1 : at;
    at = at > m - 2 ? m - 2 : at;
    long long cell = (long long)at;
    cell = cell > m - 3 ? m - 3 : cell;
    cell = cell < 1 ? 1 : cell; // a NaN converts to anything; its weights are NaN wherever they go
    *first = cell - 1;
    return at - (double)cell;
}

static __device__ stencil weights(double z, double low, double step, long long m) {
    stencil s;
    const double u = place(z, low, step, m, &s.first);
    s.w[0] = ((-0.5 * u + 1) * u - 0.5) * u;
    s.w[1] = (1.5 * u - 2.5) * u * u + 1;
    s.w[2] = ((-1.5 * u + 2) * u + 0.5) * u;
    s.w[3] = (0.5 * u - 0.5) * u * u;
    return s;
}

static __device__ stencil weight_grads(double z, double low, double step, long long m) {
    stencil s;
    const double u = place(z, low, step, m, &s.first);
    s.w[0] = ((-1.5 * u + 2) * u - 0.5) / step;
    s.w[1] = (4.5 * u - 5) * u / step;
    s.w[2] = ((-4.5 * u + 4) * u + 0.5) / step;
    s.w[3] = (1.5 * u - 1) * u / step;
    return s;
}

// four is the stencil's sum over the points t, t[stride], t[2 stride], t[3 stride].
static __device__ double four(const stencil &s, const double *t, long long stride) {
    return (s.w[0] * t[0] + s.w[1] * t[stride]) + (s.w[2] * t[2 * stride] + s.w[3] * t[3 * stride]);
}

extern "C" __global__ void k_interpolate(double *d, long long ds, const double *z, long long zs, const double *table,
                                         long long ts, double low, double step, long long m, long long n,
                                         long long r) {
    EACH_ROW(i, n) {
        const stencil s = weights(z[i * zs], low, step, m);
        EACH_COL(j, r) d[i * ds + j] = four(s, table + s.first * ts + j, ts);
    }
}

// k_interpolation_weights sets w (n × dims*m) to the rows of W = [W(z_1), ..., W(z_dims)].
extern "C" __global__ void k_interpolation_weights(double *w, long long ws, const double *z, long long zs, double low,
                                                   double step, long long m, long long n, long long dims) {
    EACH_COL(c, dims * m) {
        const long long dim = c / m, point = c % m;
        EACH_ROW(i, n) {
            const stencil s = weights(z[i * zs + dim], low, step, m);
            const long long q = point - s.first;
            w[i * ws + c] = q == 0 ? s.w[0] : q == 1 ? s.w[1] : q == 2 ? s.w[2] : q == 3 ? s.w[3] : 0;
        }
    }
}

// k_interpolate_grad: a row of threads for a row of c, every row once, as in k_row_dots.
// d may be z or c: all is read before the barriers in tree, all written after.
extern "C" __global__ void k_interpolate_grad(double *d, long long ds, const double *z, long long zs,
                                              const double *table, long long ts, const double *c, long long cs,
                                              double low, double step, long long m, long long n, long long r) {
    __shared__ double sum[THREADS];
    const long long start = (long long)blockIdx.x * blockDim.y, i = start + threadIdx.y;
    double total = 0;
    if (i < n) {
        const stencil s = weight_grads(z[i * zs], low, step, m);
        for (long long j = threadIdx.x; j < r; j += blockDim.x)
            total += c[i * cs + j] * four(s, table + s.first * ts + j, ts);
    }
    sum[threadIdx.x * blockDim.y + threadIdx.y] = total;
    tree(sum, blockDim.y);
    const int t = thread();
    if (t < (int)blockDim.y && start + t < n) d[(start + t) * ds] = sum[t];
}

// k_interpolate_gram_grad: a thread for a row and a dimension. The 16 numbers that it
// takes from each of dims blocks of q lie anywhere, but q as a whole lies in the
// second-level cache; the product W Q would be some hundred times the arithmetic.
extern "C" __global__ void k_interpolate_gram_grad(double *d, long long ds, const double *z, long long zs,
                                                   const double *q, long long qs, double low, double step, long long m,
                                                   long long n, long long dims) {
    EACH_ROW(i, n) EACH_COL(j, dims) {
        const stencil a = weight_grads(z[i * zs + j], low, step, m);
        const double *rows = q + (j * m + a.first) * qs;
        double sum = 0;
        for (long long l = 0; l < dims; l++) {
            const stencil b = weights(z[i * zs + l], low, step, m);
            const double *t = rows + l * m + b.first;
            sum += (a.w[0] * four(b, t, 1) + a.w[1] * four(b, t + qs, 1)) +
                   (a.w[2] * four(b, t + 2 * qs, 1) + a.w[3] * four(b, t + 3 * qs, 1));
        }
        d[i * ds + j] = sum;
    }
}
